"""Varints: known bytes of Kafka's ByteUtils, round trips, and strict ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import decode_varint as kafka_python_decode

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.varint import (
    SMALL_VARINTS,
    decode_varint,
    decode_varlong,
    encode_varint,
    encode_varlong,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
DECODERS = [decode_varint, decode_varlong]


@pytest.mark.parametrize(
    ("value", "hex_"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_zig_zag_varints_have_kafkas_bytes(value: int, hex_: str) -> None:
    assert encode_varint(value).hex() == hex_
    assert encode_varlong(value).hex() == hex_
    assert decode_varint(bytes.fromhex(hex_), 0) == (value, len(hex_) // 2)


@pytest.mark.parametrize(
    ("value", "hex_"), [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01"), (2**31, "8080808010")]
)
def test_varlongs_reach_64_bits(value: int, hex_: str) -> None:
    assert encode_varlong(value).hex() == hex_
    assert decode_varlong(bytes.fromhex(hex_), 0) == (value, len(hex_) // 2)


def test_the_table_of_small_varints_is_right() -> None:
    assert [decode_varint(encoded, 0) for encoded in SMALL_VARINTS] == [
        (value, len(encoded)) for value, encoded in enumerate(SMALL_VARINTS)
    ]


@given(INT32, st.binary(max_size=3), st.binary(max_size=3))
def test_a_varint_round_trips_in_the_middle_of_other_bytes(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(value)
    assert decode_varint(before + encoded + after, len(before)) == (value, len(before) + len(encoded))
    assert kafka_python_decode(encoded, 0) == (value, len(encoded))


@given(INT64)
def test_a_varlong_round_trips(value: int) -> None:
    encoded = encode_varlong(value)
    assert decode_varlong(encoded, 0) == (value, len(encoded))
    assert kafka_python_decode(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_a_varint_cut_short_is_refused(decode: Callable[[bytes, int], object], data: bytes) -> None:
    with pytest.raises(ProtocolError, match="ends inside a varint"):
        decode(data, 0)


def test_a_varint_of_six_bytes_is_refused_even_when_it_is_small() -> None:
    with pytest.raises(ProtocolError, match="longer than 5 bytes"):
        decode_varint(b"\x80\x80\x80\x80\x80\x00", 0)


def test_a_varlong_of_eleven_bytes_is_refused() -> None:
    with pytest.raises(ProtocolError, match="longer than 10 bytes") as caught:
        decode_varlong(b"x" + b"\x80" * 10 + b"\x00", 1)
    assert caught.value.offset == 1


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (decode_varint, b"\xff\xff\xff\xff\x7f"),
        (decode_varlong, b"\xff" * 9 + b"\x02"),
    ],
)
def test_bits_beyond_the_width_are_refused(decode: Callable[[bytes, int], object], data: bytes) -> None:
    with pytest.raises(ProtocolError, match="more than"):
        decode(data, 0)


@pytest.mark.parametrize(
    ("encode", "value"),
    [
        (encode_varint, 2**31),
        (encode_varint, -(2**31) - 1),
        (encode_varlong, 2**63),
        (encode_varlong, -(2**63) - 1),
    ],
)
def test_a_number_too_wide_is_not_encoded(encode: Callable[[int], bytes], value: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode(value)


@given(st.binary(max_size=12))
def test_whatever_decodes_was_within_its_limits(data: bytes) -> None:
    for decode, most in ((decode_varint, 5), (decode_varlong, 10)):
        try:
            _, end = decode(data, 0)
        except ProtocolError:
            continue
        assert 1 <= end <= min(most, len(data))
