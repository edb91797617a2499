"""Kafka's cleaner and ours over the same segments: what stays is the same, batch by batch."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from integration.support.broker import Deadline
from integration.support.fixtures import available
from integration.support.kafka import RealKafka
from kshim.storage.cleaner import clean
from kshim.storage.file_log import FileLog
from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import build_request_frame
from kshim_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kshim_protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kshim_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.records.batch import build_batch, parse_batch_header
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.record import Record, iter_records

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(300)]

TOPIC = "table"
DAY_MS = 86_400_000
PATIENCE_S = 60
NOT_YET = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class Transactions:
    """A connection for the requests that `kshim.tools.client` does not know: in versions with plain headers."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._reader = self._connection.makefile("rb")

    def ask(self, request: AddPartitionsToTxnRequest | EndTxnRequest, version: int) -> Any:
        body = codec(type(request), version).build(request)
        key = request.info.api_key
        assert key is not None
        self._connection.sendall(build_request_frame(key, version, 1, "compaction", body, flexible=False))
        (size_bytes,) = struct.unpack(">i", self._reader.read(4))
        answer_class = AddPartitionsToTxnResponse if isinstance(request, AddPartitionsToTxnRequest) else EndTxnResponse
        answer, _ = codec(answer_class, version).parse(self._reader.read(size_bytes), 4)
        return answer

    def close(self) -> None:
        self._reader.close()
        self._connection.close()


class Producer:
    """Writes to the one partition; with a `transactional_id` or without, idempotent or not."""

    def __init__(
        self,
        client: Client,
        transactions: Transactions,
        *,
        transactional_id: str | None = None,
        is_idempotent: bool = True,
    ) -> None:
        self._client = client
        self._transactions = transactions
        self._transactional_id = transactional_id
        self._sequence = 0
        self._is_open = False
        self.producer_id, self.epoch = -1, -1
        if transactional_id is not None:
            retried(client, FindCoordinatorRequest(key_type=1, key=transactional_id), 3)
        if is_idempotent:
            found = retried(
                client, InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=900_000), 4
            )
            self.producer_id, self.epoch = found.producer_id, found.producer_epoch

    def write(self, pairs: list[tuple[str, str | None]], timestamp_ms: int, compression: Compression) -> None:
        """One batch."""
        if self._transactional_id is not None and not self._is_open:
            joining = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=(AddPartitionsToTxnTopic(name=TOPIC, partitions=(0,)),),
            )
            deadline = Deadline(PATIENCE_S)
            while True:  # the end of the transaction before may still be on its way
                found = self._transactions.ask(joining, 2).results_by_topic_v3_and_below[0].results_by_partition[0]
                if found.partition_error_code not in NOT_YET:
                    break
                deadline.check("Kafka begins a transaction")
                time.sleep(0.02)
            assert found.partition_error_code == ErrorCode.NONE
            self._is_open = True
        records = [
            Record(key.encode(), None if value is None else value.encode(), timestamp_ms=timestamp_ms)
            for key, value in pairs
        ]
        idempotence: dict[str, Any] = {}
        if self.producer_id >= 0:
            idempotence = {
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "base_sequence": self._sequence,
                "is_transactional": self._transactional_id is not None,
            }
            self._sequence += len(records)
        batch = build_batch(records, compression=compression, **idempotence)
        data = (TopicProduceData(name=TOPIC, partition_data=(PartitionProduceData(index=0, records=batch),)),)
        request = ProduceRequest(transactional_id=self._transactional_id, acks=-1, timeout_ms=10_000, topic_data=data)
        (answer,) = self._client.ask(request, 9).responses[0].partition_responses
        assert answer.error_code == ErrorCode.NONE

    def end(self, *, committed: bool) -> None:
        """End the transaction."""
        if self._is_open:
            assert self._transactional_id is not None
            request = EndTxnRequest(
                transactional_id=self._transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=committed,
            )
            retried(self._transactions, request, 2)
            self._is_open = False


def retried(client: Client | Transactions, request: Any, version: int) -> Any:
    """The answer, once Kafka is ready to give one without error."""
    deadline = Deadline(PATIENCE_S)
    while (answer := client.ask(request, version)).error_code in NOT_YET:
        deadline.check(f"Kafka answers {type(request).__name__}")
        time.sleep(0.05)
    assert answer.error_code == ErrorCode.NONE
    return answer


def write_history(client: Client, transactions: Transactions, seed: int) -> None:
    """Batches of every kind, several segments of them; one transaction stays open from near the end on."""
    chance = random.Random(seed)
    producers = [
        Producer(client, transactions, is_idempotent=False),
        Producer(client, transactions),
        Producer(client, transactions),
        Producer(client, transactions, transactional_id="commits"),
        Producer(client, transactions, transactional_id="aborts"),
        Producer(client, transactions, transactional_id="both"),
    ]
    start_ms = int(time.time() * 1_000) - 2 * 3_600_000
    for number in range(400):
        producer = chance.choice(producers)
        pairs = [
            (f"k{chance.randrange(40)}", chance.choice([None, "", f"v{number}" * 700]))
            for _ in range(chance.choice([1, 1, 2, 7, 30]))
        ]
        producer.write(pairs, start_ms + number * 10_000, chance.choice([Compression.NONE, Compression.GZIP]))
        if chance.random() < 0.3:
            producer.end(committed=producer is producers[3] or (producer is producers[5] and chance.random() < 0.5))
    for producer in producers:
        producer.end(committed=producer is not producers[4])
    producers[0].write([("before", "1"), ("open", "1")], start_ms + 4_100_000, Compression.NONE)
    producers[3].write([("open", "2")], start_ms + 4_200_000, Compression.NONE)  # never ended
    for number in range(30):
        producers[0].write([("after", str(number) * 30_000)], start_ms + 4_300_000 + number * 60_000, Compression.NONE)


def cleaned_by_kafka(kafka: RealKafka) -> int:
    """The offset up to which Kafka says it has compacted the log, 0 before it has."""
    with contextlib.suppress(FileNotFoundError):
        for line in (kafka.data / "cleaner-offset-checkpoint").read_text().splitlines()[2:]:
            topic, _, offset = line.split()
            if topic == TOPIC:
                return int(offset)
    return 0


def described(folder: Path, *, before: int) -> list[tuple[object, ...]]:
    """Every batch with all that does not depend on when it was compacted."""
    log = FileLog(str(folder))
    rows: list[tuple[object, ...]] = []
    for batch in log.batches():
        header = parse_batch_header(batch)
        if header.base_offset >= before:
            break
        records = [
            (record.offset, record.key, record.value, record.timestamp_ms, record.headers)
            for record in iter_records(batch)
        ]
        fields = header._replace(crc=0, base_timestamp_ms=0, batch_length=0, partition_leader_epoch=0)
        rows.append((tuple(fields), records))
    log.close()
    return rows


def clean_alike(folder: Path, clean_offset: int) -> None:
    """Compact a log with our cleaner, as far as Kafka did: it leaves the segment alone in which the open transaction
    begins."""
    log = FileLog(str(folder))
    now_ms = int(time.time() * 1_000)
    task = clean(
        log,
        first_dirty_offset=0,
        before_offset=clean_offset,
        now_ms=now_ms,
        delete_retention_ms=DAY_MS,
        producers_since_ms=now_ms - DAY_MS,
        segment_bytes=1 << 30,
        key_map_bytes=1 << 27,
    )
    job = next(task)
    try:
        while True:
            job = task.send(None if job is None else job())
    except StopIteration as end:
        done = end.value
    assert done is not None
    assert done.clean_offset == clean_offset < done.first_unstable_offset
    log.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_batches_and_records_stay(tmp_path: Path, seed: int) -> None:
    properties = {"log.cleaner.enable": "false", "transaction.state.log.num.partitions": "2"}
    kafka = available(lambda: RealKafka(tmp_path / "kafka", properties))
    kafka.start()
    try:
        host, _, port = kafka.bootstrap.rpartition(":")
        client = Client(host, int(port), client_id="compaction")
        configs = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in configs.items()),
        )
        assert client.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5).topics[0].error_code == 0
        transactions = Transactions(kafka.bootstrap)
        write_history(client, transactions, seed)
        transactions.close()
        client.close()
        kafka.stop()
        ours = tmp_path / "ours" / f"{TOPIC}-0"
        shutil.copytree(kafka.data / f"{TOPIC}-0", ours)
    finally:
        kafka.kill()

    theirs = available(
        lambda: RealKafka(
            tmp_path / "kafka", {"log.cleaner.backoff.ms": "200", "transaction.state.log.num.partitions": "2"}
        )
    )
    theirs.start()
    try:
        deadline = Deadline(PATIENCE_S)
        while (clean_offset := cleaned_by_kafka(theirs)) == 0:
            deadline.check("Kafka compacts the log")
            time.sleep(0.2)
        theirs.stop()
    finally:
        theirs.kill()

    before_bytes = sum(path.stat().st_size for path in ours.glob("*.log"))
    clean_alike(ours, clean_offset)
    assert sum(path.stat().st_size for path in ours.glob("*.log")) < before_bytes
    assert described(ours, before=clean_offset) == described(kafka.data / f"{TOPIC}-0", before=clean_offset)
