"""Group metadata records -> snapshots: a group's distinct records, in order and numbered; and targets of the new protocol.

A group has one partition of `__consumer_offsets`, so offsets order its records however they were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.model.epochs import SNAPSHOT, part
from kshim_pipeline.model.shape import evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def snapshots(decoded: DataFrame, epochs: DataFrame | None = None) -> DataFrame:
    """One row a distinct group metadata record with a value, from `decoded` (columns of DECODED).

    With `epochs` (of `kshim_pipeline.model.epochs`), also one row a target of a group of the new protocol, its epoch being
    the generation. Besides the record's own columns: `group_type`; `spell`, how often that has changed; `ts_ms`; `evidence`; `number`, the group's snapshots counted from 1;
    `incarnation`, how often generation ids started again; `is_generation`, false if the record has the generation of
    the previous one (a static member rejoined); `ordinal`, the generations counted from 0; `missed`, generation ids in
    between; and of the next record: `next_ts_ms`, `next_is_deletion`, `next_generation_id`, `next_evidence`.
    """
    order = Window.partitionBy("group_id").orderBy("partition", "offset")
    formed = decoded.where("kind = 'group_metadata' and group_id is not null")
    formed = formed.select(*SNAPSHOT.names, F.lit("classic").alias("group_type"))
    if epochs is not None:
        place = ["group_id", "topic", "partition", "offset"]
        formed = formed.join(F.broadcast(part(epochs, "conversion").select(*place)), place, "left_anti")
        formed = formed.unionByName(part(epochs, "snapshot").withColumn("group_type", F.lit("consumer")))
    rows = (
        formed.select(
            "group_id",
            "group_type",
            "partition",
            "offset",
            "is_tombstone",
            F.col("timestamp_ms").alias("ts_ms"),
            "protocol_type",
            "generation_id",
            "protocol_name",
            "leader_id",
            "state_timestamp_ms",
            "members",
            evidence("topic", "partition", "offset"),
        )
        .withColumn("_before", F.lag(F.struct("partition", "offset")).over(order))
        .where(~F.coalesce(F.col("_before") == F.struct("partition", "offset"), F.lit(False)))
        .withColumns(
            {
                "_before": F.lag(F.struct("generation_id", "is_tombstone", "group_type")).over(order),
                "_after": F.lead(F.struct("ts_ms", "is_tombstone", "generation_id", "evidence")).over(order),
            }
        )
    )
    began_anew = ~F.col("is_tombstone") & F.coalesce(
        F.col("_before.is_tombstone") | (F.col("generation_id") < F.col("_before.generation_id")), F.lit(False)
    )
    is_same = ~F.col("_began_anew") & F.coalesce(F.col("generation_id") == F.col("_before.generation_id"), F.lit(False))
    is_other_type = F.coalesce(F.col("group_type") != F.col("_before.group_type"), F.lit(False))
    missed = F.col("generation_id") - F.col("_before.generation_id") - 1
    return (
        rows.withColumn("_began_anew", began_anew)
        .withColumn("is_generation", ~F.col("is_tombstone") & ~is_same)
        .withColumns(
            {
                "spell": F.sum(is_other_type.cast("int")).over(order).cast("int"),
                "incarnation": F.sum(F.col("_began_anew").cast("int")).over(order).cast("int"),
                "ordinal": (F.sum(F.col("is_generation").cast("int")).over(order) - 1).cast("int"),
                "number": F.sum((~F.col("is_tombstone")).cast("int")).over(order).cast("int"),
                "missed": F.when(F.col("is_generation") & ~F.col("_began_anew"), missed),
            }
        )
        .where(~F.col("is_tombstone"))
        .withColumns(
            {
                "next_ts_ms": F.col("_after.ts_ms"),
                "next_is_deletion": F.col("_after.is_tombstone"),
                "next_generation_id": F.col("_after.generation_id"),
                "next_evidence": F.col("_after.evidence"),
            }
        )
        .drop("_after", "_before", "_began_anew", "is_tombstone")
    )
