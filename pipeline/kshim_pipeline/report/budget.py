"""Whether groups rebalanced more than they are allowed to: for CI and cron. Pure arithmetic on a few rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Budget(NamedTuple):
    """What a group may do in the span looked at; None: no limit. `max_total_ms`: the longest single rebalance."""

    max_rebalances: int | None = None
    max_per_hour: float | None = None
    max_stopped_ms: int | None = None
    max_total_ms: int | None = None
    max_critical: int | None = None


def verdict(budget: Budget, groups: Iterable[Mapping[str, Any]], *, hours: float) -> dict[str, Any]:
    """A document for machines. `groups` has a row a group: group_id, rebalances, stopped_ms, longest_ms, critical.

    {"broken": bool, "hours": float, "groups": [{..., "broken": [what is broken, as limits' names]}]}, groups sorted.
    """
    judged = []
    for row in sorted(groups, key=lambda row: str(row["group_id"])):
        measured = {
            "max_rebalances": row["rebalances"],
            "max_per_hour": row["rebalances"] / max(hours, 1e-9),
            "max_stopped_ms": row["stopped_ms"] or 0,
            "max_total_ms": row["longest_ms"] or 0,
            "max_critical": row["critical"] or 0,
        }
        limits = budget._asdict()
        broken = [name for name, value in measured.items() if limits[name] is not None and value > limits[name]]
        judged.append({**row, "per_hour": round(measured["max_per_hour"], 3), "broken": broken})
    return {
        "broken": any(row["broken"] for row in judged),
        "hours": round(hours, 3),
        "budget": {name: limit for name, limit in budget._asdict().items() if limit is not None},
        "groups": judged,
    }
