"""`kshim pipeline explain`: of stored tables without Spark, else through it."""

from __future__ import annotations

import argparse
import sys

from kshim_pipeline.errors import EXIT_FAILURE, EXIT_OK
from kshim_pipeline.folder import is_path
from kshim_pipeline.report.explain import explain_at
from kshim_pipeline.report.stored import require_all, results_in, rows


def run(options: argparse.Namespace) -> int:
    """Print what is known of one rebalance. Exit code 1: the group has none. Raises PipelineError."""
    require_all(options)
    folder: str | None = options.results
    if folder is None or not is_path(folder):
        from kshim_pipeline.report.commands import explain

        return explain(options)
    results = results_in(folder)
    for sentence in dict.fromkeys(sentence for each in results for sentence in each.left_out):
        print(sentence, file=sys.stderr)
    group = options.group
    of_group = [("group_id", "=", group)]
    lines = explain_at(
        rows(folder, results, "tables/rebalances", of_group),
        [row for row in rows(folder, results, "incidents") if group in row["groups"]],
        rows(folder, results, "tables/migrations", of_group),
        options.at,
    )
    print("\n".join(lines) or f"No rebalance of {group} is known.")
    return EXIT_OK if lines else EXIT_FAILURE
