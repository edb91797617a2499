"""`kshim pipeline watch`: alerts about incidents that have ended, and about rebalances that stay open, until interrupted."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kshim_pipeline.detector.incidents import incidents, written_once
from kshim_pipeline.detector.stream import UNREAD, alert_records, open_rebalances
from kshim_pipeline.errors import EXIT_OK, EXIT_USAGE, PipelineError
from kshim_pipeline.folder import folder_at
from kshim_pipeline.inputs.client_options import client_options
from kshim_pipeline.inputs.kafka import Cluster, stream_topics
from kshim_pipeline.inputs.reachable import require_reachable
from kshim_pipeline.java_errors import told
from kshim_pipeline.setup.session import Jars, make_session
from kshim_pipeline.topics import ALERTS_TOPIC, EVENTS_TOPIC, OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SINCE: Final = "watch.json"
_LAST_BATCH_S: Final = 10.0


def run(options: argparse.Namespace) -> int:
    """Watch until interrupted. Raises PipelineError."""
    if options.open_after <= 0 or options.every <= 0:
        raise PipelineError("--open-after and --every must be positive numbers of seconds", EXIT_USAGE)
    settings = client_options(options.command_config)
    require_reachable(options.bootstrap_server, settings)
    spark = make_session("kshim pipeline watch", options.master, jars=Jars.REQUIRED)
    cluster = Cluster(options.bootstrap_server, options=settings)
    every_ms = int(options.every * 1000)
    try:
        topic = options.alerts_topic
        queries = [watch_incidents(spark, cluster, options.checkpoint, alerts_topic=topic, every_ms=every_ms)]
        if has_events(spark, cluster):
            open_after_ms = int(options.open_after * 1000)
            queries.append(
                watch(
                    spark,
                    cluster,
                    options.checkpoint,
                    alerts_topic=topic,
                    open_after_ms=open_after_ms,
                    every_ms=every_ms,
                )
            )
            about = "incidents and rebalances that stay open"
        else:
            about = "incidents; it has no events, which tell of rebalances that are open"
        print(
            f"Watching {options.bootstrap_server}; alerts are written to the topic {topic}, about {about}.", flush=True
        )
        counted, unread = _Unread(), 0
        # pyspark's handler cancels all jobs, which Spark takes for errors.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        while all(query.isActive for query in queries):
            time.sleep(options.every)  # an interrupt while Java is waited for ends in a traceback
            now = counted.of(queries[-1])
            if now > unread:
                print(f"Left out: {now} events are malformed or of an unknown version.", file=sys.stderr)
                unread = now
        for query in queries:
            query.awaitTermination(0)  # raises what ended it
    finally:
        for query in spark.streams.active:
            _stop(spark, query)
        spark.stop()
    return EXIT_OK


def _stop(spark: SparkSession, query: StreamingQuery) -> None:
    """Stop a query between two batches if that is soon: one that is given up is done again after the next start, and told as an error."""
    until_s = time.monotonic() + _LAST_BATCH_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until_s:
        time.sleep(0.05)
    spark.sparkContext.setLogLevel("OFF")
    query.stop()


class _Unread:
    """How many events of a query were left out, over all its batches."""

    def __init__(self) -> None:
        self._batches: dict[int, int] = {}

    def of(self, query: StreamingQuery) -> int:
        for done in query.recentProgress:
            if (metrics := done.observedMetrics.get(UNREAD)) is not None:
                self._batches[done.batchId] = metrics[UNREAD]
        return sum(self._batches.values())


def has_events(spark: SparkSession, cluster: Cluster) -> bool:
    """Whether it is a kshim that tells of its rebalances. Raises PipelineError: the cluster does not answer."""
    return EVENTS_TOPIC in cluster.spans(spark, [EVENTS_TOPIC])


def watch_incidents(
    spark: SparkSession, cluster: Cluster, checkpoint: str, *, alerts_topic: str = ALERTS_TOPIC, every_ms: int
) -> StreamingQuery:
    """The running query that tells incidents, each once. Its state is kept in a directory below `checkpoint`.

    Raises PipelineError: the cluster does not answer, or no group has been there yet; or the checkpoint cannot be used.
    """
    topics = [OFFSETS_TOPIC, *([EVENTS_TOPIC] if has_events(spark, cluster) else [])]
    records = stream_topics(spark, cluster, topics)
    try:
        since_ms = _since_ms(spark, checkpoint)
    except OSError as error:
        raise PipelineError(f"The checkpoint cannot be used: {error}") from error
    found = incidents(records, has_events=len(topics) > 1, since_ms=since_ms)
    writer = (
        found.writeStream.foreachBatch(written_once(spark, cluster, alerts_topic))
        .option("checkpointLocation", f"{checkpoint}/incidents")
        .outputMode("append")
        .trigger(processingTime=f"{every_ms} milliseconds")
    )
    return _started(writer, checkpoint)


def _started(writer: DataStreamWriter, checkpoint: str) -> StreamingQuery:
    try:
        return writer.start()
    except (Py4JJavaError, PySparkException) as error:
        raise PipelineError(f"The checkpoint {checkpoint} cannot be used: {told(error)}") from error


def _since_ms(spark: SparkSession, checkpoint: str) -> int:
    """When a watch with this checkpoint began: what happened before that is not told."""
    folder = folder_at(spark, checkpoint)
    if not folder.find(_SINCE):
        folder.write_new(_SINCE, json.dumps({"since_ms": time.time_ns() // 1_000_000}))
    return int(json.loads(folder.read_text(_SINCE))["since_ms"])


def watch(
    spark: SparkSession,
    cluster: Cluster,
    checkpoint: str,
    *,
    alerts_topic: str = ALERTS_TOPIC,
    open_after_ms: int,
    every_ms: int,
) -> StreamingQuery:
    """The running query, whose state is kept in the directory `checkpoint`, at any address that Spark can write to.

    Alerts are written at least once: one may be repeated after a failure.

    Raises PipelineError: the cluster does not answer, or has no topic of events; or the checkpoint cannot be used.
    """
    records = stream_topics(spark, cluster, [EVENTS_TOPIC])
    sink = {f"kafka.{key}": value for key, value in cluster.options.items()}
    writer = (
        alert_records(open_rebalances(records, open_after_ms=open_after_ms))
        .writeStream.format("kafka")
        .options(**sink)
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("topic", alerts_topic)
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
        .trigger(processingTime=f"{every_ms} milliseconds")
    )
    return _started(writer, checkpoint)
