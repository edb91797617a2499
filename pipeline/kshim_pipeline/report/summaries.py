"""Tables of any size -> the small frames that charts are drawn from. Each is cut to what fits on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from pyspark.sql import functions as F

from kshim_pipeline.analyses.phases import PHASES, phases
from kshim_pipeline.analyses.stickiness import by_assignor
from kshim_pipeline.what_if.compare import STRATEGIES, fleet_totals

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_GROUPS: Final = 20
_STEPS_MS: Final = [1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000]


def span_of(rebalances: DataFrame) -> tuple[int, int]:
    """First and last instant (ms since 1970); (0, 0): there is no rebalance."""
    row = rebalances.agg(F.min("ts_ms"), F.max(F.coalesce("ended_ts_ms", "ts_ms"))).collect()[0]
    return (int(row[0]), int(row[1])) if row[0] is not None else (0, 0)


def over_time(rebalances: DataFrame, span: tuple[int, int]) -> pd.DataFrame:
    """`at`, `until`, `reason`, `rebalances`, in about a hundred steps of time."""
    step_ms = _step_ms(span, 100)
    rows = rebalances.groupBy(_step("ts_ms", step_ms).alias("at"), "reason").agg(F.count("*").alias("rebalances"))
    return _with_instants(_pandas(rows), step_ms)


def heat(rebalances: DataFrame, span: tuple[int, int]) -> pd.DataFrame:
    """`group_id`, `at`, `until`, `rebalances`: the groups with the most rebalances, in about fifty steps of time."""
    step_ms = _step_ms(span, 50)
    worst = rebalances.groupBy("group_id").count().orderBy(F.desc("count"), "group_id").limit(_GROUPS)
    rows = (
        rebalances.join(F.broadcast(worst.select("group_id")), "group_id")
        .groupBy("group_id", _step("ts_ms", step_ms).alias("at"))
        .agg(F.count("*").alias("rebalances"))
    )
    return _with_instants(_pandas(rows), step_ms)


def by_phase(rebalances: DataFrame, by: str) -> pd.DataFrame:
    """`name` (a value of the column `by`), `phase`, `p50_ms`, `p95_ms`, `p99_ms`: the slowest ones."""
    rows = _pandas(phases(rebalances, by=(by,)).orderBy(F.desc_nulls_last("total_p99_ms")).limit(_GROUPS))
    parts = []
    for phase in PHASES:
        part = rows[[by, f"{phase}_p50_ms", f"{phase}_p95_ms", f"{phase}_p99_ms"]].copy()
        part.columns = ["name", "p50_ms", "p95_ms", "p99_ms"]
        parts.append(part.assign(phase=phase.upper()))
    return pd.concat(parts).dropna()


def slow_members(slowest: DataFrame) -> pd.DataFrame:
    """`who`, `times_last`, `longest_wait_ms` from rows of the analysis slowest."""
    rows = _pandas(slowest.orderBy("rank").limit(_GROUPS))
    return pd.DataFrame(
        {"who": _who(rows.client_id, rows.client_host), "times_last": rows.times, "longest_wait_ms": rows.max_ms}
    )


def sticky(stickiness: DataFrame) -> pd.DataFrame:
    """`protocol`, `kept`, `rebalances`: one row an assignor."""
    rows = by_assignor(stickiness).where("kept_share is not null")
    return _pandas(rows.selectExpr("protocol", "kept_share as kept", "generations as rebalances"))


def stuck_ones(stuck: DataFrame) -> pd.DataFrame:
    """`partition`, `kind`, `minutes`: the longest without progress."""
    rows = _pandas(stuck.orderBy(F.desc("silent_ms")).limit(_GROUPS))
    names = rows.group_id + "  " + rows.topic + "-" + rows.partition.astype(str)
    return pd.DataFrame({"partition": names, "kind": rows.kind, "minutes": rows.silent_ms / 60_000})


def recoveries(recovery: DataFrame) -> pd.DataFrame:
    """`group_id`, `at`, `recovery_s`, `peak_lag`: the rebalances after which lag took longest to recover."""
    rows = _pandas(recovery.where("recovery_ms is not null").orderBy(F.desc("recovery_ms")).limit(500))
    frame = pd.DataFrame({"group_id": rows.group_id, "at": rows.ts_ms, "peak_lag": rows.peak_lag})
    return _with_instants(frame.assign(recovery_s=rows.recovery_ms / 1000))


def timeouts_seen(timeouts: DataFrame) -> pd.DataFrame:
    """`name`, `p50_ms`, `p99_ms`, `configured_ms`, `advised_ms`: waits against max.poll.interval.ms, group by group."""
    rows = (
        timeouts.where("waits > 0 and rebalance_timeout_ms is not null").orderBy(F.desc("wait_p99_ms")).limit(_GROUPS)
    )
    seen = _pandas(rows)
    return pd.DataFrame(
        {
            "name": seen.group_id,
            "p50_ms": seen.wait_p50_ms.clip(lower=1),
            "p99_ms": seen.wait_p99_ms.clip(lower=1),
            "configured_ms": seen.rebalance_timeout_ms,
            "advised_ms": seen.fit_rebalance_timeout_ms,
        }
    )


def strategy_sums(costs: DataFrame) -> pd.DataFrame:
    """The sums of the fleet, one row a strategy, in the order in which they came."""
    rows = _pandas(fleet_totals(costs)).set_index("strategy")
    return rows.reindex([name for name in STRATEGIES if name in rows.index]).reset_index()


def _pandas(frame: DataFrame) -> Any:
    return frame.toPandas()


def _who(client_ids: Any, hosts: Any) -> Any:
    return client_ids.fillna("?") + " @ " + hosts.fillna("?")


def _step_ms(span: tuple[int, int], steps: int) -> int:
    length_ms = span[1] - span[0]
    return next((step for step in _STEPS_MS if length_ms <= step * steps), _STEPS_MS[-1])


def _step(column: str, step_ms: int) -> Column:
    return F.col(column) - F.col(column) % step_ms


def _with_instants(frame: pd.DataFrame, step_ms: int = 0) -> pd.DataFrame:
    """`at`, and with a step also `until`, as instants."""
    ends = {"until": pd.to_datetime(frame["at"] + step_ms, unit="ms", utc=True)} if step_ms else {}
    return frame.assign(at=pd.to_datetime(frame["at"], unit="ms", utc=True), **ends)
