"""Group metadata records of the recorded groups of a fleet, decoded: what the model builds its tables from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from bench.fleet.fleet import Fleet
from bench.fleet.memberships import SESSION_TIMEOUT_MS, covers, own_partitions, rebalance_timeout_ms
from bench.fleet.places import STORED, record_offset, record_partition
from bench.fleet.rebalances import leader_slot
from bench.fleet.timeline import births, is_empty, member, stored_ms, timelines
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.records import DECODED, TOPIC_PARTITIONS
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def group_metadata(groups: DataFrame, fleet: Fleet) -> DataFrame:
    """Columns of DECODED: one row a rebalance of `groups` that is not superseded, its members with their assignments."""
    slot, empty = F.col("slot"), is_empty()
    gone = F.when(F.col("change") == "left", slot)
    everyone = F.sequence(F.lit(0), F.col("members") - 1)
    here = F.when(gone.isNull(), everyone).otherwise(F.filter(everyone, lambda one: one != gone))
    leader = member(fleet, leader_slot(), births(leader_slot(), F.col("births")))
    columns = {
        "topic": F.lit(OFFSETS_TOPIC),
        "partition": record_partition(),
        "offset": record_offset(F.col("k"), STORED),
        "timestamp_ms": stored_ms(F.col("t"), leaving=gone.isNotNull()),
        "source": F.lit("synthetic"),
        "kind": F.lit("group_metadata"),
        "key_type": F.lit(2),
        "value_version": F.lit(3),
        "is_tombstone": F.lit(False),
        "group_id": F.col("group_id"),
        "protocol_type": F.lit("consumer"),
        "generation_id": F.col("k") + 1,
        "protocol_name": F.when(~empty, F.col("protocol")),
        "leader_id": F.when(~empty, leader["member_id"]),
        "state_timestamp_ms": F.when(empty, F.col("t.begin_ms")).otherwise(F.col("t.joined_ms")),
        "members": F.col("_members"),
    }
    # Columns that are read in a lambda must not have the name of one that is being made: Spark takes that one.
    rows = timelines(groups, fleet).where("not is_superseded").withColumnRenamed("topic", "_topic")
    rows = rows.withColumn("_members", F.transform(here, lambda one: _member(fleet, one, gone)))
    return shaped(rows.select(*(value.alias(name) for name, value in columns.items())), DECODED)


def _member(fleet: Fleet, slot: Column, gone: Column) -> Column:
    """A member in DECODED's words: Java's slash before the address, an assignment of one topic."""
    who = member(fleet, slot, births(slot, F.col("births")))
    taken = F.filter(own_partitions(gone), lambda partition: covers(gone, partition) == slot)
    held = F.concat(own_partitions(slot), F.coalesce(taken, F.array().cast("array<int>")))
    parts = {
        "member_id": who["member_id"],
        "group_instance_id": who["group_instance_id"],
        "client_id": who["client_id"],
        "client_host": F.concat(F.lit("/"), who["client_host"]),
        "rebalance_timeout_ms": rebalance_timeout_ms(fleet),
        "session_timeout_ms": F.lit(SESSION_TIMEOUT_MS),
        "subscription": F.struct(
            F.array("_topic").alias("topics"),
            F.lit(None).cast(ArrayType(TOPIC_PARTITIONS)).alias("owned"),
            F.lit(-1).alias("generation_id"),
            F.lit(None).cast("string").alias("rack_id"),
        ),
        "assignment": F.array(F.struct(F.col("_topic").alias("topic"), held.alias("partitions"))),
    }
    return F.struct(*(value.alias(name) for name, value in parts.items()))
