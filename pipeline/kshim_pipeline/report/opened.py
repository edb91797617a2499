"""Results for a command: from the folder of an earlier `analyse`, or computed now from sources."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kshim_pipeline.materialize import in_session
from kshim_pipeline.progress import Progress
from kshim_pipeline.report.gather import gather, session_for
from kshim_pipeline.report.results import Results, compute, read_results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def opened(app: str, options: argparse.Namespace) -> Iterator[tuple[SparkSession, Results, Progress]]:
    """A session with results in it, and where to say what runs; all ended afterwards. Raises PipelineError."""
    progress = Progress()
    progress.say("starting Spark")
    spark = session_for(app, options)
    try:
        if options.results is not None:
            yield spark, read_results(spark, options.results), progress
        else:
            progress.say("reading")
            with in_session(spark, progress.say) as materialize:
                yield spark, compute(spark, gather(spark, options), materialize), progress
    finally:
        progress.done()
        spark.stop()
