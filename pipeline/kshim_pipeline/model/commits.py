"""Offset commit records -> the table commits, each with the latest generation at the time it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.model.shape import evidence, shaped
from kshim_pipeline.schemas import COMMITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def commits(decoded: DataFrame, snapshots: DataFrame) -> DataFrame:
    """The table commits from `decoded` (columns of DECODED) and its `snapshots`.

    A commit does not contain its generation. A group's records lie in one partition in the order they were written, so
    it is the last generation before the commit, or the one whose assignment was just being replaced.
    """
    made = decoded.where("kind = 'offset_commit' and group_id is not null").select(
        "group_id",
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("committed_topic").alias("topic"),
        F.col("committed_partition").alias("partition"),
        "committed_offset",
        "leader_epoch",
        F.coalesce("commit_timestamp_ms", "timestamp_ms").alias("ts_ms"),
        evidence("topic", "partition", "offset"),
        F.lit(None).cast("struct<incarnation:int,generation_id:int>").alias("_generation"),
    )
    formed = snapshots.select(
        "group_id",
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.struct("incarnation", "generation_id").alias("_generation"),
    )
    order = Window.partitionBy("group_id").orderBy("_partition", "_offset")
    rows = made.unionByName(formed, allowMissingColumns=True).withColumns(
        {
            "_generation": F.last("_generation", ignorenulls=True).over(order),
            "_before": F.lag(F.struct("_partition", "_offset")).over(order),
        }
    )
    is_twice = F.coalesce(F.col("_before") == F.struct("_partition", "_offset"), F.lit(False))
    return shaped(
        rows.where(F.col("topic").isNotNull() & ~is_twice).select(
            "*", "_generation.incarnation", "_generation.generation_id"
        ),
        COMMITS,
    )
