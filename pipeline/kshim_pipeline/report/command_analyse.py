"""`kshim pipeline analyse`: every table, as Parquet."""

from __future__ import annotations

import argparse

from kshim_pipeline.errors import EXIT_OK
from kshim_pipeline.progress import Progress
from kshim_pipeline.report.gather import gather, session_for
from kshim_pipeline.report.results import write_results


def run(options: argparse.Namespace) -> int:
    """Compute and write. Raises PipelineError."""
    spark = session_for("kshim pipeline analyse", options)
    progress = Progress()
    try:
        progress.say("reading")
        results = write_results(spark, gather(spark, options), options.out, progress.say)
        rebalances, findings = results.tables["rebalances"].count(), results.findings.count()
    finally:
        progress.done()
        spark.stop()
    print(f"{rebalances} rebalances, {findings} findings; tables in {options.out}.")
    return EXIT_OK
