"""Results for a command: from the folder of an earlier `analyse`, or computed now from sources."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kshim_pipeline.progress import Progress
from kshim_pipeline.report.gather import add_input_options, gather, needs_kafka
from kshim_pipeline.report.results import Results, compute, read_results
from kshim_pipeline.setup.session import Jars, make_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["add_options", "opened"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """`--results`, or the sources."""
    parser.add_argument("--results", metavar="DIR", help="what `kshim pipeline analyse` wrote, instead of a source")
    add_input_options(parser)


@contextmanager
def opened(app: str, options: argparse.Namespace) -> Iterator[tuple[SparkSession, Results, Progress]]:
    """A session with results in it, and where to say what runs; all ended afterwards. Raises PipelineError."""
    jars = Jars.REQUIRED if needs_kafka(options) else Jars.IF_PRESENT
    progress = Progress()
    progress.say("starting Spark")
    spark = make_session(app, options.master, jars=jars, driver_memory=options.memory)
    try:
        if options.results is not None:
            results = read_results(spark, options.results)
        else:
            progress.say("reading")
            results = compute(spark, gather(spark, options))
        yield spark, results, progress
    finally:
        progress.done()
        spark.stop()
