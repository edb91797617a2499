"""3. Which groups rebalance in storms, and is one member flapping?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import finding, member, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def storms(
    rebalances: DataFrame, migrations: DataFrame | None = None, *, gap_ms: int = 300_000, min_rebalances: int = 5
) -> DataFrame:
    """One row an episode: at least `min_rebalances` of one group, each within `gap_ms` of the previous one.

    Columns: `group_id`; `from_ts_ms`, `to_ts_ms` (ms since 1970); `rebalances`; `completed`; `stopped_ms` (ms, null:
    unknown); `per_minute`; `top_client_id`, `top_client_host`: who triggered most, `top_share` (0..1) of them,
    `top_reason`: the most frequent reason; `is_flapping`: that is one client on one host, and half of them or more;
    `migrations`: how often the group went over to the other protocol meanwhile, which is then what they are; `basis`: inferred if any is; `first`, `last`: packed evidence.
    """
    order = Window.partitionBy("group_id").orderBy("ts_ms")
    far = F.col("ts_ms") - F.lag("ts_ms").over(order) > gap_ms
    rows = rebalances.select(
        "group_id",
        "ts_ms",
        "outcome",
        F.coalesce("total_ms", "sync_ms").alias("ms"),
        "reason",
        F.col("trigger.client_id").alias("client_id"),
        F.col("trigger.client_host").alias("client_host"),
        (F.col("basis") == "observed").alias("is_observed"),
        packed().alias("place"),
        F.lit(0).alias("migrations"),
    )
    if migrations is not None:
        marks = migrations.select("group_id", "ts_ms", F.lit(1).alias("migrations"), F.lit(True).alias("is_observed"))
        rows = rows.unionByName(marks, allowMissingColumns=True)
    # Grouped with the episode as a key: Spark keeps the partitioning by group, so nothing is shuffled again.
    episodes = rows.withColumn("_new", F.coalesce(far, F.lit(True)).cast("int")).withColumn(
        "episode", F.sum("_new").over(order)
    )
    by_cause = episodes.groupBy("group_id", "episode", "reason", "client_id", "client_host").agg(
        F.sum(1 - F.col("migrations")).alias("n"),
        F.sum("migrations").alias("migrations"),
        F.count(F.when(F.col("outcome") == "completed", 1)).alias("completed"),
        F.sum("ms").alias("ms"),
        F.min("ts_ms").alias("from_ts_ms"),
        F.max("ts_ms").alias("to_ts_ms"),
        F.min(F.col("is_observed").cast("int")).alias("is_observed"),
        F.min("place").alias("first"),
        F.max("place").alias("last"),
    )
    sums = (
        F.sum("n").alias("n"),
        F.sum("migrations").alias("migrations"),
        F.sum("completed").alias("completed"),
        F.sum("ms").alias("ms"),
        F.min("from_ts_ms").alias("from_ts_ms"),
        F.max("to_ts_ms").alias("to_ts_ms"),
        F.min("is_observed").alias("is_observed"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
    )
    by_client = by_cause.groupBy("group_id", "episode", "client_id", "client_host").agg(
        F.max_by("reason", F.struct("n", "reason")).alias("reason"), *sums
    )
    top = F.max_by(F.struct("reason", "client_id", "client_host", "n"), F.struct("n", "client_id", "client_host"))
    whole = by_client.groupBy("group_id", "episode").agg(top.alias("top"), *sums)
    minutes = F.greatest(F.col("to_ts_ms") - F.col("from_ts_ms"), F.lit(1)) / 60_000
    share = F.col("top.n") / F.col("n")
    return whole.where(F.col("n") >= min_rebalances).select(
        "group_id",
        "from_ts_ms",
        "to_ts_ms",
        F.col("n").alias("rebalances"),
        "completed",
        F.col("ms").alias("stopped_ms"),
        (F.col("n") / minutes).alias("per_minute"),
        F.col("top.reason").alias("top_reason"),
        F.col("top.client_id").alias("top_client_id"),
        F.col("top.client_host").alias("top_client_host"),
        share.alias("top_share"),
        (F.col("top.client_id").isNotNull() & (share >= 0.5) & (F.col("migrations") == 0)).alias("is_flapping"),
        "migrations",
        F.when(F.col("is_observed") == 1, "observed").otherwise("inferred").alias("basis"),
        "first",
        "last",
    )


def findings(rows: DataFrame, *, critical_rebalances: int = 20) -> DataFrame:
    """One finding an episode. Those of a group that goes over to the other protocol are what that takes, and no storm."""
    flaps, migrates = F.col("is_flapping"), F.col("migrations") > 0
    return finding(
        rows,
        analysis="storms",
        severity=F.when(migrates, "info")
        .when(F.col("rebalances") >= critical_rebalances, "critical")
        .otherwise("warning"),
        member=F.when(flaps, member("top_client_id", "top_client_host")),
        cause=F.when(migrates, "migration").otherwise(F.col("top_reason")),
        sentence=F.when(
            migrates,
            sentence(
                "Group {group_id} rebalanced {rebalances} times from {from_ts_ms:clock} to {to_ts_ms:clock}, while it went over "
                "to the other protocol."
            ),
        ).otherwise(
            sentence(
                "Group {group_id} rebalanced {rebalances} times from {from_ts_ms:clock} to {to_ts_ms:clock}, for "
                "{stopped_ms:seconds} s in total; {top_share:percent} % were triggered by client {top_client_id} on "
                "{top_client_host}, mostly {top_reason}."
            )
        ),
        advice=F.when(migrates, F.lit(None))
        .when(flaps, "One client joins and leaves repeatedly: check its log and its host first.")
        .otherwise("Many members join and leave: look for a deployment, or set group.instance.id."),
        value=F.col("rebalances"),
        unit="rebalances",
    )
