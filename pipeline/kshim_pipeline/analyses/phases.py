"""2. How long do the phases of rebalances take, per group, reason and day?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import finding, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


BY: Final = ("group_id", "reason", "day")
PHASES: Final = ("join", "sync", "compute", "revoke", "assign")
"""The first two of classic groups, the others of the new protocol."""
_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def phases(rebalances: DataFrame, *, by: Sequence[str] = BY) -> DataFrame:
    """One row for each of `by` and basis, over completed rebalances with known phases.

    Columns: those of `by` (`day` is the date of its beginning, UTC); `basis`; `rebalances`; and each of PHASES and
    `total`, with `_p50_ms`, `_p95_ms`, `_p99_ms` (ms; approximate beyond 100 rows by 1 in 100 ranks; null where
    unknown, as JOIN in records, or of the other protocol); `first`, `last`: packed evidence.
    """
    all_phases = (*PHASES, "total")
    rows = rebalances.where("outcome = 'completed' and (total_ms is not null or sync_ms is not null)").withColumn(
        "day", F.to_date(F.timestamp_millis("ts_ms"))
    )
    percentiles = [
        F.percentile_approx(f"{phase}_ms", list(_SHARES.values()), 100).alias(f"_{phase}") for phase in all_phases
    ]
    counted = rows.groupBy(*by, "basis").agg(
        F.count("*").alias("rebalances"), *percentiles, F.min(packed()).alias("first"), F.max(packed()).alias("last")
    )
    return counted.select(
        *by,
        "basis",
        "rebalances",
        *(
            F.col(f"_{phase}")[place].alias(f"{phase}_{name}_ms")
            for phase in all_phases
            for place, name in enumerate(_SHARES)
        ),
        "first",
        "last",
    )


def findings(rows: DataFrame, *, slow_ms: int = 30_000, very_slow_ms: int = 300_000) -> DataFrame:
    """One finding for each group, reason and day whose 95th percentile of the total is `slow_ms` or more."""
    day = F.unix_millis(F.col("day").cast("timestamp"))
    joining = F.col("join_p95_ms") >= F.col("sync_p95_ms")
    has_epochs = F.col("revoke_p95_ms").isNotNull()
    revoking = F.col("revoke_p95_ms") >= F.greatest("compute_p95_ms", "assign_p95_ms")
    parts = F.when(
        has_epochs,
        sentence(
            "compute {compute_p95_ms:seconds} s, revoke {revoke_p95_ms:seconds} s, assign {assign_p95_ms:seconds} s"
        ),
    ).otherwise(sentence("JOIN {join_p95_ms:seconds} s, SYNC {sync_p95_ms:seconds} s"))
    return finding(
        rows.where(F.col("total_p95_ms") >= slow_ms),
        analysis="phases",
        severity=F.when(F.col("total_p95_ms") >= very_slow_ms, "critical").otherwise("warning"),
        from_ts_ms=day,
        to_ts_ms=day + 86_400_000,
        cause=F.col("reason"),
        sentence=sentence(
            "Of {rebalances} rebalances of group {group_id} by {reason} on {day}, 5 % took {total_p95_ms:seconds} s or "
            "longer ({parts}).",
            parts=parts,
        ),
        advice=F.when(
            has_epochs & revoking,
            "Members are slow to give up partitions, which they do when they poll: poll more often, or process less per poll.",
        )
        .when(
            has_epochs,
            "Members learn of their assignment with a heartbeat: see group.consumer.heartbeat.interval.ms and "
            "group.consumer.assignment.interval.ms.",
        )
        .when(joining, "Members are slow to rejoin: poll more often, or process less per poll.")
        .otherwise("The leader is slow to assign, or members are slow to fetch their assignment: check the leader."),
        value=F.col("total_p95_ms"),
        unit="ms",
    )
