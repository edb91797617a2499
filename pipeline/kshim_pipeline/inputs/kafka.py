"""Topics of a broker as records, in batches and as a stream, through Spark's own Kafka source.

By default the source finds offsets with an admin client, which does not see internal topics: it reads
`__consumer_offsets` as empty, without an error. The older way, with a consumer, reads them; together with `assign` it
joins no group, so that reading adds nothing to the history that is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
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
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""Sixteen bytes of zero: the cluster has no ids of topics."""
_ENDS: Final = re.compile(r"([\w.-]+)-(\d+)=(\d+)")
"""A topic's name has none of the characters that Java writes between the entries of a map."""


class Span(NamedTuple):
    """The offsets that a partition holds: from `start`, up to but not including `end`."""

    start: int
    end: int


class Identity(NamedTuple):
    """What tells a cluster and its topics from others of the same address and names; None, or absent: it has no ids."""

    cluster_id: str | None
    topic_ids: Mapping[str, str]


class Cluster:
    """A cluster as Spark's source sees it: addresses, and other settings of a client.

    `options` are a Java consumer's own keys (`security.protocol`, `sasl.jaas.config`, ...). `name` is the `source` of
    its records; `given_name` is None if nobody chose it.
    """

    def __init__(
        self, bootstrap_servers: str, *, name: str | None = None, options: Mapping[str, str] | None = None
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.given_name = name
        self.name = name or f"kafka:{bootstrap_servers}"
        self.options = dict(options or {})

    def spans(self, spark: SparkSession, topics: Sequence[str]) -> dict[str, dict[int, Span]]:
        """The offsets of each partition of each topic; topics that do not exist are left out.

        A partition ends at its last stable offset: where a transaction is open, before its records. Raises
        PipelineError: the cluster does not answer, or the jars are missing.
        """
        with self._metadata(spark, {"isolation.level": "read_committed"}) as consumer:
            known = consumer.listTopics()
            # kshim's history is there for those only who ask for it by name.
            asked = {topic: _if_there(partial(consumer.partitionsFor, topic)) for topic in topics if topic not in known}
            found = {topic: infos for topic in topics if (infos := asked[topic] if topic in asked else known[topic])}
            places = _places(spark, found)
            starts, ends = consumer.beginningOffsets(places), consumer.endOffsets(places)
            spans: dict[str, dict[int, Span]] = {topic: {} for topic in found}
            for place in places:
                spans[place.topic()][place.partition()] = Span(starts[place], ends[place])
            return spans

    def spans_of_all(self, spark: SparkSession, topics: Sequence[str]) -> dict[str, dict[int, Span]]:
        """As `spans`. Raises PipelineError, too, if a topic does not exist."""
        spans = self.spans(spark, topics)
        if missing := [topic for topic in topics if topic not in spans]:
            why = " (it is created with the first group)" if "__consumer_offsets" in missing else ""
            raise PipelineError(f"{self.bootstrap_servers} has no topic {', '.join(missing)}{why}", EXIT_UNAVAILABLE)
        return spans

    def identity(self, spark: SparkSession, topics: Sequence[str]) -> Identity:
        """The ids of the cluster and of those `topics` that exist. Raises PipelineError: the cluster does not answer."""
        with self._metadata(spark, make="admin.AdminClient.create") as admin:
            cluster_id = admin.describeCluster().clusterId().get()
            described = admin.describeTopics(_java_list(spark, topics)).topicNameValues()
            found = {topic: about for topic in topics if (about := _if_there(described[topic].get)) is not None}
            ids = {topic: about.topicId().toString() for topic, about in found.items()}
            return Identity(cluster_id, {topic: topic_id for topic, topic_id in ids.items() if topic_id != _NO_ID})

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
    def _metadata(
        self, spark: SparkSession, settings: Mapping[str, str] | None = None, *, make: str = "consumer.KafkaConsumer"
    ) -> Iterator[Any]:
        """A Java client that is closed at the end: a consumer without a group, or what else `make` names."""
        client = self._client(spark, {**(settings or {}), **self.options}, make)
        try:
            yield client
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            raise PipelineError(
                f"{self.bootstrap_servers} did not answer: {cause.getMessage()}", EXIT_UNAVAILABLE
            ) from error
        finally:
            client.close()

    def _client(self, spark: SparkSession, settings: Mapping[str, str], make: str) -> Any:
        jvm: Any = spark._jvm
        java_settings = jvm.java.util.HashMap()
        deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        wanted = {
            "bootstrap.servers": self.bootstrap_servers,
            "key.deserializer": deserializer,
            "value.deserializer": deserializer,
            "default.api.timeout.ms": str(_TIMEOUT_MS),
            "allow.auto.create.topics": "false",
        }
        for key, value in {**wanted, **settings}.items():
            java_settings.put(key, value)
        try:
            made = jvm.org.apache.kafka.clients
            for name in make.split("."):
                made = getattr(made, name)
            return made(java_settings)
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


def _if_there(ask: Callable[[], Any]) -> Any:
    """What `ask` returns about a topic; None: it does not exist, or nobody may see it, which no list tells apart. Raises Py4JJavaError."""
    try:
        return ask()
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        if cause.getClass().getSimpleName() in ("UnknownTopicOrPartitionException", "TopicAuthorizationException"):
            return None
        raise


def _java_list(spark: SparkSession, items: Sequence[str]) -> Any:
    jvm: Any = spark._jvm
    found = jvm.java.util.ArrayList()
    for item in items:
        found.add(item)
    return found


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
    spans = cluster.spans_of_all(spark, topics)
    spark.conf.set(OFFSET_FETCHING, "true")
    options = {"startingOffsets": starting_offsets, "endingOffsets": ending_offsets}
    frame = spark.read.format("kafka").options(**_options(cluster, spans), **options).load()
    records = _as_records(frame, cluster.name)
    if starting_offsets == "earliest" and ending_offsets == "latest":
        _require_rows(records, spans)
    return records


def stream_topics(
    spark: SparkSession,
    cluster: Cluster,
    topics: Sequence[str],
    *,
    starting_offsets: str = "earliest",
) -> DataFrame:
    """The records of `topics` from the beginning and as they are produced, as a streaming RECORDS.

    Spark continues where offsets are gone, without a word about them. Partitions that are added later are read after a
    restart. Raises PipelineError as `read_topics`.
    """
    spans = cluster.spans_of_all(spark, topics)
    spark.conf.set(OFFSET_FETCHING, "true")
    options = {"startingOffsets": starting_offsets, "failOnDataLoss": "false"}
    frame = spark.readStream.format("kafka").options(**_options(cluster, spans), **options).load()
    return _as_records(frame, cluster.name)


def read_ranges(
    spark: SparkSession,
    cluster: Cluster,
    begin: Mapping[str, Mapping[int, int]],
    end: Mapping[str, Mapping[int, int]],
    *,
    source: str,
) -> DataFrame:
    """The records of topics and partitions from an offset up to another, as RECORDS named `source`.

    Records of aborted transactions are left out. Computing the frame fails if the cluster does not have all of these offsets
    any more; those that compaction took from between others are no loss.
    """
    ranges = [
        (topic, at, begin.get(topic, {}).get(at, 0), offset)
        for topic, partitions in end.items()
        for at, offset in partitions.items()
        if offset > begin.get(topic, {}).get(at, 0)
    ]
    if not ranges:
        return spark.createDataFrame([], RECORDS)
    spark.conf.set(OFFSET_FETCHING, "true")
    starts: dict[str, dict[int, int]] = {}
    ends: dict[str, dict[int, int]] = {}
    for topic, at, start, offset in ranges:
        starts.setdefault(topic, {})[at] = start
        ends.setdefault(topic, {})[at] = offset
    options = {"startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends), "failOnDataLoss": "true"}
    frame = spark.read.format("kafka").options(**_options(cluster, starts), **options).load()
    return _as_records(frame, source)


def _options(cluster: Cluster, partitions: Mapping[str, Mapping[int, object]]) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({topic: sorted(numbers) for topic, numbers in partitions.items()}),
        **{f"kafka.{key}": value for key, value in cluster.options.items()},
    }


def _as_records(frame: DataFrame, source: str) -> DataFrame:
    return frame.select(
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp_ms"),
        "key",
        "value",
        F.lit(source).alias("source"),
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
