"""5. How long were groups stopped, and how much work was not done?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import finding, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stopped(rebalances: DataFrame, ownership: DataFrame | None = None) -> DataFrame:
    """One row a group, day (UTC, of the beginning) and basis.

    A rebalance stops the group from its beginning to its end; with records alone, only the SYNC phase counts,
    so inferred rows are lower bounds. Eager protocols stop all partitions; cooperative ones those that changed owner in
    the new generation, according to `ownership` (without it, none). Groups of the new protocol do not stop: what counts is
    the longest time in which a partition had no owner, and the sum of these times. Columns: `group_id`, `day`, `basis`;
    `rebalances`; `stopped_ms` (ms); `longest_ms` (ms); `partition_ms` (partitions x ms; null: no partition count is
    known); `first`, `last`: packed evidence.
    """
    has_epochs = F.coalesce(F.col("group_type") == "consumer", F.lit(False))
    rows = rebalances.select(
        "group_id",
        F.col("to_generation").alias("from_generation"),
        F.to_date(F.timestamp_millis("ts_ms")).alias("day"),
        "basis",
        F.when(has_epochs, F.col("unowned_ms")).otherwise(F.coalesce("total_ms", "sync_ms")).alias("ms"),
        "partitions",
        F.when(has_epochs, F.col("unowned_partition_ms")).alias("unowned_partition_ms"),
        F.coalesce(F.col("protocol").contains("cooperative"), F.lit(False)).alias("is_cooperative"),
        packed().alias("place"),
    ).where("ms is not null")
    still = F.when(~F.col("is_cooperative"), F.col("partitions"))
    if ownership is not None:
        moved = (
            ownership.where("previous_owner is not null and previous_owner != owner")
            .groupBy("group_id", "from_generation")
            .agg(F.count("*").alias("moved"))
        )
        # Only cooperative rebalances need the join; the others would only make it expensive.
        cooperative = rows.where("is_cooperative").join(moved, ["group_id", "from_generation"], "left")
        rows = rows.where("not is_cooperative").withColumn("moved", F.lit(None).cast("long")).unionByName(cooperative)
        still = F.when(F.col("is_cooperative"), F.coalesce("moved", F.lit(0))).otherwise(F.col("partitions"))
    return rows.groupBy("group_id", "day", "basis").agg(
        F.count("*").alias("rebalances"),
        F.sum("ms").alias("stopped_ms"),
        F.max("ms").alias("longest_ms"),
        F.sum(F.coalesce("unowned_partition_ms", still.cast("long") * F.col("ms"))).alias("partition_ms"),
        F.min("place").alias("first"),
        F.max("place").alias("last"),
    )


def findings(rows: DataFrame, *, warning_ms: int = 600_000, critical_ms: int = 3_600_000) -> DataFrame:
    """One finding a group and day that was stopped for `warning_ms` in total."""
    day = F.unix_millis(F.col("day").cast("timestamp"))
    return finding(
        rows.where(F.col("stopped_ms") >= warning_ms),
        analysis="stopped",
        severity=F.when(F.col("stopped_ms") >= critical_ms, "critical").otherwise("warning"),
        from_ts_ms=day,
        to_ts_ms=day + 86_400_000,
        sentence=sentence(
            "Group {group_id} spent {stopped_ms:minutes} minutes of {day} in {rebalances} rebalances, or "
            "{partition_ms:minutes} partition-minutes."
        ),
        advice="A cooperative assignor stops only partitions that move; restarts of static members stop none.",
        value=F.col("stopped_ms"),
        unit="ms",
    )
