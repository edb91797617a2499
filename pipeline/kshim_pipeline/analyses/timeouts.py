"""11. Do session and poll timeouts fit the observed behaviour?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import finding, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_STEP_MS = 5_000


def timeouts(memberships: DataFrame, *, back_ms: int = 120_000, min_waits: int = 20, spare: int = 3) -> DataFrame:
    """One row a group: its timeouts, the observed waits, and suitable values.

    Columns: `group_id`; `session_timeout_ms`, `rebalance_timeout_ms` (ms, the largest of the members; the second is
    `max.poll.interval.ms` in Java clients; null: unknown); `waits`, JOIN waits of existing members, and their
    `wait_p50_ms`, `wait_p95_ms`, `wait_p99_ms`, `wait_max_ms` (ms); `kicked_by_session`, `kicked_by_rebalance`: members
    lost to either; `came_back`: of the first, those whose client and host rejoined within `back_ms`, and `back_p95_ms`
    after how long (ms; without zombies, whose successor had joined before); `fit_session_timeout_ms`,
    `fit_rebalance_timeout_ms` (ms, null: no change); `first`: packed evidence.

    A session timeout is too short if at least half of the members lost to it rejoined: it should exceed their pause. A
    rebalance timeout is too short if members were lost to it (twice as long is advised, since the time they would have
    needed is unknown), and too long if `min_waits` waits all stayed below a `spare`th of it and no member was lost: a
    member that hangs would block the group for all of it.
    """
    waited = (
        memberships.where("change = 'kept' and join_wait_ms is not null")
        .groupBy("group_id")
        .agg(
            F.count("*").alias("waits"),
            F.percentile_approx("join_wait_ms", [0.5, 0.95, 0.99], 1000).alias("_p"),
            F.max("join_wait_ms").alias("wait_max_ms"),
        )
    )
    configured = memberships.groupBy("group_id").agg(
        F.max("session_timeout_ms").alias("session_timeout_ms"),
        F.max("rebalance_timeout_ms").alias("rebalance_timeout_ms"),
    )
    of_client = Window.partitionBy("group_id", "client_id", "client_host").orderBy("ts_ms", F.desc("change"))
    kicked = F.col("left_reason") == "session_timeout"
    back = F.col("_after.ts_ms") - F.col("ts_ms")
    # Its successor was there already: what timed out was a zombie, and a longer timeout would only keep it longer.
    is_zombie = (
        (F.col("_before.change") == "joined")
        & (F.col("_before.owner") != F.col("owner"))
        & (F.col("ts_ms") - F.col("_before.ts_ms") <= F.col("session_timeout_ms"))
    )
    is_back = kicked & ~F.coalesce(is_zombie, F.lit(False)) & (F.col("_after.change") == "joined") & (back <= back_ms)
    lost = (
        memberships.where("change in ('joined', 'left')")
        .withColumn("_after", F.lead(F.struct("ts_ms", "change")).over(of_client))
        .withColumn("_before", F.lag(F.struct("ts_ms", "change", "owner")).over(of_client))
        .where("left_reason in ('session_timeout', 'rebalance_timeout')")
        .groupBy("group_id")
        .agg(
            F.count(F.when(kicked, 1)).alias("kicked_by_session"),
            F.count(F.when(~kicked, 1)).alias("kicked_by_rebalance"),
            F.count(F.when(is_back, 1)).alias("came_back"),
            F.percentile_approx(F.when(is_back, back), 0.95, 1000).alias("back_p95_ms"),
            F.min(packed()).alias("first"),
        )
    )
    rows = configured.join(waited, "group_id", "left").join(lost, "group_id", "left")
    rows = rows.where("waits is not null or first is not null").select(
        "*",
        *(F.col("_p")[place].alias(f"wait_{name}_ms") for place, name in enumerate(("p50", "p95", "p99"))),
        *(
            F.coalesce(name, F.lit(0)).alias(f"_{name}")
            for name in ("waits", "kicked_by_session", "kicked_by_rebalance", "came_back")
        ),
    )
    session_costs = (F.col("_kicked_by_session") > 0) & (F.col("_came_back") * 2 >= F.col("_kicked_by_session"))
    idle = (
        (F.col("_waits") >= min_waits)
        & (F.col("_kicked_by_rebalance") == 0)
        & (F.col("wait_max_ms") * spare < F.col("rebalance_timeout_ms"))
    )
    shorter = F.greatest(_rounded(F.col("wait_max_ms") * spare), F.lit(6 * _STEP_MS))
    return rows.select(
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        F.col("_waits").alias("waits"),
        "wait_p50_ms",
        "wait_p95_ms",
        "wait_p99_ms",
        "wait_max_ms",
        F.col("_kicked_by_session").alias("kicked_by_session"),
        F.col("_kicked_by_rebalance").alias("kicked_by_rebalance"),
        F.col("_came_back").alias("came_back"),
        "back_p95_ms",
        F.when(session_costs, _rounded(F.col("session_timeout_ms") + F.col("back_p95_ms"))).alias(
            "fit_session_timeout_ms"
        ),
        F.when(F.col("_kicked_by_rebalance") > 0, F.col("rebalance_timeout_ms").cast("long") * 2)
        .when(idle & (shorter < F.col("rebalance_timeout_ms")), shorter)
        .alias("fit_rebalance_timeout_ms"),
        "first",
    )


def _rounded(ms: Column) -> Column:
    """Up to whole steps of five seconds: 37,412 ms would be an odd setting."""
    return (F.ceil(ms / _STEP_MS) * _STEP_MS).cast("long")


def findings(rows: DataFrame) -> DataFrame:
    """One finding a group with a timeout that does not fit."""
    session, poll = F.col("fit_session_timeout_ms").isNotNull(), F.col("fit_rebalance_timeout_ms").isNotNull()
    lost = F.col("kicked_by_session") + F.col("kicked_by_rebalance")

    def only_if(condition: Column, template: str) -> Column:
        return F.when(condition, sentence(template)).otherwise("")

    return finding(
        rows.where(session | poll),
        analysis="timeouts",
        severity=F.when(lost > 0, "warning").otherwise("info"),
        cause="timeout_misfit",
        sentence=F.concat(
            sentence("Members of group {group_id} let others wait {wait_max_ms:seconds} s at most"),
            only_if(
                F.col("kicked_by_rebalance") > 0,
                "; {kicked_by_rebalance} exceeded the rebalance timeout of {rebalance_timeout_ms:seconds} s",
            ),
            only_if(
                F.col("kicked_by_session") > 0,
                "; {kicked_by_session} exceeded the session timeout of {session_timeout_ms:seconds} s, and {came_back} "
                "of them rejoined",
            ),
            only_if(poll & (lost == 0), "; one that hangs blocks the group for {rebalance_timeout_ms:seconds} s"),
            F.lit("."),
        ),
        advice=F.trim(
            F.concat(
                only_if(session, "Set session.timeout.ms to {fit_session_timeout_ms}. "),
                only_if(poll, "Set max.poll.interval.ms to {fit_rebalance_timeout_ms}. "),
            )
        ),
        value=lost,
        unit="members",
        basis="observed",
    )
