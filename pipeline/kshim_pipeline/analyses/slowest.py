"""4. Which clients and hosts delay rebalances most, over the whole fleet?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import awaited, finding, member, packed, sentence
from kshim_pipeline.schemas import INFERRED, OBSERVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def slowest(rebalances: DataFrame, *, min_wait_ms: int = 1_000, top: int = 1_000) -> DataFrame:
    """The `top` clients by the time that groups waited for them, one row a client id and host.

    A rebalance counts for the member that joined last (in groups of the new protocol, gave up partitions last), unless it
    was new (no member waited for it) or the wait was shorter than `min_wait_ms`. Columns: `rank` from 1; `client_id`, `client_host`; `groups`; `times` last;
    `lost_ms` (ms, sum of waits), `mean_ms`, `max_ms` (ms); `basis`: inferred if any is, from records of the new protocol; `first`, `last`: packed evidence.
    """
    late = rebalances.withColumn("late", awaited())
    late = late.where((F.col("late.wait_ms") >= min_wait_ms) & ~F.coalesce("late.is_new", F.lit(False)))
    per_group = late.groupBy(
        F.col("late.client_id").alias("client_id"),
        F.col("late.client_host").alias("client_host"),
        "group_id",
    ).agg(
        F.count("*").alias("times"),
        F.sum("late.wait_ms").alias("lost_ms"),
        F.max("late.wait_ms").alias("max_ms"),
        F.bool_and(F.col("basis") == OBSERVED).alias("is_observed"),
        F.min(packed()).alias("first"),
        F.max(packed()).alias("last"),
    )
    clients = per_group.groupBy("client_id", "client_host").agg(
        F.count("*").alias("groups"),
        F.sum("times").alias("times"),
        F.sum("lost_ms").alias("lost_ms"),
        F.max("max_ms").alias("max_ms"),
        F.bool_and("is_observed").alias("is_observed"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
    )
    by_loss = (F.col("lost_ms").desc(), F.col("client_id"), F.col("client_host"))
    ranked = clients.orderBy(*by_loss).limit(top).withColumn("_all", F.lit(0))
    return ranked.select(
        F.row_number().over(Window.partitionBy("_all").orderBy(*by_loss)).alias("rank"),
        "client_id",
        "client_host",
        "groups",
        "times",
        "lost_ms",
        (F.col("lost_ms") / F.col("times")).cast("long").alias("mean_ms"),
        "max_ms",
        F.when(F.col("is_observed"), OBSERVED).otherwise(INFERRED).alias("basis"),
        "first",
        "last",
    )


def findings(rows: DataFrame, *, top: int = 20, min_times: int = 3) -> DataFrame:
    """One finding for each of the first `top` clients that was last at least `min_times` times."""
    return finding(
        rows.where((F.col("rank") <= top) & (F.col("times") >= min_times)),
        analysis="slowest",
        severity=F.when(F.col("lost_ms") >= 600_000, "warning").otherwise("info"),
        member=member("client_id", "client_host"),
        cause="slow_member",
        sentence=sentence(
            "Client {client_id} on {client_host} was the last to join, or to give up partitions, in {times} rebalances of {groups} "
            "groups, which waited {lost_ms:seconds} s for it, at most {max_ms:seconds} s at a time."
        ),
        advice="It polls too rarely: lower max.poll.records or the work per poll, or check its host.",
        value=F.col("lost_ms"),
        unit="ms",
    )
