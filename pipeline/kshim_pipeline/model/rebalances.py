"""Observed and inferred rebalances -> one table: each rebalance once, from the most detailed source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kshim_pipeline.model.generations import SAME_MS
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.schemas import REBALANCES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_LENT: Final = ("came", "went", "missed", "partitions", "protocol_type", "protocol", "joined", "unowned_partition_ms")
"""What the lesser source lends to the better one where that is silent."""


def rebalances(best: DataFrame, *lesser: DataFrame) -> DataFrame:
    """The table rebalances, from sources in order of preference: events, then the log, then records.

    Rows describe the same rebalance if group and generation agree, they ended within SAME_MS of each other, and both
    have an end. The row of the preferred source is kept, with the counts that only the other has.
    """
    table = best
    for source in lesser:
        table = _over(table, source)
    return shaped(table, REBALANCES)


def _over(best: DataFrame, lesser: DataFrame) -> DataFrame:
    b = best.withColumn("_generation", _made()).alias("b")
    r = lesser.withColumn("_generation", _made()).alias("r")

    def ended(side: str) -> Column:
        return F.coalesce(f"{side}.ended_ts_ms", f"{side}.ts_ms")

    same = (
        (F.col("b.group_id") == F.col("r.group_id"))
        & (F.col("b._generation") == F.col("r._generation"))
        & (F.col("b.group_type") == F.col("r.group_type"))
        & (F.abs(ended("b") - ended("r")) <= SAME_MS)
    )

    def chosen(name: str) -> Column:
        better, other = F.col(f"b.{name}"), F.col(f"r.{name}")
        if name in _LENT:
            return F.coalesce(better, other)
        return F.when(F.col("b.group_id").isNotNull(), better).otherwise(other)

    return b.join(r, same, "full_outer").select(*(chosen(name).alias(name) for name in REBALANCES.names))


def _made() -> Column:
    """The generation that a rebalance created; if all members left, that of the empty group; null: it created none.

    In groups of the new protocol each rebalance has its epoch, however it ends.
    """
    has_ended = F.col("outcome").isin("completed", "aborted")
    created = F.coalesce("to_generation", F.col("from_generation") + 1)
    return F.when(has_ended | (F.col("group_type") == "consumer"), created)


def with_clients(rebalances: DataFrame, memberships: DataFrame) -> DataFrame:
    """`rebalances` with client id and host of triggers that have only a member or instance id."""
    known = (
        memberships.where("change in ('joined', 'replaced')")
        .groupBy("group_id", "member_id")
        .agg(F.min(F.struct("group_instance_id", "client_id", "client_host")).alias("_known"))
    )
    rows = rebalances.withColumn("member_id", F.col("trigger.member_id")).join(known, ["group_id", "member_id"], "left")
    trigger = F.when(
        F.col("trigger").isNotNull(),
        F.struct(
            F.col("trigger.member_id").alias("member_id"),
            *(
                F.coalesce(f"trigger.{name}", f"_known.{name}").alias(name)
                for name in ("group_instance_id", "client_id", "client_host")
            ),
            F.col("trigger.client_reason").alias("client_reason"),
        ),
    )
    return shaped(rows.withColumn("trigger", trigger), REBALANCES)
