"""Frames and headers, sans-io: what stands around a message on the wire.

A frame is an int32 size, a header and a body. Which header a frame carries follows from (api key, version) alone.
Kafka: RequestHeader.json, ResponseHeader.json; `docs/design/architecture.md`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

MAX_TEXT_BYTES = 32_767
"""Text is at most so long, as UTF-8, in compact form too: Java's readers refuse more."""
MAX_REQUEST_ELEMENTS = 250_000
"""Array elements and unknown tags that one request may hold, all arrays together. Each costs the broker some 10 us and up
to 2 KB for as long as the request takes, and a frame has room for fifty million; Kafka has no such bound.
"""
MAX_SECTION_TAGS = 10_000
"""Tagged fields of one struct."""

LARGE_PIECE_BYTES = 16 * 1024
"""From so many bytes on, a piece of a frame is not copied into the frame: that would cost more than it to be sent alone."""

MAX_VARINT_BYTES = 5
"""An unsigned varint ends after this many bytes or is malformed."""

_HEADER_START = struct.Struct(">hhih")
_SIZE_ID_NO_TAGS = struct.Struct(">i4sx")
_SIZE_ID = struct.Struct(">i4s")
_SIZE_AND_CORRELATION = struct.Struct(">ii")
_SIZE_CORRELATION_NO_TAGS = struct.Struct(">iix")
_SIZE_AND_HEADER = struct.Struct(">ihhih")


class ProtocolError(Exception):
    """The peer's bytes are not what they claim to be. The only error that parsing raises.

    `message` and `version` say what was being read (e.g. "JoinGroupRequest", 9; version None where there is none),
    `field` is the path of the row (e.g. "protocols[2].name"), `offset` the byte position in the data given.
    """

    def __init__(self, reason: str, *, message: str, version: int | None = None, field: str, offset: int) -> None:
        name = message if version is None else f"{message} v{version}"
        super().__init__(f"{name}: {field} at byte {offset}: {reason}")
        self.reason = reason
        self.message = message
        self.version = version
        self.field = field
        self.offset = offset


class BuildError(ValueError):
    """A message of ours cannot travel: a value out of range, a null where none may be, a row the version lacks."""


class RequestHeader(NamedTuple):
    """Header of a request. `body_at` is the offset of the body in the frame (without its 4-byte size)."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def parse_request_header(frame: bytes, *, flexible: bool) -> RequestHeader:
    """Read request header v1, or v2 when the version of the API is `flexible`. Tagged fields are skipped.

    Raises ProtocolError. Kafka: RequestHeader.json (the client id is never compact).
    """
    try:
        api_key, api_version, correlation_id, length = _HEADER_START.unpack_from(frame, 0)
    except struct.error:
        raise _header_error("frame ends inside the header", "api_key", 0) from None
    at = 10
    if length < 0:
        client_id = None
    else:
        if at + length > len(frame):
            raise _header_error(f"length {length} exceeds the {len(frame) - at} bytes left", "client_id", 8)
        client_id = frame[at : at + length].decode("utf-8", "replace")
        at += length
    if flexible:
        if at < len(frame) and frame[at] == 0:
            at += 1
        else:
            at = _skip_tags(frame, at)
    # As RequestHeader(...), which is a function of Python's own in between: there is a header in each request.
    return tuple.__new__(RequestHeader, (api_key, api_version, correlation_id, client_id, at))


def build_request_frame(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: bytes, *, flexible: bool
) -> bytes:
    """A whole request with its size. The header has no tagged fields."""
    name = b"" if client_id is None else client_id.encode()
    tags = b"\0" if flexible else b""
    size = 10 + len(name) + len(tags) + len(body)
    length = -1 if client_id is None else len(name)
    return _SIZE_AND_HEADER.pack(size, api_key, api_version, correlation_id, length) + name + tags + body


def build_response_frame(correlation_id: int, body: bytes, *, flexible: bool) -> bytes:
    """A whole response with its size: header v1 when `flexible`, else v0. ApiVersions always takes v0."""
    if flexible:
        return _SIZE_CORRELATION_NO_TAGS.pack(5 + len(body), correlation_id) + body
    return _SIZE_AND_CORRELATION.pack(4 + len(body), correlation_id) + body


def build_answer(request_frame: bytes, body: bytes, *, flexible: bool) -> bytes:
    """The same for a request that came in `request_frame` (without its size), whose correlation id is not taken apart."""
    if flexible:
        return _SIZE_ID_NO_TAGS.pack(5 + len(body), request_frame[4:8]) + body
    return _SIZE_ID.pack(4 + len(body), request_frame[4:8]) + body


def build_answer_around(request_frame: bytes, before: bytes, records: bytes, behind: bytes) -> list[bytes]:
    """The same in the pieces of `build_response_pieces`, flexible, for a body of these three of which only the records may be large."""
    start = _SIZE_ID_NO_TAGS.pack(5 + len(before) + len(records) + len(behind), request_frame[4:8])
    if len(records) < LARGE_PIECE_BYTES:
        return [b"".join((start, before, records, behind))]
    return [start + before, records, behind]


def build_response_pieces(correlation_id: int, body: list[bytes], *, flexible: bool) -> list[bytes]:
    """The frame of `build_response_frame` in pieces: those of `LARGE_PIECE_BYTES` as they are, what is between them joined.

    `body` is not empty.
    """
    layout = _SIZE_CORRELATION_NO_TAGS if flexible else _SIZE_AND_CORRELATION
    size_bytes = sum(map(len, body))
    small = [layout.pack(layout.size - 4 + size_bytes, correlation_id)]
    if size_bytes < LARGE_PIECE_BYTES:
        return [b"".join(small + body)]
    pieces: list[bytes] = []
    for piece in body:
        if len(piece) < LARGE_PIECE_BYTES:
            small.append(piece)
        else:
            pieces += (b"".join(small), piece)
            small = []
    if small:
        pieces.append(b"".join(small))
    return pieces


def _skip_tags(frame: bytes, at: int) -> int:
    count, at = _uvarint(frame, at)
    if count > MAX_SECTION_TAGS:
        raise _header_error(f"{count} tags, at most {MAX_SECTION_TAGS}", "tagged_fields", at)
    for _ in range(count):
        _, at = _uvarint(frame, at)
        size, at = _uvarint(frame, at)
        if size > len(frame) - at:
            raise _header_error(f"size {size} exceeds the {len(frame) - at} bytes left", "tagged_fields", at)
        at += size
    return at


def _uvarint(frame: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(MAX_VARINT_BYTES):
        if at + i >= len(frame):
            raise _header_error("frame ends inside a varint", "tagged_fields", at)
        byte = frame[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    raise _header_error("varint longer than 5 bytes", "tagged_fields", at)


def _header_error(reason: str, field: str, offset: int) -> ProtocolError:
    return ProtocolError(reason, message="RequestHeader", field=field, offset=offset)
