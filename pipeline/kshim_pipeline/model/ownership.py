"""Snapshots -> the table ownership: the owner of each partition from generation to generation.

Assignments are exploded to one row a snapshot and partition and only compared with their neighbours: comparing nested
arrays was the most expensive step. Rows that neither start nor end an interval are dropped at once, so that later steps
are proportional to the moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.model.epochs import part
from kshim_pipeline.model.memberships import exploded
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.schemas import OWNERSHIP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_OF_THE_OWNER: Final = ("owner", "member_id", "group_instance_id", "client_id", "client_host")


def ownership(snapshots: DataFrame, epochs: DataFrame | None = None) -> DataFrame:
    """The table ownership from `snapshots`; groups of other protocol types than `consumer` have none.

    Groups of the new protocol show in `epochs` (of `kshim_pipeline.model.epochs`) when each member took and gave up what.
    """
    history = Window.partitionBy("group_id", "spell", "topic", "partition").orderBy("number")
    classic = snapshots.where("protocol_type = 'consumer' and group_type = 'classic'")
    held = (
        exploded(classic.drop("partition", "offset"))
        .select(
            "group_id",
            "spell",
            "number",
            "ordinal",
            "incarnation",
            "generation_id",
            "ts_ms",
            "next_ts_ms",
            "evidence",
            *_OF_THE_OWNER,
            F.explode("_member.assignment").alias("_topic"),
        )
        .select("*", F.col("_topic.topic").alias("topic"), F.explode("_topic.partitions").alias("partition"))
        .drop("_topic")
    )
    neighbours = held.withColumns(
        {
            "_before": F.lag(F.struct("owner", "number", "incarnation")).over(history),
            "_after": F.lead(F.struct("owner", "number", "incarnation")).over(history),
        }
    )

    def goes_on(neighbour: str, step: int) -> Column:
        return F.coalesce(
            (F.col(f"{neighbour}.owner") == F.col("owner"))
            & (F.col(f"{neighbour}.number") == F.col("number") + step)
            & (F.col(f"{neighbour}.incarnation") == F.col("incarnation")),
            F.lit(False),
        )

    ends = neighbours.withColumns({"_begins": ~goes_on("_before", -1), "_ends": ~goes_on("_after", 1)})
    ends = ends.where("_begins or _ends").drop("_before", "_after")
    own_end = F.struct("generation_id", "ordinal", "next_ts_ms")
    paired = ends.withColumn("_end", F.when(F.col("_ends"), own_end).otherwise(F.lead(own_end).over(history)))
    intervals = (
        paired.where("_begins")
        .withColumn("_previous", F.lag(F.struct("owner", "_end.next_ts_ms")).over(history))
        .select(
            "group_id",
            "topic",
            "partition",
            *_OF_THE_OWNER,
            "incarnation",
            F.col("generation_id").alias("from_generation"),
            F.col("_end.generation_id").alias("to_generation"),
            (F.col("_end.ordinal") - F.col("ordinal") + 1).alias("generations"),
            F.col("ts_ms").alias("from_ts_ms"),
            F.col("_end.next_ts_ms").alias("to_ts_ms"),
            F.col("_previous.owner").alias("previous_owner"),
            (F.col("ts_ms") - F.col("_previous.next_ts_ms")).alias("unowned_ms"),
            "evidence",
        )
    )
    table = shaped(intervals, OWNERSHIP)
    return table if epochs is None else table.unionByName(shaped(part(epochs, "interval"), OWNERSHIP))
