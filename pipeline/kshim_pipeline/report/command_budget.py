"""`kshim pipeline budget`: JSON, and exit code 1 when a group rebalanced more than it may."""

from __future__ import annotations

import argparse
import fnmatch
import json
from typing import Any

from pyspark.sql import functions as F

from kshim_pipeline.errors import EXIT_FAILURE, EXIT_OK, EXIT_USAGE, PipelineError
from kshim_pipeline.report import opened
from kshim_pipeline.report.budget import Budget, verdict
from kshim_pipeline.report.summaries import span_of


def run(options: argparse.Namespace) -> int:
    """Print the verdict. Raises PipelineError: no limit was given."""
    from kshim_pipeline.report.command_explain import instant

    limits = {name: getattr(options, name) for name in Budget._fields}
    if all(limit is None for limit in limits.values()):
        raise PipelineError("Give at least one limit, e.g. --max-per-hour 6", EXIT_USAGE)
    since_ms = None if options.since is None else instant(options.since)
    with opened.opened("kshim pipeline budget", options) as (_, results, progress):
        progress.say("judging")
        rebalances, findings = results.tables["rebalances"], results.findings
        if since_ms is not None:
            rebalances = rebalances.where(F.col("ts_ms") >= since_ms)
            findings = findings.where(F.col("to_ts_ms") >= since_ms)
        first_ms, last_ms = span_of(rebalances)
        rows = _rows(rebalances, findings)
    wanted = [row for row in rows if _is_wanted(row["group_id"], options.groups)]
    found = verdict(Budget(**limits), wanted, hours=(last_ms - (since_ms or first_ms)) / 3_600_000)
    print(json.dumps(found, indent=1))
    return EXIT_FAILURE if found["broken"] else EXIT_OK


def _rows(rebalances: Any, findings: Any) -> list[dict[str, Any]]:
    critical = (
        findings.where("severity = 'critical' and group_id is not null")
        .groupBy("group_id")
        .agg(F.count("*").alias("critical"))
    )
    rows = rebalances.groupBy("group_id").agg(
        F.count("*").alias("rebalances"), F.sum("total_ms").alias("stopped_ms"), F.max("total_ms").alias("longest_ms")
    )
    return [row.asDict() for row in rows.join(critical, "group_id", "left").collect()]


def _is_wanted(group_id: str, patterns: list[str] | None) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(group_id, pattern) for pattern in patterns)
