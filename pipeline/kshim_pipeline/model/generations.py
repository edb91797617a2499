"""Snapshots -> the table generations, optionally completed from events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.model.shape import group_type, shaped
from kshim_pipeline.schemas import GENERATIONS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


SAME_MS: Final = 3_600_000
"""A generation of a record and one of an event are one when group and number agree and they lie this near in time.

Only a group that was deleted and made again has the same number twice.
"""


def generations(snapshots: DataFrame) -> DataFrame:
    """The table generations from `snapshots` of records alone."""
    order = Window.partitionBy("group_id").orderBy("ordinal")
    state_ms = F.col("state_timestamp_ms")
    is_known = (state_ms > 0) & (state_ms <= F.col("ts_ms"))
    is_empty = F.size("members") == 0
    rows = snapshots.where("is_generation").select(
        "*",
        F.when(is_empty, "Empty").otherwise("Stable").alias("state"),
        F.when(is_known, state_ms).alias("joined_ts_ms"),
        F.when(is_known & ~is_empty, F.col("ts_ms") - state_ms).alias("sync_ms"),
        F.col("protocol_name").alias("protocol"),
        F.when(is_empty, F.lit(0)).when(F.col("protocol_type") == "consumer", _assigned()).alias("_partitions"),
        F.size("members").alias("_members"),
        F.lit("records").alias("source"),
    )
    # What follows a record of the same generation is what follows the generation.
    rows = rows.withColumns(
        {
            "_next_ts_ms": F.lead("ts_ms").over(order),
            "previous_partitions": F.lag("_partitions").over(order),
        }
    )
    is_followed = F.col("_next_ts_ms").isNotNull()
    deletion = F.when(F.col("next_is_deletion"), F.col("next_ts_ms"))
    return shaped(
        rows.withColumns(
            {
                "until_ts_ms": F.least(deletion, F.col("_next_ts_ms")),
                "ended_as": F.when(deletion.isNotNull(), "deleted").when(is_followed, "generation"),
                "members": F.col("_members"),
                "partitions": F.col("_partitions"),
            }
        ),
        GENERATIONS,
    )


def _assigned() -> Column:
    """How many partitions the members of a record own."""
    return F.aggregate(
        F.flatten(F.transform("members", lambda member: F.coalesce(member["assignment"], F.array()))),
        F.lit(0),
        lambda total, topic: total + F.size(topic["partitions"]),
    )


def with_events(generations: DataFrame, events: DataFrame) -> DataFrame:
    """The table generations with those added that only `events` contain, renumbered in order of time."""
    of_events = _of_events(events).alias("e")
    known = generations.select("group_id", "generation_id", "ts_ms").alias("g")
    same = (
        (F.col("e.group_id") == F.col("g.group_id"))
        & (F.col("e.generation_id") == F.col("g.generation_id"))
        & (F.abs(F.col("e.ts_ms") - F.col("g.ts_ms")) <= SAME_MS)
    )
    union = generations.unionByName(shaped(of_events.join(known, same, "left_anti"), GENERATIONS))
    order = Window.partitionBy("group_id").orderBy("ts_ms", "generation_id")
    before = F.lag("generation_id").over(order)
    union = union.withColumn("_fell", F.coalesce((F.col("generation_id") < before).cast("int"), F.lit(0)))
    union = union.withColumns(
        {
            "ordinal": (F.row_number().over(order) - 1).cast("int"),
            "incarnation": F.coalesce(
                F.last("incarnation", ignorenulls=True).over(order), F.sum("_fell").over(order).cast("int")
            ),
            "missed": F.when(F.col("_fell") == 0, F.col("generation_id") - before - 1),
            "previous_partitions": F.lag("partitions").over(order),
            "until_ts_ms": F.coalesce(F.lead("ts_ms").over(order), F.col("until_ts_ms")),
            "ended_as": F.coalesce(
                F.when(F.col("ended_as") == "deleted", F.col("ended_as")),
                F.when(F.lead("ts_ms").over(order).isNotNull(), "generation"),
                F.col("ended_as"),
            ),
        }
    )
    return shaped(union, GENERATIONS)


def _of_events(events: DataFrame) -> DataFrame:
    """Generations in events. The incarnation is left to the records around them."""
    is_emptied = F.col("type") == "group_emptied"
    return events.where(F.col("type").isin("rebalance_completed", "group_emptied")).select(
        F.col("group").alias("group_id"),
        group_type().alias("group_type"),
        F.col("to_generation").alias("generation_id"),
        F.when(is_emptied, "Empty").otherwise("Stable").alias("state"),
        "ts_ms",
        F.when(~is_emptied, F.col("ts_ms") - F.col("sync_ms")).alias("joined_ts_ms"),
        F.when(~is_emptied, F.col("sync_ms")).alias("sync_ms"),
        "protocol_type",
        "protocol",
        "leader_id",
        F.when(is_emptied, F.lit(0)).otherwise(F.coalesce("members.joined", "members.expected")).alias("members"),
        F.when(is_emptied, F.lit(0)).alias("partitions"),
        F.lit("events").alias("source"),
        "evidence",
    )
