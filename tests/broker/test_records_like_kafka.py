"""Records of every codec beside a real Kafka 4.4: what is refused, and what is stored of what is not.

Where Kafka has no better answer than UNKNOWN_SERVER_ERROR, we say INVALID_RECORD.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from integration.support.kafka import RealKafka
from kshim.tools.client import Client as WireClient
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.records.batch import iter_batches, parse_batch_header
from kshim_protocol.records.compression import Compression, compress
from kshim_protocol.records.record import iter_records
from tests.broker.data_plane import a_batch, altered, fetch_of, only_partition, produce_of
from tests.broker.harness import a_node
from tests.broker.test_transactions_like_kafka import Both
from tests.partitions.test_record_validator import CODECS, MALFORMED, MAX_TIMESTAMP_AT, raw_batch, record

pytestmark = pytest.mark.kafka

LIKE_OURS = {ErrorCode.UNKNOWN_SERVER_ERROR: ErrorCode.INVALID_RECORD}


@pytest.fixture
def both(real_kafka: RealKafka) -> Iterator[Both]:
    host, _, port = real_kafka.bootstrap.rpartition(":")
    kafka = WireClient(host, int(port), client_id="like-kafka", timeout_s=30)
    yield Both(kafka, a_node())
    kafka.close()


def write(both: Both, topic: str, batch: bytes) -> None:
    theirs, ours = (only_partition(side.ask(produce_of(topic, batch), 9)) for side in (both.kafka, both.node))
    error = theirs.error_code
    if error == ErrorCode.UNKNOWN_SERVER_ERROR:
        error = ErrorCode.INVALID_RECORD
    assert (ours.error_code, ours.base_offset) == (error, theirs.base_offset)


def stored(both: Both, topic: str) -> Any:
    """What both hold, but for the bytes that a compressor made."""
    found: list[Any] = []
    for side in (both.kafka, both.node):
        answer = only_partition(side.ask(fetch_of((topic, 0, 0)), 12))
        batches = []
        for batch in iter_batches(answer.records or b""):
            header = parse_batch_header(batch)
            records = [(each.offset, each.timestamp_ms, each.key, each.value) for each in iter_records(batch)]
            batches.append((header.base_offset, header.attributes, header[7:], records))
        found.append(batches)
    assert found[1] == found[0]
    return found[0]


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_a_codec_are_taken_and_refused_alike(both: Both, codec: Compression) -> None:
    topic = both.create()
    for data, count in MALFORMED.values():
        write(both, topic, raw_batch(compress(codec, data), count, codec))
    for offsets in ((0, 1, 2), (0, 2, 3), (1, 2, 3), (0, 0, 0)):
        if codec or offsets == (
            0,
            1,
            2,
        ):  # Kafka takes any numbers when nothing is compressed; nobody reads those right
            write(both, topic, raw_batch(compress(codec, b"".join(map(record, offsets))), 3, codec))
    good = a_batch(b"a", b"b", timestamp_ms=1000, compression=codec)
    for claimed_ms in (-1, 999, 5000):
        write(both, topic, altered(good, ">q", MAX_TIMESTAMP_AT, claimed_ms))
    assert len(stored(both, topic)) == 4


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_topics_compress_alike(both: Both, target: str) -> None:
    topic = both.create(compression_type=target)
    for codec in CODECS:
        write(both, topic, a_batch(b"a" * 99, b"b", timestamp_ms=1000, compression=codec))
    assert len({batch[1] for batch in stored(both, topic)}) == 1


def refusals(both: Both, request: ProduceRequest, version: int = 9) -> Any:
    """What both answer for each partition, but for the order and the texts."""
    found = [
        sorted(
            (part.index, LIKE_OURS.get(part.error_code, part.error_code), part.base_offset, part.log_start_offset)
            for topic in side.ask(request, version).responses
            for part in topic.partition_responses
        )
        for side in (both.kafka, both.node)
    ]
    assert found[1] == found[0], request
    return found[0]


def test_a_partition_named_more_than_once_has_its_last_batch_appended(both: Both) -> None:
    topic = both.create()
    a, b, c = (PartitionProduceData(index=0, records=a_batch(value, timestamp_ms=1000)) for value in (b"a", b"b", b"c"))
    elsewhere = PartitionProduceData(index=1, records=a_batch(b"d", timestamp_ms=1000))
    for topics in ([(a, b)], [(a,), (b,)], [(a, elsewhere, c)], [(elsewhere,), (a,), (elsewhere,), (b, c)]):
        request = ProduceRequest(
            acks=1,
            timeout_ms=30_000,
            topic_data=tuple(TopicProduceData(name=topic, partition_data=data) for data in topics),
        )
        assert len(refusals(both, request)) == len({part.index for data in topics for part in data})
    assert [records[0][3] for *_, records in stored(both, topic)] == [b"b", b"b", b"c", b"c"]


def test_a_batch_larger_than_a_segment_is_refused(both: Both) -> None:
    topic = both.create(segment_bytes=str(2**20), max_message_bytes=str(2**22))
    for size_bytes, error in ((2**20, ErrorCode.NONE), (2**20 + 1, ErrorCode.RECORD_LIST_TOO_LARGE)):
        batch = a_batch(b"x" * (size_bytes - 73), timestamp_ms=1000)
        assert len(batch) == size_bytes
        ((_, found, *_),) = refusals(both, produce_of(topic, batch))
        assert found == error


def test_refusals_tell_the_log_start_alike(both: Both) -> None:
    topic = both.create(max_message_bytes=str(2**21), segment_bytes=str(2**20))
    write(both, topic, a_batch(b"a", b"b", timestamp_ms=1000))
    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    both.ask(
        DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(partition,)),), timeout_ms=1000), 2
    )
    batch = a_batch(timestamp_ms=1000)

    def by_producer(epoch: int, sequence: int) -> bytes:
        return a_batch(timestamp_ms=1000, producer_id=88, producer_epoch=epoch, base_sequence=sequence)

    for index, sent, log_start_offset in (
        (0, a_batch(b"x" * 2**21, timestamp_ms=1000), -1),
        (0, a_batch(b"x" * 2**20, timestamp_ms=1000), -1),
        (0, altered(batch, ">I", 17, 5, with_crc=False), -1),
        (0, batch[:-1], -1),
        (0, batch + batch, -1),
        (0, altered(batch, ">b", 16, 1, with_crc=False), -1),
        (0, b"", -1),
        (7, batch, -1),
        (0, altered(batch, ">i", 57, 5), 1),
        (0, altered(batch, ">h", 21, 32), 1),
        (0, altered(batch, ">h", 21, 1), 1),
        (0, by_producer(3, 0), 1),
        (0, by_producer(3, 9), 1),
        (0, by_producer(2, 9), 1),
    ):
        (found,) = refusals(both, produce_of(topic, sent, first_partition=index))
        assert found[3] == log_start_offset
    (compacted,) = refusals(
        both, produce_of(both.create(cleanup_policy="compact"), a_batch(key=None, timestamp_ms=1000))
    )
    assert compacted[1:] == (ErrorCode.INVALID_RECORD, -1, 0)
