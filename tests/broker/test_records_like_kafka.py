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
from kshim_protocol.records.batch import iter_batches, parse_batch_header
from kshim_protocol.records.compression import Compression, compress
from kshim_protocol.records.record import iter_records
from tests.broker.data_plane import a_batch, altered, fetch_of, only_partition, produce_of
from tests.broker.harness import a_node
from tests.broker.test_transactions_like_kafka import Both
from tests.partitions.test_record_validator import CODECS, MALFORMED, MAX_TIMESTAMP_AT, raw_batch, record

pytestmark = pytest.mark.kafka


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
