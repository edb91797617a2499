"""Produce looks at every record it is sent, however they are compressed."""

from __future__ import annotations

import struct
import zlib

import pytest

from kshim.partitions import record_validator
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from kshim_protocol.records.batch import build_batch, iter_batches, parse_batch_header
from kshim_protocol.records.compression import Compression, compress
from kshim_protocol.records.crc import crc32c
from kshim_protocol.records.record import Record, encode_record, iter_records
from tests.broker.data_plane import a_batch, altered, fetch_of, only_partition, produce, produce_of, values_in
from tests.broker.harness import START_WALL_MS, Client, NodeUnderTest, NoReply, a_node
from tests.conftest import MakeNode

CODECS = list(Compression)
MAX_TIMESTAMP_AT = 35


def raw_batch(data: bytes, count: int, codec: Compression = Compression.NONE) -> bytes:
    """A batch around any bytes, with a CRC that is right."""
    after_crc = struct.pack(">hiqqqhii", codec, count - 1, START_WALL_MS, START_WALL_MS, -1, -1, -1, count) + data
    return struct.pack(">qiibI", 0, len(after_crc) + 9, 0, 2, crc32c(after_crc)) + after_crc


def record(offset_delta: int) -> bytes:
    return encode_record(Record(b"k", b"v"), offset_delta, 0)


MALFORMED = {
    "cut": (record(0) + record(1)[:-1], 2),
    "bytes behind": (record(0) + b"xx", 1),
    "one too few": (record(0), 2),
    "key reaches out": (b"\x10\x00\x00\x00\x7ek\x02v\x00", 1),
    "value too short": (b"\x10\x00\x00\x00\x02k\x00v\x00", 1),
    "more headers than bytes": (b"\x10\x00\x00\x00\x02k\x02v\x08", 1),
    "noise": (b"\xff" * 40, 3),
}


def stored(client: Client, topic: str = "orders") -> list[bytes]:
    data = only_partition(client.ask(fetch_of((topic, 0, 0)), 12)).records
    assert data is not None
    return list(iter_batches(data))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("data", "count"), MALFORMED.values(), ids=MALFORMED.keys())
def test_records_that_no_consumer_could_read_are_refused(codec: Compression, data: bytes, count: int) -> None:
    client = a_node(topics={"orders": 1}).client()
    answer = produce(client, "orders", raw_batch(compress(codec, data), count, codec))
    assert (answer.error_code, stored(client)) == (ErrorCode.INVALID_RECORD, [])


@pytest.mark.parametrize("codec", CODECS[1:])
def test_records_that_are_not_what_the_codec_makes_are_refused(codec: Compression) -> None:
    client = a_node(topics={"orders": 1}).client()
    for data in (record(0), compress(codec, record(0))[:-3], b""):
        assert produce(client, "orders", raw_batch(data, 1, codec)).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
def test_the_greatest_timestamp_is_what_the_records_say(codec: Compression) -> None:
    client = a_node(topics={"orders": 1}).client()
    batch = a_batch(b"a", b"b", compression=codec)
    for claimed_ms in (-1, START_WALL_MS - 5, START_WALL_MS + 9):
        assert produce(client, "orders", altered(batch, ">q", MAX_TIMESTAMP_AT, claimed_ms)).error_code == 0
    assert [each[12:] for each in stored(client)] == 3 * [batch[12:]]


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_a_topic_may_ask_for_a_codec(source: Compression, target: str) -> None:
    node = a_node()
    node.topic("orders", 1, {"compression.type": target})
    client = node.client()
    batch = a_batch(b"a" * 99, b"b", compression=source, producer_id=7, producer_epoch=0, base_sequence=0)
    assert [produce(client, "orders", batch).base_offset for _ in range(2)] == [0, 0]  # the second is a repetition
    (found,) = stored(client)
    wanted = {"producer": source.name, "uncompressed": "NONE"}.get(target, target.upper())
    assert parse_batch_header(found).compression.name == wanted
    assert [each.value for each in iter_records(found)] == [b"a" * 99, b"b"]


def test_what_grows_beyond_the_limit_when_compressed_anew_is_too_large() -> None:
    node = a_node()
    node.topic("orders", 1, {"compression.type": "uncompressed", "max.message.bytes": "1000"})
    batch = a_batch(b"a" * 5000, compression=Compression.GZIP)
    assert produce(node.client(), "orders", batch).error_code == ErrorCode.MESSAGE_TOO_LARGE


def bomb(plain_bytes: int) -> bytes:
    """A gzip batch of one record with that many zeros."""
    value = bytes(plain_bytes)
    return raw_batch(compress(Compression.GZIP, encode_record(Record(b"k", value), 0, 0)), 1, Compression.GZIP)


def test_what_takes_long_to_check_is_appended_later_and_others_go_first(node: NodeUnderTest) -> None:
    client, other = node.client(), node.client()
    client.send(produce_of("orders", bomb(3 << 20)), 12)
    assert client.is_waiting
    assert produce(other, "orders", a_batch(b"first")).base_offset == 0
    node.run_background_tasks()
    assert answer_to(client).base_offset == 1
    (first, second) = stored(other)
    assert values_in(first) + values_in(second) == [b"first", bytes(3 << 20)]


def answer_to(client: Client) -> PartitionProduceResponse:
    return only_partition(client.take(ProduceResponse))


def test_a_batch_that_unpacks_to_more_than_is_allowed_is_refused(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_validator, "MAX_PLAIN_BYTES", 2 << 20)
    node = make_node(topics={"orders": 1})
    client = node.client()
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        data = compress(codec, encode_record(Record(b"k", bytes(8 << 20)), 0, 0))
        if 10 * len(data) > 8 << 20:  # it does not shrink enough to be one
            continue
        client.send(produce_of("orders", raw_batch(data, 1, codec)), 12)
        node.run_background_tasks()
        answer = answer_to(client)
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert "more than" in (answer.error_message or "")


def test_gzip_is_unpacked_no_further_than_to_the_limit() -> None:
    packer = zlib.compressobj(wbits=31)
    data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(150)) + packer.flush()
    node = a_node(topics={"orders": 1})
    client = node.client()
    client.send(produce_of("orders", raw_batch(data, 1, Compression.GZIP)), 12)
    node.run_background_tasks()
    assert answer_to(client).error_code == ErrorCode.INVALID_RECORD


def test_many_records_are_checked_slice_by_slice(node: NodeUnderTest) -> None:
    client = node.client()
    batch = build_batch([Record(b"k", b"", timestamp_ms=START_WALL_MS)] * 20_000)
    client.send(produce_of("orders", batch), 12)
    assert client.is_waiting
    node.run_background_tasks()
    assert answer_to(client).error_code == ErrorCode.NONE
    assert node.log("orders").end_offset == 20_000


def test_without_acks_the_late_failure_hangs_up(node: NodeUnderTest) -> None:
    client = node.client()
    batch = raw_batch(b"".join(map(record, range(20_000))) + b"x", 20_000)
    client.send(produce_of("orders", batch, acks=0), 12)
    node.run_background_tasks()
    assert client.is_closed or client.hung_up
    other = node.client()
    other.send(produce_of("orders", raw_batch(b"".join(map(record, range(20_000))), 20_000), acks=0), 12)
    node.run_background_tasks()
    assert isinstance(other.unread.popleft(), NoReply)


def test_a_record_in_a_compressed_batch_may_not_be_too_large() -> None:
    node = a_node()
    node.topic("orders", 1, {"max.decompressed.message.bytes": "1000"})
    client = node.client()
    large, many = a_batch(b"x" * 1000, compression=Compression.GZIP), a_batch(*[b"x" * 500] * 9)
    assert produce(client, "orders", large).error_code == ErrorCode.INVALID_RECORD
    assert produce(client, "orders", many).error_code == ErrorCode.NONE
    assert produce(client, "orders", a_batch(b"x" * 1000)).error_code == ErrorCode.NONE
