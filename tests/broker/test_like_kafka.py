"""The data plane beside a real Kafka 4.4: the same requests, the same answers.

What differs on purpose is left out of the comparison: texts, the list of aborted transactions of partitions in error,
batches cut in the middle (Kafka fills an answer up to the last byte).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from typing import Any, Protocol

import pytest

from integration.support.broker import Deadline
from integration.support.kafka import RealKafka
from kshim.tools.client import BrokerGone
from kshim.tools.client import Client as WireClient
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kshim_protocol.messages.fetch import FetchResponse
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kshim_protocol.messages.metadata import MetadataRequest
from kshim_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kshim_protocol.messages.produce import ProduceResponse
from kshim_protocol.records.batch import build_batch, iter_batches
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.record import Record
from kshim_protocol.schema import Request, Struct
from tests.broker.data_plane import a_batch, altered, fetch_of, produce_of
from tests.broker.harness import NodeUnderTest, a_node

pytestmark = pytest.mark.kafka

NEVER = 2**60
TOPIC_NUMBERS = count()


class Peer(Protocol):
    def ask(self, request: Request[Any], version: int) -> Any: ...


class Both:
    """Kafka and a node of ours, asked the same."""

    def __init__(self, kafka: WireClient, node: NodeUnderTest) -> None:
        self.kafka = kafka
        self.node = node.client()
        self.topic_ids: tuple[dict[str, bytes], dict[str, bytes]] = ({}, {})

    def create(self, partitions: int = 2, /, **configs: str) -> str:
        """A topic with a name of its own on both; `max_message_bytes` stands for `max.message.bytes`."""
        name = f"like-kafka-{next(TOPIC_NUMBERS)}"
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=(),
            configs=tuple(CreatableTopicConfig(name=key.replace("_", "."), value=configs[key]) for key in configs),
        )
        for peer, ids in zip(self._peers(), self.topic_ids, strict=True):
            (created,) = peer.ask(CreateTopicsRequest(topics=(topic,)), 7).topics
            assert created.error_code == ErrorCode.NONE, created
            ids[name] = created.topic_id
        self._wait_for_leaders(name, partitions)
        return name

    def ask(self, request: Request[Any], version: int) -> Any:
        """Kafka's answer and ours, which must be the same; returns it."""
        return self.compare(request, request, version)

    def compare(self, of_kafka: Request[Any], of_node: Request[Any], version: int) -> Any:
        theirs = plain(self.kafka.ask(of_kafka, version), self.topic_ids[0])
        ours = plain(self.node.ask(of_node, version), self.topic_ids[1])
        assert ours == theirs, f"{of_node!r} v{version}"
        return ours

    def _peers(self) -> tuple[Peer, Peer]:
        return self.kafka, self.node

    def _wait_for_leaders(self, name: str, partitions: int) -> None:
        deadline = Deadline(30)
        waiting_for = list(range(partitions))
        while waiting_for:
            deadline.check(f"Kafka makes a leader for {name}-{waiting_for[0]}")
            (topic,) = self.kafka.ask(offsets_of(name, waiting_for[0], -1), 7).topics
            if topic.partitions[0].error_code == ErrorCode.NONE:
                del waiting_for[0]


def plain(answer: Any, topic_ids: dict[str, bytes]) -> Any:
    """An answer as nested tuples without what may differ; ids of topics become their names."""
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    if isinstance(answer, ProduceResponse):
        return [
            (
                topic.name or names.get(topic.topic_id),
                part.index,
                part.error_code,
                part.base_offset,
                part.log_append_time_ms,
                part.log_start_offset,
                [error.batch_index for error in part.record_errors],
            )
            for topic in answer.responses
            for part in topic.partition_responses
        ]
    if isinstance(answer, FetchResponse):
        return answer.error_code, [
            (
                topic.topic or names.get(topic.topic_id),
                part.partition_index,
                part.error_code,
                part.high_watermark,
                part.last_stable_offset,
                part.log_start_offset,
                part.error_code or part.aborted_transactions,
                part.diverging_epoch,
                part.preferred_read_replica,
                b"".join(iter_batches(part.records or b"")),
            )
            for topic in answer.responses
            for part in topic.partitions
        ]
    assert isinstance(answer, Struct)
    return answer


@pytest.fixture
def both(real_kafka: RealKafka) -> Iterator[Both]:
    host, _, port = real_kafka.bootstrap.rpartition(":")
    kafka = WireClient(host, int(port), client_id="like-kafka", timeout_s=30)
    yield Both(kafka, a_node())
    kafka.close()


BATCH = a_batch(b"1", b"2", b"3", timestamp_ms=1000)

SENT: dict[str, bytes] = {
    "plain": BATCH,
    "gzip": a_batch(b"1", timestamp_ms=1000, compression=Compression.GZIP),
    "empty": b"",
    "half a header": BATCH[:40],
    "truncated": BATCH[:-1],
    "two batches": BATCH + BATCH,
    "magic 1": altered(BATCH, ">b", 16, 1),
    "count is one more": altered(BATCH, ">i", 57, 4),
    "count 0": altered(BATCH, ">i", 57, 0),
    "control": altered(BATCH, ">h", 21, 0x20),
    "crc": altered(BATCH, ">I", 17, 1, with_crc=False),
    "length 20": altered(BATCH, ">i", 8, 20),
    "producer id without sequence": a_batch(timestamp_ms=1000, producer_id=77, producer_epoch=0),
    "transactional": a_batch(
        timestamp_ms=1000, producer_id=77, producer_epoch=0, base_sequence=0, is_transactional=True
    ),
    "claims append time": a_batch(timestamp_ms=1000, log_append_time_ms=9000),
    "unused attribute": altered(BATCH, ">h", 21, 0x1000),
    "from the future": a_batch(b"1", b"2", timestamp_ms=NEVER),
    "no timestamp": a_batch(timestamp_ms=-1),
    "no key": a_batch(b"1", b"2", key=None, timestamp_ms=1000),
    "large": a_batch(b"x" * 2000, timestamp_ms=1000),
}


@pytest.mark.parametrize("configs", [{}, {"cleanup_policy": "compact"}, {"max_message_bytes": "1000"}], ids=str)
def test_every_batch_is_taken_or_refused_alike_and_read_alike(both: Both, configs: dict[str, str]) -> None:
    topic = both.create(2, **configs)
    for version in (3, 8, 12):
        for batch in SENT.values():
            both.ask(produce_of(topic, batch), version)
    _, (answer,) = both.ask(fetch_of((topic, 0, 0)), 12)
    assert answer[-1], "nothing was stored"


@pytest.mark.parametrize("acks", [-2, -1, 1, 2])
def test_acks_and_places_are_refused_alike(both: Both, acks: int) -> None:
    topic = both.create()
    for name, first_partition in ((topic, 0), (topic, 2), (topic, -1), ("like-kafka-nothing", 0)):
        both.ask(produce_of(name, BATCH, acks=acks, first_partition=first_partition), 12)


@pytest.mark.parametrize("sent", ["plain", "crc"])
@pytest.mark.parametrize("topic", [None, "like-kafka-nothing"])
def test_a_failure_without_acks_closes_the_connection(both: Both, sent: str, topic: str | None) -> None:
    name = topic or both.create()
    both.kafka.send(produce_of(name, SENT[sent], acks=0), 12)
    if sent == "plain" and topic is None:
        both.kafka._awaited.clear()  # acks=0 gets no answer
        assert both.kafka.ask(MetadataRequest(topics=()), 12).topics == ()
    else:
        with pytest.raises(BrokerGone):
            both.kafka.receive(30)


@pytest.mark.parametrize("seed", range(4))
def test_a_producer_that_repeats_skips_and_restarts_gets_the_same_answers(both: Both, seed: int) -> None:
    topic = both.create(1)
    chance = random.Random(seed)
    producer_id = chance.randrange(10**9)
    epoch, sequence = 0, chance.choice([0, 5, 2**31 - 3])
    sent: list[tuple[int, int, int]] = []
    answers = set()
    for _ in range(150):
        match chance.choice(["next"] * 6 + ["again"] * 4 + ["skip", "split", "epoch", "old epoch"]):
            case "again" if sent:
                wanted = chance.choice(sent[-7:])
            case "skip":
                wanted = (epoch, (sequence + 1) % 2**31, 1)
            case "split" if sent:
                wanted = (sent[-1][0], sent[-1][1], sent[-1][2] + 1)
            case "epoch":
                epoch += 1
                sequence = chance.choice([0, 0, 0, 3])
                wanted = (epoch, sequence, 1)
            case "old epoch":
                wanted = (epoch - 1, sequence, 1)
            case _:
                wanted = (epoch, sequence, chance.randint(1, 3))
        batch = a_batch(
            *[b"v"] * wanted[2],
            timestamp_ms=1000 + len(sent),
            producer_id=producer_id,
            producer_epoch=wanted[0],
            base_sequence=wanted[1],
        )
        ((_, _, error, *_),) = both.ask(produce_of(topic, batch), 12)
        answers.add(error)
        if error == ErrorCode.NONE and wanted not in sent:
            sent.append(wanted)
            sequence = (wanted[1] + wanted[2]) % 2**31
    assert len(answers) > 1


@pytest.fixture
def filled(both: Both) -> str:
    """A topic of two partitions with ten batches in the first, their times not in order."""
    topic = both.create()
    chance = random.Random(7)
    for _ in range(10):
        records = [
            Record(None, b"x" * chance.randrange(200), timestamp_ms=chance.choice([-1, 0, *range(1000, 1020)]))
            for _ in range(chance.randint(1, 4))
        ]
        compression = chance.choice([Compression.NONE, Compression.GZIP])
        both.ask(produce_of(topic, build_batch(records, compression=compression)), 12)
    return topic


def test_every_offset_is_read_alike_whatever_the_limits(both: Both, filled: str) -> None:
    chance = random.Random(11)
    for offset in range(-1, 45):
        for limits in ({}, {"max_bytes": chance.randrange(900)}, {"partition_max_bytes": chance.randrange(900)}):
            options: dict[str, Any] = {"isolation_level": chance.choice([0, 1]), **limits}
            both.ask(fetch_of((filled, 0, offset), **options), 12)


def test_bytes_are_spread_over_partitions_alike(both: Both, filled: str) -> None:
    other = both.create(1)
    both.ask(produce_of(other, BATCH), 12)
    for max_bytes in (0, 1, len(BATCH), len(BATCH) + 1, 300, 500, 10**6):
        both.ask(fetch_of((other, 0, 0), (filled, 1, 0), (filled, 0, 0), max_bytes=max_bytes), 12)
        both.ask(fetch_of((other, 0, 3), (filled, 0, 3), max_bytes=max_bytes, max_wait_ms=100), 12)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_alike(both: Both, filled: str, version: int) -> None:
    places = ((filled, 0, 0), (filled, 1, 0), (filled, 0, 99), (filled, 5, 0))
    if version < 13:
        for place in (*places, ("like-kafka-nothing", 0, 0)):
            both.ask(fetch_of(place), version)
        return
    for name, partition, offset in places:
        kafkas, ours = (fetch_of((ids[name], partition, offset)) for ids in both.topic_ids)
        both.compare(kafkas, ours, version)
    both.ask(fetch_of((b"\x07" * 16, 0, 0)), version)


@pytest.mark.parametrize("rows", [{"current_leader_epoch": 0}, {"current_leader_epoch": 1}, {"current_leader_epoch": -2}, {"last_fetched_epoch": 0}, {"last_fetched_epoch": 1}, {"last_fetched_epoch": -2}], ids=str)  # fmt: skip
def test_epochs_of_readers_are_checked_alike(both: Both, filled: str, rows: dict[str, int]) -> None:
    for offset in (0, 99):
        both.ask(fetch_of((filled, 0, offset), partition=rows), 12)


@pytest.mark.parametrize(("session_id", "epoch"), [(0, -1), (5, -1), (5, 7), (0, 5), (0, -2)])
def test_sessions_that_do_not_exist_are_refused_alike(both: Both, filled: str, session_id: int, epoch: int) -> None:
    for version in (7, 12):
        both.ask(fetch_of((filled, 0, 0), session_id=session_id, session_epoch=epoch), version)


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_are_listed_alike_in_every_version(both: Both, filled: str, version: int) -> None:
    for timestamp in (-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 999, *range(1000, 1021)):
        for partition in (0, 1, 2):
            both.ask(offsets_of(filled, partition, timestamp), version)
    both.ask(offsets_of("like-kafka-nothing", 0, -1), version)


@pytest.mark.parametrize("epoch", [-2, -1, 0, 1])
def test_leader_epochs_are_checked_alike(both: Both, filled: str, epoch: int) -> None:
    both.ask(offsets_of(filled, 0, -1, leader_epoch=epoch, isolation_level=1), 11)
    for asked in (-2, -1, 0, 1, 2**31 - 1):
        wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=asked)
        topics = (OffsetForLeaderTopic(topic=filled, partitions=(wanted,)),)
        for version in (3, 4):
            both.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), version)


@pytest.mark.parametrize("ids", [(5, -1), (-1, 5)])
def test_half_a_producer_identity_is_refused_alike(both: Both, ids: tuple[int, int]) -> None:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000, producer_id=ids[0], producer_epoch=ids[1]
    )
    assert both.ask(request, 5).error_code == ErrorCode.INVALID_REQUEST


def offsets_of(
    topic: str, partition: int, timestamp: int, *, leader_epoch: int = -1, isolation_level: int = 0
) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=(ListOffsetsTopic(name=topic, partitions=(wanted,)),)
    )
