"""Topics of a broker as records, in batches and as a stream, through Spark's own Kafka source.

By default the source finds offsets with an admin client, which does not see internal topics: it reads
`__consumer_offsets` as empty, without an error. The older way, with a consumer, reads them; together with `assign` it
joins no group, so that reading adds nothing to the history that is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import functions as F

from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.records import RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


OFFSET_FETCHING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Spark's setting for the older way. It counts when a query starts, so sessions of ours have it from the beginning."""

_TIMEOUT_MS: Final = 30_000
_ENDS: Final = re.compile(r"([\w.-]+)-(\d+)=(\d+)")
"""A topic's name has none of the characters that Java writes between the entries of a map."""


class Span(NamedTuple):
    """The offsets that a partition holds: from `start`, up to but not including `end`."""

    start: int
    end: int


class Cluster:
    """A cluster as Spark's source sees it: addresses, and other settings of a client.

    `options` are a Java consumer's own keys (`security.protocol`, `sasl.jaas.config`, ...). `name` is the `source` of
    its records.
    """

    def __init__(
        self, bootstrap_servers: str, *, name: str | None = None, options: Mapping[str, str] | None = None
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.name = name or f"kafka:{bootstrap_servers}"
        self.options = dict(options or {})

    def spans(self, spark: SparkSession, topics: Sequence[str]) -> dict[str, dict[int, Span]]:
        """The offsets of each partition of each topic; topics that do not exist are left out.

        Raises PipelineError: the cluster does not answer, or the jars are missing.
        """
        with self._metadata(spark) as consumer:
            known = consumer.listTopics()
            found = {topic: known[topic] for topic in topics if topic in known}
            places = _places(spark, found)
            starts, ends = consumer.beginningOffsets(places), consumer.endOffsets(places)
            spans: dict[str, dict[int, Span]] = {topic: {} for topic in found}
            for place in places:
                spans[place.topic()][place.partition()] = Span(starts[place], ends[place])
            return spans

    def ends(self, spark: SparkSession) -> dict[tuple[str, int], int]:
        """The end of each partition of each topic whose name does not begin with two underscores.

        Raises PipelineError: the cluster does not answer, or the jars are missing.
        """
        with self._metadata(spark) as consumer:
            topics = {topic: infos for topic, infos in consumer.listTopics().items() if not topic.startswith("__")}
            # As text: a call for each partition would take longer than the request.
            found = _ENDS.findall(consumer.endOffsets(_places(spark, topics)).toString())
            return {(topic, int(partition)): int(end) for topic, partition, end in found}

    @contextmanager
    def _metadata(self, spark: SparkSession) -> Iterator[Any]:
        consumer = self._consumer(spark)
        try:
            yield consumer
        except Py4JJavaError as error:
            reason = error.java_exception.getMessage()
            raise PipelineError(
                f"{self.bootstrap_servers} did not return its offsets: {reason}", EXIT_UNAVAILABLE
            ) from error
        finally:
            consumer.close()

    def _consumer(self, spark: SparkSession) -> Any:
        """A Java consumer without a group, for metadata only."""
        jvm: Any = spark._jvm
        settings = jvm.java.util.HashMap()
        deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        wanted = {
            "bootstrap.servers": self.bootstrap_servers,
            "key.deserializer": deserializer,
            "value.deserializer": deserializer,
            "default.api.timeout.ms": str(_TIMEOUT_MS),
            "allow.auto.create.topics": "false",
        }
        for key, value in {**wanted, **self.options}.items():
            settings.put(key, value)
        try:
            return jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            raise PipelineError(
                f"Cannot create a Kafka client for {self.bootstrap_servers}: {cause.getMessage()}"
            ) from error
        except (Py4JError, TypeError) as error:
            raise PipelineError(
                "This session lacks the jars of Spark's Kafka source. Fetch them with: kshim pipeline setup",
                EXIT_UNAVAILABLE,
            ) from error


def _places(spark: SparkSession, topics: Mapping[str, Any]) -> list[Any]:
    jvm: Any = spark._jvm
    make = jvm.org.apache.kafka.common.TopicPartition
    return [make(topic, info.partition()) for topic, infos in topics.items() for info in infos]


def read_topics(
    spark: SparkSession,
    cluster: Cluster,
    topics: Sequence[str],
    *,
    starting_offsets: str = "earliest",
    ending_offsets: str = "latest",
) -> DataFrame:
    """The current records of `topics`, as RECORDS. Offsets as Spark writes them: a word, or JSON.

    Records of aborted and open transactions are left out. Raises PipelineError: a topic does not exist, the cluster
    does not answer, or it has records and Spark reads none of them.
    """
    spans = _spans_of_all(spark, cluster, topics)
    spark.conf.set(OFFSET_FETCHING, "true")
    options = {"startingOffsets": starting_offsets, "endingOffsets": ending_offsets}
    frame = spark.read.format("kafka").options(**_options(cluster, spans), **options).load()
    records = _as_records(frame, cluster)
    if starting_offsets == "earliest" and ending_offsets == "latest":
        _require_rows(records, spans)
    return records


def stream_topics(
    spark: SparkSession,
    cluster: Cluster,
    topics: Sequence[str],
    *,
    starting_offsets: str = "earliest",
    max_offsets_per_trigger: int | None = None,
) -> DataFrame:
    """The records of `topics` from the beginning and as they are produced, as a streaming RECORDS.

    Spark continues where offsets are gone; callers with a checkpoint compare it with `Cluster.spans` before. Partitions
    that are added later are read after a restart. Raises PipelineError as `read_topics`.
    """
    spans = _spans_of_all(spark, cluster, topics)
    spark.conf.set(OFFSET_FETCHING, "true")
    options = {"startingOffsets": starting_offsets, "failOnDataLoss": "false"}
    if max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
    frame = spark.readStream.format("kafka").options(**_options(cluster, spans), **options).load()
    return _as_records(frame, cluster)


def _spans_of_all(spark: SparkSession, cluster: Cluster, topics: Sequence[str]) -> dict[str, dict[int, Span]]:
    spans = cluster.spans(spark, topics)
    if missing := [topic for topic in topics if topic not in spans]:
        why = " (it is created with the first group)" if "__consumer_offsets" in missing else ""
        raise PipelineError(f"{cluster.bootstrap_servers} has no topic {', '.join(missing)}{why}", EXIT_UNAVAILABLE)
    return spans


def _options(cluster: Cluster, spans: Mapping[str, Mapping[int, Span]]) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({topic: sorted(partitions) for topic, partitions in spans.items()}),
        **{f"kafka.{key}": value for key, value in cluster.options.items()},
    }


def _as_records(frame: DataFrame, cluster: Cluster) -> DataFrame:
    return frame.select(
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp_ms"),
        "key",
        "value",
        F.lit(cluster.name).alias("source"),
    ).select(*(F.col(field.name).cast(field.dataType) for field in RECORDS))


def _require_rows(records: DataFrame, spans: Mapping[str, Mapping[int, Span]]) -> None:
    """Refuse to treat a topic as empty that is not."""
    for topic, partitions in spans.items():
        held = {partition: span for partition, span in partitions.items() if span.end > span.start}
        if held and records.where(F.col("topic") == topic).isEmpty():
            count = sum(span.end - span.start for span in held.values())
            raise PipelineError(
                f"Spark read no record of {topic}, although {len(held)} of its partitions hold up to {count}. "
                f"Spark omits internal topics unless {OFFSET_FETCHING} is true when the query starts; or all "
                "records belong to open transactions, or were removed by compaction"
            )
