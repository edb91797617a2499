"""`kshim pipeline explain GROUP --at T`: one rebalance, in sentences."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import functions as F

from kshim_pipeline.errors import EXIT_FAILURE, EXIT_OK, EXIT_USAGE, PipelineError
from kshim_pipeline.report import opened
from kshim_pipeline.report.explain import explain, nearest

_HALF_HOUR_MS = 1_800_000
_AROUND_MS = 86_400_000


def instant(text: str) -> int | None:
    """ms since 1970; None for `latest`. Raises PipelineError (usage)."""
    if text == "latest":
        return None
    if text.isdigit():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"{text!r} is no instant; write 2026-11-21T13:04:05, or ms since 1970", EXIT_USAGE
        ) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def run(options: argparse.Namespace) -> int:
    """Print the sentences. Exit code 1: the group has no rebalance. Raises PipelineError."""
    at_ms = instant(options.at)
    with opened.opened("kshim pipeline explain", options) as (_, results, progress):
        progress.say(f"looking for {options.group}")
        of_group = results.tables["rebalances"].where(F.col("group_id") == options.group).cache()
        if at_ms is None:
            at_ms = of_group.agg(F.max("ts_ms")).collect()[0][0]
        if at_ms is None:
            lines = []
        else:
            lines = _lines(of_group, results.incidents, options.group, at_ms)
    if not lines:
        print(f"No rebalance of {options.group} is known.")
        return EXIT_FAILURE
    print("\n".join(lines))
    return EXIT_OK


def _lines(of_group: Any, incidents: Any, group_id: str, at_ms: int) -> list[str]:
    around = of_group.where(F.col("ts_ms").between(at_ms - _AROUND_MS, at_ms + _AROUND_MS))
    rows = [row.asDict(recursive=True) for row in around.orderBy("ts_ms").collect()]
    row = nearest(rows, at_ms)
    if row is None:  # a long way off: the nearest there is
        distance = F.abs(F.col("ts_ms") - at_ms)
        rows = [found.asDict(recursive=True) for found in of_group.orderBy(distance).limit(1).collect()]
        row = rows[0] if rows else None
    if row is None:
        return []
    begin_ms, end_ms = row["ts_ms"], row["ended_ts_ms"] or row["ts_ms"]
    is_part = F.array_contains("groups", group_id) & (F.col("from_ms") <= end_ms) & (F.col("to_ms") >= begin_ms)
    behind = [found.asDict(recursive=True) for found in incidents.where(is_part).orderBy("from_ms").collect()]
    near = sum(abs(other["ts_ms"] - begin_ms) <= _HALF_HOUR_MS for other in rows)
    return explain(row, behind, in_the_hour=near)
