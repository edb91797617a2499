"""Spark's own Kafka source and sink, as anybody uses them: the same rows from kshim as from Kafka 4.4.

Everything is done on both brokers and compared: what is read of the same records, what a stream reads when it comes
back to its checkpoint, and what the sinks write.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kafka
import pytest
from pyspark.sql import functions as F

from integration.kafka_python.client import KafkaPython
from integration.spark.sending import COMPRESSIONS, an_hour_ago_ms, send, some_records
from integration.support.broker import Broker
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from kshim_pipeline.decode import decode
from kshim_pipeline.inputs.kafka import OFFSET_FETCHING, Cluster, read_topics, stream_topics
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("spark_jars"),
]

PARTITIONS = 3
COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
ISOLATIONS = [{}, {"kafka.isolation.level": "read_committed"}]

Row = tuple[Any, ...]


@pytest.fixture
def brokers(kshim_process: KshimProcess, real_kafka: RealKafka) -> tuple[Broker, Broker]:
    """kshim with its defaults, and Kafka."""
    return kshim_process, real_kafka


@pytest.fixture
def plain(spark: SparkSession) -> SparkSession:
    """A session with Spark's own defaults where the pipeline has others."""
    session = spark.newSession()
    session.conf.set(OFFSET_FETCHING, "false")
    return session


@pytest.fixture
def topic(brokers: tuple[Broker, Broker], spark: SparkSession) -> str:
    """On both brokers, with the same records: a batch or more of every compression, nulls, headers, three partitions."""
    name = a_topic(brokers)
    first_ms = an_hour_ago_ms()
    for number, compression in enumerate(COMPRESSIONS):
        records = some_records(60, PARTITIONS, first_ms + number * 1_000)
        for broker in brokers:
            send(spark, broker.bootstrap, name, records, compression)
    return name


def a_topic(brokers: tuple[Broker, Broker]) -> str:
    name = f"spark-{uuid.uuid4().hex[:8]}"
    client = KafkaPython()
    for broker in brokers:
        client.create_topic(broker.bootstrap, name, PARTITIONS)
        client.wait_for_leaders(broker.bootstrap, name, PARTITIONS)
    return name


def source(session: Any, broker: Broker, topic: str, **options: str) -> DataFrame:
    """`session` is what `read` or `readStream` of a session gives."""
    reader = session.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    frame: DataFrame = reader.option("subscribe", topic).option("includeHeaders", "true").options(**options).load()
    return frame


def rows(frame: DataFrame) -> list[Row]:
    """Whole rows, in the order of partition and offset."""
    return sorted((tuple(row) for row in frame.select(*COLUMNS).collect()), key=lambda row: (row[1], row[2]))


def sunk(frame: DataFrame) -> list[Row]:
    """Rows without what the producer and its timing decide: topic, offset and timestamp."""
    return sorted(
        map(tuple, frame.select(F.col("partition"), F.hex("key"), F.hex("value"), F.to_json("headers")).collect()),
        key=repr,
    )


def same_on_both(brokers: tuple[Broker, Broker], read: Callable[[Broker], list[Row]]) -> list[Row]:
    of_kshim, of_kafka = (read(broker) for broker in brokers)
    assert of_kshim == of_kafka
    return of_kshim


def test_a_batch_read_and_a_batch_written_with_defaults_are_the_same(
    brokers: tuple[Broker, Broker], plain: SparkSession, topic: str
) -> None:
    read = same_on_both(brokers, lambda broker: rows(source(plain.read, broker, topic)))
    assert len(read) == 60 * len(COMPRESSIONS)
    target = a_topic(brokers)
    for broker in brokers:
        keyed = source(plain.read, broker, topic).where("key is not null")
        write_batch(keyed.select("key", "value", "headers"), broker, target)
    written = same_on_both(brokers, lambda broker: sunk(source(plain.read, broker, target)))
    assert len(written) == sum(row[5] is not None for row in read)


def write_batch(frame: DataFrame, broker: Broker, topic: str) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, "includeHeaders": "true"}
    frame.write.format("kafka").options(**options).save()


@pytest.mark.long
@pytest.mark.parametrize("isolation", ISOLATIONS, ids=["read_uncommitted", "read_committed"])
def test_every_way_to_say_where_a_batch_begins_and_ends(
    isolation: dict[str, str], brokers: tuple[Broker, Broker], plain: SparkSession, topic: str
) -> None:
    def read(**options: str) -> list[Row]:
        return same_on_both(brokers, lambda broker: rows(source(plain.read, broker, topic, **isolation, **options)))

    everything = read(startingOffsets="earliest", endingOffsets="latest")
    assert len(everything) == 60 * len(COMPRESSIONS)

    # -2 is the first offset and -1 the end.
    starts, ends = {"0": 7, "1": -2, "2": 99}, {"0": 50, "1": -1, "2": -1}
    some = read(startingOffsets=json.dumps({topic: starts}), endingOffsets=json.dumps({topic: ends}))
    wanted = {0: range(7, 50), 1: range(100), 2: range(99, 100)}
    assert some == [row for row in everything if row[2] in wanted[row[1]]]

    from_time = sorted(row[3] for row in everything)[len(everything) // 2]
    millis = str(int(from_time.timestamp() * 1000))
    late = read(startingTimestamp=millis)
    assert late == [row for row in everything if row[3] >= from_time]
    assert late, "the times are such that there is something to find"

    by_partition = json.dumps({topic: dict.fromkeys(starts, int(millis))})
    assert read(startingOffsetsByTimestamp=by_partition) == late
    early = read(endingTimestamp=millis)
    assert early == [row for row in everything if row[3] < from_time]
    assert read(minPartitions="8") == everything


@pytest.mark.long
@pytest.mark.parametrize("isolation", ISOLATIONS, ids=["read_uncommitted", "read_committed"])
def test_a_stream_reads_what_is_there_and_then_what_came_since(
    isolation: dict[str, str], brokers: tuple[Broker, Broker], plain: SparkSession, topic: str, tmp_path: Path
) -> None:
    def run(broker: Broker) -> list[Row]:
        out = str(tmp_path / broker.name / "out")
        frame = source(
            plain.readStream, broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger="70", **isolation
        )
        writer = frame.writeStream.format("parquet").option("path", out).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / broker.name / "checkpoint")).start().awaitTermination()
        return rows(plain.read.parquet(out))

    first = same_on_both(brokers, run)
    assert first == rows(source(plain.read, brokers[0], topic))
    assert same_on_both(brokers, run) == first, "nothing came, nothing is read again"
    news = some_records(90, PARTITIONS, an_hour_ago_ms() + 60_000)
    for broker in brokers:
        send(plain, broker.bootstrap, topic, news, "lz4")
    second = same_on_both(brokers, run)
    assert len(second) == len(first) + 90
    assert set(map(repr, first)) < set(map(repr, second))


@pytest.mark.long
def test_a_stream_copies_a_topic_into_another_in_micro_batches_and_goes_on(
    brokers: tuple[Broker, Broker], plain: SparkSession, topic: str, tmp_path: Path
) -> None:
    target = a_topic(brokers)

    def run(broker: Broker) -> list[Row]:
        frame = source(plain.readStream, broker, topic, startingOffsets="earliest").where("key is not null")
        options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": target, "includeHeaders": "true"}
        writer = frame.select("key", "value", "headers").writeStream.format("kafka").options(**options)
        query = writer.option("checkpointLocation", str(tmp_path / broker.name)).start()  # Spark's default trigger
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return sunk(source(plain.read, broker, target))

    first = same_on_both(brokers, run)
    assert len(first) == 60 * len(COMPRESSIONS) * 3 // 4
    assert same_on_both(brokers, run) == first
    for broker in brokers:
        send(plain, broker.bootstrap, topic, some_records(40, PARTITIONS, an_hour_ago_ms() + 60_000), "zstd")
    assert len(same_on_both(brokers, run)) == len(first) + 30


@pytest.mark.long
def test_a_batch_that_names_partitions_goes_there_in_order(
    brokers: tuple[Broker, Broker], plain: SparkSession, topic: str
) -> None:
    target = a_topic(brokers)
    for broker in brokers:
        ordered = source(plain.read, broker, topic).coalesce(1).sortWithinPartitions("partition", "offset")
        write_batch(ordered.select("partition", "key", "value", "headers"), broker, target)

    def read(broker: Broker) -> list[Row]:
        return [(row[1], row[2], *row[4:]) for row in rows(source(plain.read, broker, target))]

    written = same_on_both(brokers, read)
    assert written == [(row[1], row[2], *row[4:]) for row in rows(source(plain.read, brokers[0], topic))]


def commit_in_a_group(broker: Broker, topic: str, group_id: str) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=group_id, client_id="ann", enable_auto_commit=False
    )
    try:
        assert consumer.partitions_for_topic(topic), "a leader that does not know the topic would join once more"
        consumer.subscribe([topic])
        while len(consumer.assignment()) < PARTITIONS:
            consumer.poll(timeout_ms=100)
        for offset in (5, 6, 7):
            commits = {place: kafka.OffsetAndMetadata(offset, f"at {offset}", -1) for place in consumer.assignment()}
            consumer.commit(commits)
    finally:
        consumer.close(autocommit=False)


def decoded_rows(decoded: DataFrame, group_id: str) -> list[Row]:
    """What the records say of a group, but for member ids and times."""
    names = ("kind", "is_tombstone", "committed_topic", "committed_partition", "committed_offset", "metadata")
    more = ("protocol_type", "generation_id", "protocol_name")
    clients = F.transform("members", lambda member: member["client_id"]).alias("clients")
    held = F.transform("members", lambda member: F.to_json(member["assignment"])).alias("held")
    of_group = decoded.where(F.col("group_id") == group_id).orderBy("offset")  # a group is in one partition
    return [tuple(row) for row in of_group.select(*names, *more, clients, held).collect()]


@pytest.mark.long
def test_the_pipelines_own_reader_reads_the_offsets_topic_of_both_and_the_usual_way_of_neither(
    brokers: tuple[Broker, Broker], spark: SparkSession, plain: SparkSession, topic: str, tmp_path: Path
) -> None:
    group_id = f"billing-{uuid.uuid4().hex[:8]}"
    for broker in brokers:
        commit_in_a_group(broker, topic, group_id)

    def read(broker: Broker) -> list[Row]:
        return decoded_rows(decode(read_topics(spark, Cluster(broker.bootstrap), [OFFSETS_TOPIC])), group_id)

    found = same_on_both(brokers, read)
    assert [row[4] for row in found if row[0] == "offset_commit"] == [5] * 3 + [6] * 3 + [7] * 3
    assert max(row[7] for row in found if row[0] == "group_metadata") == 2

    def streamed(broker: Broker) -> list[Row]:
        out = str(tmp_path / broker.name / "out")
        records = stream_topics(spark, Cluster(broker.bootstrap), [OFFSETS_TOPIC])
        writer = records.writeStream.format("parquet").option("path", out).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / broker.name / "checkpoint")).start().awaitTermination()
        return decoded_rows(decode(spark.read.parquet(out)), group_id)

    assert same_on_both(brokers, streamed) == found
    # An admin client does not see internal topics: the trap that the reader is there for.
    assert same_on_both(brokers, lambda broker: rows(source(plain.read, broker, OFFSETS_TOPIC))) == []
