"""Base-128 varints on bytes, zig-zag, as they stand inside records.

Zig-zag maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ... so that small negative numbers stay short. A varint holds 32 bits in at
most 5 bytes, a varlong 64 bits in at most 10. Longer ones, and bits beyond the width, are malformed (Kafka drops such
bits silently; no client writes them). Kafka: ByteUtils.
"""

from __future__ import annotations

from kshim_protocol.frame import ProtocolError

SMALL_VARINTS: list[bytes] = [bytes((i << 1,)) for i in range(64)]
SMALL_VARINTS += [bytes((i << 1 & 0x7F | 0x80, i >> 6)) for i in range(64, 512)]
"""Zig-zag varints of 0 to 511, by value: most lengths and offset deltas of a record."""


def encode_varint(value: int) -> bytes:
    """The zig-zag varint of an int32. Raises ValueError beyond that."""
    if 0 <= value < 512:
        return SMALL_VARINTS[value]
    if 0 < value < 8_192:
        return bytes((value << 1 & 0x7F | 0x80, value >> 6))
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{value} does not fit a varint of 32 bits")
    return _encode(value << 1 ^ value >> 31)


def encode_varlong(value: int) -> bytes:
    """The zig-zag varint of an int64. Raises ValueError beyond that."""
    if 0 <= value < 512:
        return SMALL_VARINTS[value]
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} does not fit a varlong of 64 bits")
    return _encode(value << 1 ^ value >> 63)


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, offset after it) of the zig-zag varint at `at`, an int32. Raises ProtocolError."""
    value, end = _decode(data, at, max_bytes=5, bits=32)
    return value >> 1 ^ -(value & 1), end


def decode_varlong(data: bytes, at: int) -> tuple[int, int]:
    """(value, offset after it) of the zig-zag varint at `at`, an int64. Raises ProtocolError."""
    value, end = _decode(data, at, max_bytes=10, bits=64)
    return value >> 1 ^ -(value & 1), end


def _encode(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _decode(data: bytes, at: int, *, max_bytes: int, bits: int) -> tuple[int, int]:
    value = 0
    shift = 0
    position = at
    for byte in data[at : at + max_bytes]:
        position += 1
        if byte < 0x80:
            value |= byte << shift
            if value >> bits:
                raise _malformed(f"varint holds more than {bits} bits", at)
            return value, position
        value |= (byte & 0x7F) << shift
        shift += 7
    if position - at == max_bytes:
        raise _malformed(f"varint longer than {max_bytes} bytes", at)
    raise _malformed("data ends inside a varint", at)


def _malformed(reason: str, offset: int) -> ProtocolError:
    return ProtocolError(reason, message="Varint", field="value", offset=offset)
