"""10. How much does lag grow during a rebalance, and how long does it take to recover?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import finding, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_PARTITION = ("group_id", "topic", "partition")


def lag_curve(commits: DataFrame, log_ends: DataFrame, *, bucket_ms: int = 60_000) -> DataFrame:
    """One row a group and `bucket_ms` in which log ends were sampled.

    Columns: `group_id`; `ts_ms`, end of the bucket (ms since 1970); `lag`: log end minus the offset committed by
    then, the largest of the bucket a partition, summed over partitions; `partitions` that were sampled. Log ends should
    be sampled at least once a bucket.
    """
    committed = commits.select(*_PARTITION, "ts_ms", "committed_offset", F.lit(None).cast("long").alias("end"))
    consumed = commits.select(*_PARTITION).distinct()
    sampled = consumed.join(log_ends, ["topic", "partition"]).select(
        *_PARTITION, "ts_ms", F.lit(None).cast("long").alias("committed_offset"), F.col("log_end_offset").alias("end")
    )
    # A commit of the same instant counts: commits have no end, and nulls come first.
    order = Window.partitionBy(*_PARTITION).orderBy("ts_ms", F.col("end").asc_nulls_first())
    known = committed.unionByName(sampled).withColumn(
        "_committed", F.last("committed_offset", ignorenulls=True).over(order)
    )
    lag = F.greatest(F.col("end") - F.col("_committed"), F.lit(0))
    bucket = F.col("ts_ms") - F.col("ts_ms") % bucket_ms + bucket_ms
    return (
        known.where("end is not null and _committed is not null")
        .groupBy(*_PARTITION, bucket.alias("ts_ms"))
        .agg(F.max(lag).alias("lag"))
        .groupBy("group_id", "ts_ms")
        .agg(F.sum("lag").alias("lag"), F.count("*").alias("partitions"))
    )


def recovery(
    rebalances: DataFrame,
    commits: DataFrame,
    log_ends: DataFrame,
    *,
    bucket_ms: int = 60_000,
    horizon_ms: int = 3_600_000,
    tolerance: float = 0.1,
) -> DataFrame:
    """One row a completed rebalance with lag known before and after it.

    The curve from its beginning to the next completed rebalance of the group counts, for at most `horizon_ms` (ms). Lag
    has recovered when it stays within `tolerance` (a share) of its previous value. Columns: `group_id`, `ts_ms` (ms
    since 1970), `to_generation`, `reason`; `lag_before`, `peak_lag` (records); `recovery_ms`: from the beginning to
    recovery, in steps of `bucket_ms` (ms; null: not within the horizon or before the next); `is_interrupted`: the next
    came first; `basis`; `first`: packed evidence.
    """
    curve = lag_curve(commits, log_ends, bucket_ms=bucket_ms).select(
        "group_id", "ts_ms", "lag", F.lit(None).cast(_REBALANCE).alias("rebalance")
    )
    done = rebalances.where("outcome = 'completed'").select(
        "group_id",
        "ts_ms",
        F.lit(None).cast("long").alias("lag"),
        F.struct("ts_ms", "to_generation", "reason", "basis", packed().alias("place"))
        .cast(_REBALANCE)
        .alias("rebalance"),
    )
    order = Window.partitionBy("group_id").orderBy("ts_ms", F.col("lag").asc_nulls_first())
    rows = curve.unionByName(done).withColumns(
        {
            "_lag": F.last("lag", ignorenulls=True).over(order),
            "_rebalance": F.last("rebalance", ignorenulls=True).over(order),
            "_next_ts_ms": F.lead(F.when(F.col("rebalance").isNotNull(), F.col("ts_ms"))).over(order),
        }
    )
    rows = rows.withColumn(
        "_before", F.last(F.when(F.col("rebalance").isNotNull(), F.col("_lag")), ignorenulls=True).over(order)
    )
    behind = F.col("lag") > F.col("_before") * (1 + tolerance)
    of_one = rows.where(
        F.col("lag").isNotNull()
        & F.col("_before").isNotNull()
        & (F.col("ts_ms") - F.col("_rebalance.ts_ms") <= horizon_ms)
    )
    return (
        of_one.groupBy("group_id", F.col("_rebalance").alias("r"))
        .agg(
            F.min("_before").alias("lag_before"),
            F.max("lag").alias("peak_lag"),
            F.max(F.when(behind, F.col("ts_ms"))).alias("_last_behind"),
            F.max("ts_ms").alias("_last"),
            F.max("_next_ts_ms").alias("_next"),
        )
        .select(
            "group_id",
            "r.ts_ms",
            "r.to_generation",
            "r.reason",
            "lag_before",
            "peak_lag",
            F.when(F.col("_last_behind").isNull(), F.lit(0))
            .when(F.col("_last_behind") < F.col("_last"), F.col("_last_behind") + bucket_ms - F.col("r.ts_ms"))
            .alias("recovery_ms"),
            (F.col("_next").isNotNull() & F.coalesce(F.col("_last_behind") == F.col("_last"), F.lit(False))).alias(
                "is_interrupted"
            ),
            "r.basis",
            F.col("r.place").alias("first"),
        )
    )


_REBALANCE = "struct<ts_ms:bigint,to_generation:int,reason:string,basis:string,place:bigint>"


def findings(rows: DataFrame, *, slow_ms: int = 600_000) -> DataFrame:
    """One finding a rebalance whose lag did not recover within `slow_ms`."""
    lost = F.col("recovery_ms").isNull()
    return finding(
        rows.where(lost | (F.col("recovery_ms") >= slow_ms)),
        analysis="recovery",
        severity=F.when(lost, "critical").otherwise("warning"),
        from_ts_ms=F.col("ts_ms"),
        to_ts_ms=F.col("ts_ms") + F.col("recovery_ms"),
        cause="slow_recovery",
        sentence=sentence(
            "After the rebalance of group {group_id} at {ts_ms:clock}, lag rose from {lag_before} to {peak_lag} records "
            "and {outcome}.",
            outcome=F.when(F.col("is_interrupted"), "had not recovered when the next rebalance began")
            .when(lost, "did not recover")
            .otherwise(sentence("recovered after {recovery_ms:seconds} s")),
        ),
        advice="The group has little spare capacity: add members or partitions, or rebalance at times of low traffic.",
        value=F.col("peak_lag") - F.col("lag_before"),
        unit="records",
    )
