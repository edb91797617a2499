"""The codecs against independent ones, in the framings Kafka's clients use, and against hostile bytes."""

from __future__ import annotations

import contextlib
import gzip
import struct
import sys

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.batch import build_batch, parse_batch_header
from kshim_protocol.records.compression import Compression, CompressionUnavailableError, compress, decompress
from kshim_protocol.records.record import Record, iter_records

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
any_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
NOISE = bytes(i * 2654435761 >> 13 & 0xFF for i in range(200_000))
SAMPLES = [b"", b"a", bytes(3_000_000), NOISE, b"kafka " * 11_000]


@any_codec
@pytest.mark.parametrize("data", SAMPLES, ids=["empty", "one byte", "zeros", "noise", "words"])
def test_data_round_trips(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("data", SAMPLES[1:])
def test_other_implementations_read_what_we_write(data: bytes) -> None:
    assert gzip.decompress(compress(Compression.GZIP, data)) == data
    assert lz4.frame.decompress(compress(Compression.LZ4, data)) == data
    zstd = zstandard.ZstdDecompressor().decompressobj()
    assert zstd.decompress(compress(Compression.ZSTD, data)) == data
    xerial = compress(Compression.SNAPPY, data)
    assert xerial[:16].hex() == "82534e415050590000000001" + "00000001"
    blocks, at = [], 16
    while at < len(xerial):
        (size,) = struct.unpack_from(">i", xerial, at)
        blocks.append(snappy.decompress(xerial[at + 4 : at + 4 + size]))
        at += 4 + size
    assert b"".join(blocks) == data
    assert all(len(block) <= 32_768 for block in blocks)


@pytest.mark.parametrize("data", SAMPLES)
def test_we_read_what_other_implementations_write(data: bytes) -> None:
    assert decompress(Compression.GZIP, gzip.compress(data)) == data
    assert decompress(Compression.SNAPPY, snappy.compress(data)) == data
    assert decompress(Compression.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(data)) == data
    for options in ({"block_linked": True}, {"block_checksum": True, "content_checksum": True}, {"block_size": 7}):
        assert decompress(Compression.LZ4, lz4.frame.compress(data, **options)) == data


def test_lz4_frames_have_independent_blocks_as_javas_reader_demands() -> None:
    info = lz4.frame.get_frame_info(compress(Compression.LZ4, NOISE))
    assert (info["block_linked"], info["block_size"], info["content_checksum"]) == (False, 65_536, False)


def test_xerial_headers_with_little_endian_versions_are_read() -> None:
    xerial = compress(Compression.SNAPPY, NOISE)
    assert decompress(Compression.SNAPPY, xerial[:8] + b"\1\0\0\0\1\0\0\0" + xerial[16:]) == NOISE


@any_codec
def test_data_longer_than_the_bound_is_refused(codec: Compression) -> None:
    packed = compress(codec, bytes(1_000_000))
    assert len(decompress(codec, packed, max_bytes=1_000_000)) == 1_000_000
    with pytest.raises(ProtocolError, match="more than 999999 bytes"):
        decompress(codec, packed, max_bytes=999_999)


@any_codec
def test_a_batch_that_swells_beyond_the_bound_is_refused_when_its_records_are_read(codec: Compression) -> None:
    batch = build_batch([Record(None, bytes(100_000))], compression=codec)
    assert len(batch) < 6_000
    with pytest.raises(ProtocolError, match="more than 50000 bytes"):
        next(iter_records(batch, max_decompressed_bytes=50_000))


@any_codec
def test_truncated_and_trailing_bytes_are_refused(codec: Compression) -> None:
    packed = compress(codec, b"kafka " * 40)
    for cut in range(len(packed)):
        if codec is Compression.SNAPPY and cut == 16:
            continue  # a xerial header without blocks is an empty stream
        with pytest.raises(ProtocolError, match=codec.name.lower()):
            decompress(codec, packed[:cut])
    with pytest.raises(ProtocolError, match=codec.name.lower()):
        decompress(codec, packed + b"x")


@given(st.sampled_from(CODECS), st.binary(max_size=60), st.integers(0, 200), st.integers(1, 255))
def test_damaged_bytes_never_raise_anything_else(codec: Compression, data: bytes, at: int, flip: int) -> None:
    packed = bytearray(compress(codec, data * 3))
    packed[at % len(packed)] ^= flip
    for attempt in (bytes(packed), data):
        with contextlib.suppress(ProtocolError):
            assert len(decompress(codec, attempt, max_bytes=10_000)) <= 10_000


@any_codec
def test_records_are_decompressed_only_when_they_are_read(codec: Compression) -> None:
    records = [Record(b"%d" % i, b"value", (("h", b"1"),), timestamp_ms=i, offset=i) for i in range(100)]
    batch = build_batch(records, compression=codec)
    assert parse_batch_header(batch).compression is codec
    assert list(iter_records(batch)) == records
    damaged = iter_records(batch[:61] + b"junk" + batch[65:])
    with pytest.raises(ProtocolError, match=codec.name.lower()):
        next(damaged)


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_missing_package_is_named(codec: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = compress(codec, b"x")
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(CompressionUnavailableError, match=r"pip install kshim\[compression\]"):
        decompress(codec, packed)
    with pytest.raises(CompressionUnavailableError, match="cramjam"):
        compress(codec, b"x")


def test_gzip_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    assert decompress(Compression.GZIP, compress(Compression.GZIP, b"x")) == b"x"
    assert decompress(Compression.NONE, compress(Compression.NONE, b"x")) == b"x"
