"""Landing: each record once whatever happened to the run before, and nothing goes by uncounted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata
from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import ACL, ACLOperation, ACLPermissionType, KafkaAdminClient, ResourcePattern, ResourceType
from pyspark.sql import Observation

from integration.support.fixtures import available
from integration.support.kshim import KshimProcess
from integration.support.unavailable import Unavailable
from kshim_pipeline.decode import decode
from kshim_pipeline.errors import PipelineError
from kshim_pipeline.folder import folder_at
from kshim_pipeline.inputs import kafka
from kshim_pipeline.inputs.kafka import Cluster, Span, read_topics
from kshim_pipeline.land.batches import Batches
from kshim_pipeline.land.checks import Loss, losses
from kshim_pipeline.land.counts import Counts, observed
from kshim_pipeline.land.landing import land
from kshim_pipeline.land.log_ends import LogEnds, read_log_ends
from kshim_pipeline.land.reading import decode_landed, read_landed
from kshim_pipeline.model.events import events
from kshim_pipeline.records import RECORDS
from kshim_pipeline.setup.jars import kafka_jars
from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC
from tests.pipeline.test_decode import COMMIT, a_group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def kafka_spark(spark: SparkSession) -> SparkSession:
    """The session, where its Kafka source is there."""

    def jars() -> object:
        try:
            return kafka_jars()
        except PipelineError as error:
            raise Unavailable(str(error)) from error

    available(jars)
    return spark


@pytest.fixture(scope="module")
def kshim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KshimProcess]:
    """A broker whose offsets topic has four partitions."""
    process = KshimProcess(
        tmp_path_factory.mktemp("kshim"), config={"offsets.topic.num.partitions": "4"}, topics={"orders": 3}
    )
    process.start()
    yield process
    process.stop()


@pytest.fixture
def cluster(kshim: KshimProcess) -> Cluster:
    return Cluster(kshim.bootstrap, name="here")


def commit(kshim: KshimProcess, group: str, offset: int) -> None:
    """A group commits offsets of three partitions, which is three records."""
    consumer = KafkaConsumer(bootstrap_servers=kshim.bootstrap, group_id=group, enable_auto_commit=False)
    try:
        consumer.commit({KafkaTopicPartition("orders", at): OffsetAndMetadata(offset, "", -1) for at in range(3)})
    finally:
        consumer.close()


def landed(spark: SparkSession, folder: Path) -> list[tuple[str, int]]:
    """(group, committed offset) of each commit that was landed."""
    rows = decode(read_landed(spark, str(folder))).where("kind = 'offset_commit'").collect()
    return sorted((row.group_id, row.committed_offset) for row in rows)


def test_each_run_lands_new_records(
    kafka_spark: SparkSession, kshim: KshimProcess, cluster: Cluster, tmp_path: Path
) -> None:
    commit(kshim, "first", 1)
    before = land(kafka_spark, cluster, [OFFSETS_TOPIC], str(tmp_path)).records
    assert before >= 3
    commit(kshim, "second", 2)
    counts = land(kafka_spark, cluster, [OFFSETS_TOPIC], str(tmp_path))
    assert (counts.records, counts.by_kind) == (3, {"offset_commit": 3})
    ends = {at: span.end for at, span in cluster.spans(kafka_spark, [OFFSETS_TOPIC])[OFFSETS_TOPIC].items()}
    assert Batches(folder_at(kafka_spark, str(tmp_path))).landed().end == {OFFSETS_TOPIC: ends}, (
        "losses are told from here"
    )
    assert land(kafka_spark, cluster, [OFFSETS_TOPIC], str(tmp_path)).records == 0
    assert [row for row in landed(kafka_spark, tmp_path) if row[0] in ("first", "second")] == [
        *[("first", 1)] * 3,
        *[("second", 2)] * 3,
    ]
    assert read_landed(kafka_spark, str(tmp_path)).count() == before + 3


def test_a_landed_record_is_what_a_reader_of_the_topic_gets(
    kafka_spark: SparkSession, kshim: KshimProcess, cluster: Cluster, tmp_path: Path
) -> None:
    commit(kshim, "same", 3)
    land(kafka_spark, cluster, [OFFSETS_TOPIC], str(tmp_path))
    direct = read_topics(kafka_spark, cluster, [OFFSETS_TOPIC])
    assert direct.schema.names == RECORDS.names
    place = ("partition", "offset")
    assert (
        decode(direct).orderBy(*place).collect() == decode_landed(kafka_spark, str(tmp_path)).orderBy(*place).collect()
    )
    assert direct.orderBy(*place).collect() == read_landed(kafka_spark, str(tmp_path)).orderBy(*place).collect()


def test_reading_joins_no_group(kafka_spark: SparkSession, kshim: KshimProcess, cluster: Cluster) -> None:
    commit(kshim, "quiet", 1)
    before = cluster.spans(kafka_spark, [OFFSETS_TOPIC])
    read_topics(kafka_spark, cluster, [OFFSETS_TOPIC]).count()
    assert cluster.spans(kafka_spark, [OFFSETS_TOPIC]) == before


def test_the_history_of_a_kshim_lands_although_no_list_of_topics_has_it(
    kafka_spark: SparkSession, kshim: KshimProcess, cluster: Cluster, tmp_path: Path
) -> None:
    commit(kshim, "told", 1)
    with closing(KafkaConsumer("orders", bootstrap_servers=kshim.bootstrap, group_id="told")) as member:
        assert EVENTS_TOPIC not in member.topics()
        while not member.assignment():
            member.poll(100)
    spans = cluster.spans(kafka_spark, [OFFSETS_TOPIC, EVENTS_TOPIC, "nobodys"])
    assert set(spans) == {OFFSETS_TOPIC, EVENTS_TOPIC}
    assert set(cluster.identity(kafka_spark, [OFFSETS_TOPIC, EVENTS_TOPIC, "nobodys"]).topic_ids) == set(spans)
    land(kafka_spark, cluster, [OFFSETS_TOPIC, EVENTS_TOPIC], str(tmp_path))
    types = {row.type for row in events(read_landed(kafka_spark, str(tmp_path))).where("group = 'told'").collect()}
    assert {"member_joined", "rebalance_completed", "member_left"} <= types


def test_a_topic_that_may_not_be_described_is_left_out_as_one_that_does_not_exist(
    kafka_spark: SparkSession, tmp_path: Path
) -> None:
    config = {"allow.everyone.if.no.acl.found": "true"}
    process = KshimProcess(tmp_path, config=config, topics={"orders": 1}, options=("--acls",))
    process.start()
    try:
        with closing(KafkaAdminClient(bootstrap_servers=process.bootstrap)) as admin:
            hidden = ResourcePattern(ResourceType.TOPIC, EVENTS_TOPIC)
            admin.create_acls([ACL("User:boss", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, hidden)])
        cluster = Cluster(process.bootstrap)
        assert set(cluster.spans(kafka_spark, ["orders", EVENTS_TOPIC])) == {"orders"}
        assert set(cluster.identity(kafka_spark, ["orders", EVENTS_TOPIC]).topic_ids) == {"orders"}
    finally:
        process.stop()


def test_an_internal_topic_that_spark_takes_for_empty_is_an_error_that_says_why(
    kafka_spark: SparkSession, kshim: KshimProcess, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(kshim, "hidden", 1)
    setting = kafka.OFFSET_FETCHING
    kafka_spark.conf.set(setting, "false")
    monkeypatch.setattr(kafka, "OFFSET_FETCHING", "spark.some.other.setting")
    try:
        with pytest.raises(PipelineError, match=r"read no record of __consumer_offsets, although .* internal topics"):
            read_topics(kafka_spark, cluster, [OFFSETS_TOPIC])
    finally:
        kafka_spark.conf.set(setting, "true")


def test_log_ends_are_sampled_once_a_minute(
    kafka_spark: SparkSession, kshim: KshimProcess, cluster: Cluster, tmp_path: Path
) -> None:
    producer = KafkaProducer(bootstrap_servers=kshim.bootstrap)
    producer.send("orders", b"coffee", partition=1).get(30)
    producer.close()
    assert read_log_ends(kafka_spark, str(tmp_path)) is None
    ends = LogEnds(kafka_spark, cluster, str(tmp_path))
    ends.sample()
    ends.sample()
    sampled = read_log_ends(kafka_spark, str(tmp_path))
    assert sampled is not None
    rows = sampled.select("topic", "partition", "log_end_offset").collect()
    assert sorted(map(tuple, rows)) == [("orders", 0, 0), ("orders", 1, 1), ("orders", 2, 0)]


def test_a_missing_topic_or_cluster_is_named(kafka_spark: SparkSession, cluster: Cluster) -> None:
    with pytest.raises(PipelineError, match="has no topic nothing"):
        read_topics(kafka_spark, cluster, ["nothing"])
    with pytest.raises(PipelineError, match="Cannot create a Kafka client for nowhere:x"):
        Cluster("nowhere:x").spans(kafka_spark, ["orders"])


def test_records_deleted_before_they_were_landed_are_reported() -> None:
    spans = {"t": {0: Span(0, 9), 1: Span(8, 20), 2: Span(5, 5)}}
    assert losses({"t": {0: 9, 1: 3, 2: 5}}, spans, "out") == [Loss("t", 1, 3, 8)]
    assert str(Loss("t", 1, 3, 8)) == "t-1: offsets 3 to 7"


def test_a_log_that_is_shorter_than_what_was_landed_is_another_one() -> None:
    with pytest.raises(
        PipelineError, match="t-0 ends at offset 2, but out has records up to 9: this is another cluster"
    ):
        losses({"t": {0: 9}}, {"t": {0: Span(0, 2)}}, "out")


def test_unknown_types_and_versions_are_counted_and_named(spark: SparkSession, tmp_path: Path) -> None:
    """A file stands for the topic: clients may not write there."""
    pairs = [
        tuple(COMMIT),
        tuple(a_group(1)),
        (COMMIT.key, None),
        (b"\0\x03\0\x01g", b"\0\0rest"),
        (COMMIT.key, b"\0\x09new"),
        (COMMIT.key, b"\0"),
        (b"\0\x63", b"\0\0"),
        (None, b"x"),
    ]
    rows: list[Any] = [(OFFSETS_TOPIC, 0, at, 0, key, value, "here") for at, (key, value) in enumerate(pairs)]
    events = [b'{"v": 2}', b'{"v": 7}', b"no JSON"]
    rows += [(EVENTS_TOPIC, 0, at, 0, b"g", value, "here") for at, value in enumerate(events)]
    rows += [(SHARE_STATE_TOPIC, 0, at, 0, key, b"x", "here") for at, key in enumerate((b"\0\1", b"\0\x09"))]
    spark.createDataFrame(rows, RECORDS).write.parquet(str(tmp_path / "in"))
    counting = Observation("counted")
    observed(spark.read.schema(RECORDS).parquet(str(tmp_path / "in")), counting).write.format("noop").mode(
        "overwrite"
    ).save()
    counts = Counts()
    counts.add(counting.get, len(rows) + 2)
    assert (counts.records, counts.unknown) == (13, 7)
    assert counts.by_kind == {"offset_commit": 4, "group_metadata": 1, "consumer_group_metadata": 1}
    assert counts.unknown_names == {
        *("key type 1 value version 9", "key type 1 value version none", "key type 99", "key type none"),
        *("event version 7", "event version none", "key type 9 of __share_group_state"),
    }
    assert "2 of 15 offsets had no record" in counts.sentences()[-1]
