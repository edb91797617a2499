"""`kshim pipeline analyse`: every table, as Parquet."""

from __future__ import annotations

import argparse

from kshim_pipeline.problems import EXIT_OK
from kshim_pipeline.progress import Progress
from kshim_pipeline.report.gather import add_input_options, gather, needs_kafka
from kshim_pipeline.report.results import compute, write_results
from kshim_pipeline.setup.session import Jars, make_session

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_input_options(parser)
    parser.add_argument("--out", required=True, metavar="DIR", help="where the tables go; what is there is replaced")


def run(options: argparse.Namespace) -> int:
    """Compute and write. Raises PipelineError."""
    jars = Jars.REQUIRED if needs_kafka(options) else Jars.IF_PRESENT
    spark = make_session("kshim pipeline analyse", options.master, jars=jars, driver_memory=options.memory)
    progress = Progress()
    try:
        progress.say("reading")
        results = compute(spark, gather(spark, options))
        write_results(results, options.out, progress.say)
        rebalances, findings = results.tables["rebalances"].count(), results.findings.count()
    finally:
        progress.done()
        spark.stop()
    print(f"{rebalances} rebalances, {findings} findings; tables in {options.out}.")
    return EXIT_OK
