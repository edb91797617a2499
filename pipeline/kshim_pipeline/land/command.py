"""`kshim pipeline land`: raw records into Parquet, exactly once."""

from __future__ import annotations

import argparse
from pathlib import Path

from kshim_pipeline.errors import EXIT_OK, EXIT_USAGE, PipelineError
from kshim_pipeline.inputs.kafka import Cluster
from kshim_pipeline.land.counts import Counts
from kshim_pipeline.land.log_ends import LogEnds
from kshim_pipeline.land.stream import land
from kshim_pipeline.records import OFFSETS_TOPIC
from kshim_pipeline.setup.session import Jars, make_session

_EVENTS_TOPIC = "__kshim_events"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    option = parser.add_argument
    option("--bootstrap-server", required=True, metavar="HOST:PORT", help="the cluster, as for any Kafka client")
    option("--out", required=True, metavar="DIR", help="where records and checkpoint are; the same each time")
    option(
        "--topic",
        action="append",
        dest="topics",
        metavar="NAME",
        help=f"may be repeated; without it {OFFSETS_TOPIC}, and {_EVENTS_TOPIC} where there is one",
    )
    option(
        "--continuous",
        type=float,
        metavar="SECONDS",
        help="go on until interrupted, a micro-batch so often; without it, end when all that is there now is landed",
    )
    option("--source", metavar="NAME", help="name of the cluster in the records (default: kafka:HOST:PORT)")
    option("--command-config", type=Path, metavar="FILE", help="a Java client's properties: security and the like")
    option("--master", metavar="URL", help="Spark's master (default: local[*], or what spark-submit says)")


def client_options(file: Path | None) -> dict[str, str]:
    """Key and value of each line of a properties file. Raises PipelineError (usage)."""
    if file is None:
        return {}
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        raise PipelineError(f"Cannot read {file}: {error.strerror}", EXIT_USAGE) from error
    pairs = [line.strip().partition("=") for line in lines if line.strip() and not line.lstrip().startswith(("#", "!"))]
    return {key.strip(): value.strip() for key, _, value in pairs}


def run(options: argparse.Namespace) -> int:
    """Land; says what was. Raises PipelineError."""
    if options.continuous is not None and options.continuous <= 0:
        raise PipelineError("--continuous wants a number of seconds above 0", EXIT_USAGE)
    spark = make_session("kshim pipeline land", options.master, jars=Jars.REQUIRED)
    cluster = Cluster(options.bootstrap_server, name=options.source, options=client_options(options.command_config))
    counts = Counts()
    try:
        topics = options.topics or _topics_there(cluster, spark)
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
    found = cluster.spans(spark, [OFFSETS_TOPIC, _EVENTS_TOPIC])  # type: ignore[arg-type]
    return [OFFSETS_TOPIC, *(topic for topic in (_EVENTS_TOPIC,) if topic in found)]
