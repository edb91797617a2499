"""Headers: what stands in front of a body, and what a peer may do wrong in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim_protocol.frame import (
    LARGE_PIECE_BYTES,
    ProtocolError,
    RequestHeader,
    build_request_frame,
    build_response_frame,
    build_response_pieces,
    parse_request_header,
)
from tests.protocol.strategies import integers

JOIN_HEADER = bytes.fromhex("000b0009000000070001") + b"c"
"""JoinGroup v9, correlation id 7, client id "c"; the tagged section is still missing."""


@given(integers(16), integers(16), integers(32), st.none() | st.text(max_size=300), st.booleans(), st.binary())
def test_a_request_header_is_read_as_it_was_built(
    api_key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool, body: bytes
) -> None:
    frame = build_request_frame(api_key, version, correlation_id, client_id, body, flexible=flexible)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    header = parse_request_header(frame[4:], flexible=flexible)
    assert header == RequestHeader(api_key, version, correlation_id, client_id, len(frame) - 4 - len(body))
    assert frame[4 + header.body_at :] == body


@given(integers(32), st.booleans(), st.binary())
def test_a_response_frame_is_size_correlation_id_and_body(correlation_id: int, flexible: bool, body: bytes) -> None:
    header = correlation_id.to_bytes(4, signed=True) + (b"\0" if flexible else b"")
    expected = (len(header) + len(body)).to_bytes(4) + header + body
    assert build_response_frame(correlation_id, body, flexible=flexible) == expected


def test_tagged_fields_of_a_header_are_skipped() -> None:
    tags = b"\x02" + b"\x05\x03abc" + b"\x80\x01\x00"
    header = parse_request_header(JOIN_HEADER + tags + b"body", flexible=True)
    assert header == RequestHeader(11, 9, 7, "c", len(JOIN_HEADER + tags))


def test_the_client_id_may_be_null_and_may_be_damaged_text() -> None:
    start = JOIN_HEADER[:8]
    assert parse_request_header(start + b"\xff\xff", flexible=False).client_id is None
    assert parse_request_header(start + b"\0\x02\xc3(", flexible=False).client_id == "\ufffd("


@pytest.mark.parametrize("end", range(len(JOIN_HEADER) + 1))
def test_a_header_cut_anywhere_raises_a_protocol_error(end: int) -> None:
    with pytest.raises(ProtocolError, match="RequestHeader: ") as raised:
        parse_request_header(JOIN_HEADER[:end], flexible=True)
    assert raised.value.message == "RequestHeader"
    assert raised.value.offset <= end


@given(st.binary(max_size=40))
def test_random_bytes_are_a_header_or_a_protocol_error(frame: bytes) -> None:
    try:
        header = parse_request_header(frame, flexible=True)
    except ProtocolError:
        return
    assert 10 < header.body_at <= len(frame)


@pytest.mark.parametrize(
    ("tags", "field", "reason"),
    [
        (b"\x80\x80\x80\x80\x80\x01", "tagged_fields", "varint longer than 5 bytes"),
        (b"\x01\x00\x7fab", "tagged_fields", "size 127 exceeds the 2 bytes left"),
        (b"\xff\xff\xff\xff\x0f", "tagged_fields", "4294967295 tags, at most 10000"),
        (b"\x02", "tagged_fields", "frame ends inside a varint"),
    ],
)
def test_hostile_tagged_fields_of_a_header_name_what_is_wrong(tags: bytes, field: str, reason: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        parse_request_header(JOIN_HEADER + tags, flexible=True)
    assert (raised.value.field, raised.value.reason) == (field, reason)


def test_a_client_id_longer_than_the_frame_names_its_length() -> None:
    with pytest.raises(ProtocolError, match="client_id at byte 8: length 32767 exceeds the 1 bytes left"):
        parse_request_header(JOIN_HEADER[:8] + b"\x7f\xffa", flexible=False)


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("sizes", [[0], [3, 4], [20_000], [5, 20_000, 6, 7, 30_000, 40_000], [10_000, 10_000]])
def test_a_response_in_pieces_is_the_same_and_large_pieces_are_not_copied(sizes: list[int], flexible: bool) -> None:
    body = [bytes([number]) * size for number, size in enumerate(sizes)]
    pieces = build_response_pieces(7, body, flexible=flexible)
    assert b"".join(pieces) == build_response_frame(7, b"".join(body), flexible=flexible)
    large = {id(piece) for piece in body if len(piece) >= LARGE_PIECE_BYTES}
    assert large <= {id(piece) for piece in pieces}
    assert len(pieces) <= 2 * len(large) + 1
