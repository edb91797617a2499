"""Transactions in partitions beside a real Kafka 4.4: the same requests, the same answers."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from integration.support.kafka import RealKafka
from kshim.tools.client import Client as WireClient
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kshim_protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest
from kshim_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kshim_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.broker.beside_kafka import COORDINATOR_EPOCH_AT, Sides, seen
from tests.broker.data_plane import a_batch, fetch_of, only_partition, produce_of
from tests.broker.harness import a_node

pytestmark = pytest.mark.kafka

NUMBERS = count()
MARKERS_FROM_MS = 10**9  # records are older


class Both(Sides):
    """A topic with a name of its own on both brokers."""

    def create(self, name: str = "", **configs: str) -> str:
        name = name or f"transactions-like-kafka-{next(NUMBERS)}"
        # Markers are younger than the records, and Kafka answers from one segment at a time.
        configs["segment_ms"] = str(2**63 - 1)
        # The records are of 1970: on a slow machine Kafka's check of the retention time would delete them meanwhile.
        configs["retention_ms"] = "-1"
        topic = CreatableTopic(
            name=name,
            num_partitions=2,
            replication_factor=1,
            assignments=(),
            configs=tuple(CreatableTopicConfig(name=key.replace("_", "."), value=configs[key]) for key in configs),
        )
        for side in (self.kafka, self.node):
            (created,) = side.ask(CreateTopicsRequest(topics=(topic,)), 7).topics
            assert created.error_code == ErrorCode.NONE, created
        deadline = time.monotonic() + 30
        for index in (0, 1):
            while only_offset(self.kafka.ask(offsets_of(name, index, 0, -1), 7))[0] != ErrorCode.NONE:
                assert time.monotonic() < deadline, f"Kafka made no leader for {name}-{index}"
        return name

    def delete(self, name: str) -> None:
        for side in (self.kafka, self.node):
            (deleted,) = side.ask(DeleteTopicsRequest(topic_names=(name,), timeout_ms=30_000), 5).responses
            assert deleted.error_code == ErrorCode.NONE, deleted
        deadline = time.monotonic() + 30
        while only_offset(self.kafka.ask(offsets_of(name, 0, 0, -1), 7))[0] == ErrorCode.NONE:
            assert time.monotonic() < deadline, f"Kafka did not delete {name}"

    def write(self, topic: str, batch: bytes, version: int = 9, *, transactional_id: str | None) -> tuple[int, int]:
        request = produce_of(topic, batch, acks=-1, transactional_id=transactional_id)
        answers = []
        for side in (self.node, self.kafka):
            answer = only_partition(side.ask(request, version))
            answers.append((answer.error_code, answer.base_offset))
        assert answers[0] == answers[1], f"{transactional_id} v{version}"
        return answers[0]

    def read(self, topic: str, offset: int = 0, **limits: Any) -> Any:
        """What READ_COMMITTED readers see, and what the others do."""
        found: Any = None
        for level in (0, 1):
            request = fetch_of((topic, 0, offset), isolation_level=level, **limits)
            ours, theirs = (
                seen(only_partition(side.ask(request, 12)), markers_end_at=COORDINATOR_EPOCH_AT)
                for side in (self.node, self.kafka)
            )
            assert ours == theirs, f"{topic} from {offset}, isolation level {level}, {limits}"
            found = ours
            for timestamp in (-1, -2, 0, 1002, 1005):
                ours, theirs = (
                    only_offset(side.ask(offsets_of(topic, 0, level, timestamp), 7)) for side in (self.node, self.kafka)
                )
                assert ours == theirs, f"{topic} at {timestamp}, isolation level {level}"
        return found

    def producers(self, topic: str) -> None:
        request = DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(0, 7)),))
        sides = []
        for side in (self.node, self.kafka):
            (answered,) = side.ask(request, 0).topics
            sides.append(
                [
                    (part.partition_index, part.error_code, sorted(facts(each) for each in part.active_producers))
                    for part in answered.partitions
                ]
            )
        assert sides[0] == sides[1]


def facts(producer: Any) -> tuple[int, ...]:
    return (
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        min(producer.coordinator_epoch, 0),  # -1 before the first marker; later ones where Kafka was restarted
        producer.current_txn_start_offset,
    )


def only_offset(response: ListOffsetsResponse) -> tuple[int, int, int]:
    """Error, offset, and the timestamp unless it is a marker's."""
    ((found,),) = (topic.partitions for topic in response.topics)
    return found.error_code, found.offset, min(found.timestamp, MARKERS_FROM_MS)


def offsets_of(topic: str, partition: int, level: int, timestamp: int) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=level, topics=(ListOffsetsTopic(name=topic, partitions=(wanted,)),)
    )


def in_transaction(producer: tuple[int, int], sequence: int, *values: bytes) -> bytes:
    return a_batch(
        *values,
        timestamp_ms=1000 + sequence,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
    )


@pytest.fixture
def both(real_kafka: RealKafka) -> Iterator[Both]:
    host, _, port = real_kafka.bootstrap.rpartition(":")
    kafka = WireClient(host, int(port), client_id="like-kafka", timeout_s=30)
    node = a_node()
    yield Both(kafka, node)
    kafka.close()
    node.close()


@pytest.mark.parametrize("seed", range(2))
def test_transactions_that_overlap_are_read_alike(both: Both, seed: int) -> None:
    topic = both.create()
    chance = random.Random(seed)
    ids = [f"{topic}-{i}" for i in range(3)]
    producers = {transactional_id: both.init(transactional_id) for transactional_id in ids}
    sequences = dict.fromkeys(ids, 0)
    is_open: set[str] = set()
    for _ in range(40):
        transactional_id = chance.choice(ids)
        producer = producers[transactional_id]
        match chance.choice(["write"] * 4 + ["plain", "end", "end", "again"]):
            case "plain":
                both.write(topic, a_batch(b"plain", timestamp_ms=1000), transactional_id=None)
            case "end" if transactional_id in is_open:
                both.end(transactional_id, producer, commit=chance.random() < 0.5)
                is_open.discard(transactional_id)
            case "again" if transactional_id in is_open:
                producers[transactional_id] = both.init(transactional_id)  # aborts, and fences the one before
                sequences[transactional_id] = 0
                is_open.discard(transactional_id)
                assert both.write(topic, in_transaction(producer, 99, b"x"), transactional_id=transactional_id)[0]
            case _:
                if transactional_id not in is_open:
                    both.add(transactional_id, producer, topic, 0)
                    is_open.add(transactional_id)
                values = [b"%d" % i for i in range(chance.randint(1, 3))]
                batch = in_transaction(producer, sequences[transactional_id], *values)
                assert both.write(topic, batch, transactional_id=transactional_id)[0] == ErrorCode.NONE
                sequences[transactional_id] += len(values)
        if chance.random() < 0.3:
            both.read(topic)
            both.producers(topic)
    _, end, _, _, aborted, _ = both.read(topic)
    assert aborted
    for offset in range(0, end + 1, 5):
        both.read(topic, offset)


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_batches_outside_of_a_transaction_are_refused_alike(both: Both, version: int) -> None:
    topic = both.create()
    transactional_id = f"{topic}-t"
    producer = both.init(transactional_id)
    pid, epoch = producer
    first = in_transaction(producer, 0, b"v")
    outcomes = [
        both.write(topic, first, version, transactional_id=transactional_id),
        both.write(topic, first, version, transactional_id=f"{topic}-unknown"),
        both.write(topic, first, version, transactional_id=None),
        both.write(topic, in_transaction((pid + 500, epoch), 0, b"v"), version, transactional_id=transactional_id),
        both.write(topic, in_transaction((pid, epoch + 1), 0, b"v"), version, transactional_id=transactional_id),
    ]
    both.add(transactional_id, producer, topic, 0)
    outcomes.append(both.write(topic, first, version, transactional_id=transactional_id))
    outcomes.append(both.write(topic, in_transaction(producer, 5, b"v"), version, transactional_id=transactional_id))
    plain = a_batch(timestamp_ms=1, producer_id=pid, producer_epoch=epoch, base_sequence=1)
    outcomes.append(both.write(topic, plain, version, transactional_id=None))
    both.end(transactional_id, producer, commit=False)
    outcomes.append(both.write(topic, in_transaction(producer, 1, b"v"), version, transactional_id=transactional_id))
    assert len({error for error, _ in outcomes}) >= 5
    both.read(topic)
    both.producers(topic)


@pytest.mark.parametrize("version", [9, 11])
def test_what_comes_behind_a_refused_first_batch_is_out_of_order_alike(both: Both, version: int) -> None:
    topic = both.create(max_message_bytes="300")
    transactional_id = f"{topic}-t"
    producer = both.init(transactional_id)

    def write(sequence: int, *values: bytes) -> int:
        batch = in_transaction(producer, sequence, *values)
        return both.write(topic, batch, version, transactional_id=transactional_id)[0]

    assert write(0, b"a", b"b", b"c") != ErrorCode.NONE  # the partition is not in the transaction
    both.add(transactional_id, producer, topic, 0)
    assert write(3, b"d") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(0, b"a", b"b", b"c") == ErrorCode.NONE
    assert write(3, b"d") == ErrorCode.NONE
    both.end(transactional_id, producer, commit=True)

    for sequence in (6, 5, 7):  # in the next transaction the lowest of those refused counts
        assert write(sequence, b"e") != ErrorCode.NONE
    both.add(transactional_id, producer, topic, 0)
    assert [write(sequence, b"e") for sequence in (6, 4, 5)] == [45, 0, 0]
    both.end(transactional_id, producer, commit=False)

    assert write(6, b"f") != ErrorCode.NONE
    old, producer = producer, both.init(transactional_id)  # a new epoch, in which what was refused before is no matter
    assert write(2, b"f") != ErrorCode.NONE
    assert write(0, b"f") != ErrorCode.NONE
    both.add(transactional_id, producer, topic, 0)
    assert both.write(topic, in_transaction(old, 6, b"f"), version, transactional_id=transactional_id)[0]
    assert [write(sequence, b"f") for sequence in (2, 0, 1)] == [45, 0, 0]
    both.end(transactional_id, producer, commit=True)

    both.add(transactional_id, producer, topic, 0)  # the log's own refusal counts as well
    assert write(2, b"g" * 300) == ErrorCode.MESSAGE_TOO_LARGE
    assert [write(sequence, b"g") for sequence in (3, 2, 3)] == [45, 0, 0]
    both.end(transactional_id, producer, commit=True)
    assert write(4, b"h" * 300) not in (ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE)
    both.read(topic)
    both.producers(topic)


@pytest.mark.parametrize("version", [9, 11])
def test_a_marker_ends_what_is_remembered_of_refused_batches_alike(both: Both, version: int) -> None:
    topic = both.create()
    transactional_id = f"{topic}-t"
    producer = both.init(transactional_id)

    def write(sequence: int) -> int:
        batch = in_transaction(producer, sequence, b"v")
        return both.write(topic, batch, version, transactional_id=transactional_id)[0]

    assert write(0) != ErrorCode.NONE
    both.add(transactional_id, producer, topic, 0)
    assert write(1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    both.end(transactional_id, producer, commit=False)
    both.add(transactional_id, producer, topic, 0)
    assert write(1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # of its epoch, which the marker has begun
    assert write(0) == ErrorCode.NONE
    both.read(topic)


def test_records_are_deleted_alike(both: Both) -> None:
    topic = both.create()
    compacted, mixed = both.create(cleanup_policy="compact"), both.create(cleanup_policy="compact,delete")
    transactional_id = f"{topic}-t"
    producer = both.init(transactional_id)
    both.add(transactional_id, producer, topic, 0)
    for name in (topic, compacted, mixed):
        both.write(name, a_batch(b"a", b"b", timestamp_ms=1000), transactional_id=None)
    both.write(topic, in_transaction(producer, 0, b"c", b"d"), transactional_id=transactional_id)
    both.write(topic, a_batch(b"e", b"f", timestamp_ms=1000), transactional_id=None)

    def delete(name: str, *places: tuple[int, int]) -> None:
        partitions = tuple(DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in places)
        request = DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=name, partitions=partitions),), timeout_ms=30_000
        )
        answers = []
        for side in (self_.ask(request, 2) for self_ in (both.node, both.kafka)):
            (answered,) = side.topics
            answers.append(sorted((p.partition_index, p.low_watermark, p.error_code) for p in answered.partitions))
        assert answers[0] == answers[1], (name, places)

    for places in ([(0, 1)], [(0, 99)], [(0, -2)], [(0, 0), (5, 0)], [(0, 3)], [(1, -1), (1, 0)]):
        delete(topic, *places)
    for name in (compacted, mixed, "transactions-like-kafka-nothing", "a b"):
        delete(name, (0, 1))
    both.read(topic, 3)
    both.producers(topic)
    both.end(transactional_id, producer, commit=False)
    both.read(topic, 3)
    delete(topic, (0, -1))
    both.read(topic, 7)
    both.producers(topic)


def test_a_start_moved_into_an_open_transaction_is_read_alike(both: Both) -> None:
    topic = both.create()
    transactional_id = f"{topic}-t"
    producer = both.init(transactional_id)
    both.add(transactional_id, producer, topic, 0)
    both.write(topic, a_batch(b"a", b"b", timestamp_ms=1000), transactional_id=None)
    both.write(topic, in_transaction(producer, 0, b"c", b"d", b"e"), transactional_id=transactional_id)
    both.write(topic, a_batch(b"f", timestamp_ms=1000), transactional_id=None)
    for start, stable in ((4, 2), (5, 5), (6, 6)):  # 4 lies inside of a batch that begins at 2
        partition = DeleteRecordsPartition(partition_index=0, offset=start)
        request = DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=topic, partitions=(partition,)),), timeout_ms=30_000
        )
        both.ask(request, 2)
        assert both.read(topic, start)[2] == stable
    both.write(topic, in_transaction(producer, 3, b"g"), transactional_id=transactional_id)
    assert both.read(topic, 6)[2] == 6
    both.end(transactional_id, producer, commit=False)
    assert both.read(topic, 6)[2] == 8
