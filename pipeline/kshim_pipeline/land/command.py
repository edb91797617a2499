"""`kshim pipeline land`: raw records into Parquet, exactly once."""

from __future__ import annotations

import argparse

from kshim_pipeline.errors import EXIT_OK, EXIT_USAGE, PipelineError
from kshim_pipeline.folder import is_pattern
from kshim_pipeline.inputs.client_options import client_options
from kshim_pipeline.inputs.kafka import Cluster
from kshim_pipeline.inputs.reachable import require_reachable
from kshim_pipeline.land.counts import Counts
from kshim_pipeline.land.landing import land
from kshim_pipeline.land.log_ends import LogEnds
from kshim_pipeline.land.recovery import recover
from kshim_pipeline.setup.session import Jars, make_session
from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC


def run(options: argparse.Namespace) -> int:
    """Land, and print a summary. Raises PipelineError."""
    if options.continuous is not None and options.continuous <= 0:
        raise PipelineError("--continuous must be a positive number of seconds", EXIT_USAGE)
    if is_pattern(options.out):
        raise PipelineError(f"--out {options.out}: Spark takes a name with any of *?[]{{}}\\ for a pattern", EXIT_USAGE)
    settings = client_options(options.command_config)
    require_reachable(options.bootstrap_server, settings)
    spark = make_session("kshim pipeline land", options.master, jars=Jars.REQUIRED)
    cluster = Cluster(options.bootstrap_server, name=options.source, options=settings)
    counts = Counts()
    try:
        topics = options.topics or _topics_there(cluster, spark)
        if options.recover:
            print("\n".join(recover(spark, cluster, topics, options.out).sentences()))
        ends = LogEnds(spark, cluster, options.out)
        land(spark, cluster, topics, options.out, every_s=options.continuous, counts=counts, ends=ends)
    except KeyboardInterrupt:
        if options.continuous is None:
            raise
    finally:
        spark.stop()
    print(f"Landed into {options.out}: {'; '.join(counts.sentences())}.")
    return EXIT_OK


def _topics_there(cluster: Cluster, spark: object) -> list[str]:
    found = cluster.spans(spark, [OFFSETS_TOPIC, EVENTS_TOPIC])  # type: ignore[arg-type]
    return [OFFSETS_TOPIC, *(topic for topic in (EVENTS_TOPIC,) if topic in found)]
