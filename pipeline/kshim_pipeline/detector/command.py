"""`kshim pipeline watch`: alerts about rebalances that stay open, until interrupted."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kshim_pipeline.detector.stream import UNREAD, alert_records, open_rebalances
from kshim_pipeline.errors import EXIT_OK, EXIT_USAGE, PipelineError
from kshim_pipeline.inputs.client_options import client_options
from kshim_pipeline.inputs.kafka import Cluster, stream_topics
from kshim_pipeline.inputs.reachable import require_reachable
from kshim_pipeline.setup.session import Jars, make_session
from kshim_pipeline.topics import ALERTS_TOPIC, EVENTS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def run(options: argparse.Namespace) -> int:
    """Watch until interrupted. Raises PipelineError."""
    if options.open_after <= 0 or options.every <= 0:
        raise PipelineError("--open-after and --every must be positive numbers of seconds", EXIT_USAGE)
    settings = client_options(options.command_config)
    require_reachable(options.bootstrap_server, settings)
    spark = make_session("kshim pipeline watch", options.master, jars=Jars.REQUIRED)
    try:
        query = watch(
            spark,
            Cluster(options.bootstrap_server, options=settings),
            options.checkpoint,
            alerts_topic=options.alerts_topic,
            open_after_ms=int(options.open_after * 1000),
            every_ms=int(options.every * 1000),
        )
        print(f"Watching {options.bootstrap_server}; alerts are written to the topic {options.alerts_topic}.")
        counted, unread = _Unread(), 0
        while not query.awaitTermination(options.every):
            now = counted.of(query)
            if now > unread:
                print(f"Left out: {now} events are malformed or of an unknown version.", file=sys.stderr)
                unread = now
    finally:
        spark.stop()
    return EXIT_OK


class _Unread:
    """How many events of a query were left out, over all its batches."""

    def __init__(self) -> None:
        self._batches: dict[int, int] = {}

    def of(self, query: StreamingQuery) -> int:
        for done in query.recentProgress:
            if (metrics := done.observedMetrics.get(UNREAD)) is not None:
                self._batches[done.batchId] = metrics[UNREAD]
        return sum(self._batches.values())


def watch(
    spark: SparkSession,
    cluster: Cluster,
    checkpoint: Path,
    *,
    alerts_topic: str = ALERTS_TOPIC,
    open_after_ms: int,
    every_ms: int,
) -> StreamingQuery:
    """The running query. Alerts are written at least once: one may be repeated after a failure.

    Raises PipelineError: the cluster does not answer, or has no topic of events.
    """
    records = stream_topics(spark, cluster, [EVENTS_TOPIC])
    sink = {f"kafka.{key}": value for key, value in cluster.options.items()}
    return (
        alert_records(open_rebalances(records, open_after_ms=open_after_ms))
        .writeStream.format("kafka")
        .options(**sink)
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("topic", alerts_topic)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .trigger(processingTime=f"{every_ms} milliseconds")
        .start()
    )
