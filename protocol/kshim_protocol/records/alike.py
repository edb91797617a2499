"""Records of one batch that are equally long and built alike, checked by columns instead of one by one.

Most producers write many records of one length after each other. Where the first of them is sound, the others are if the
bytes that say how they are built (lengths, and how many headers there are) are the same at the same places: each such
place is a column of bytes that stand one record apart, and a slice compares all of it at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.layout import MIN_RECORD_BYTES
from kshim_protocol.records.varint import decode_varint, decode_varlong

FEW: Final = 4
"""Fewer records are checked one by one: that costs less."""
_MOST: Final = 1024  # looked at together, so that a look costs little where few are found
_MOST_HEADERS: Final = 16
_WIDEST_TIMESTAMP: Final = 9  # a tenth byte might hold bits beyond the 64

_SHORT_OFFSETS: Final = 64  # those whose zig-zag varints have one byte
_OFFSETS: Final = 8192  # those that have one or two, which are:
_FIRST_BYTES: Final = bytes(range(0, 0x80, 2)) + bytes(range(0x80, 0x100, 2)) * (_OFFSETS // 64 - 1)
_SECOND_BYTES: Final = bytes(offset >> 6 for offset in range(_OFFSETS))

_LAST_BYTES: Final = bytes(range(0x80))
_OTHER_BYTES: Final = bytes(range(0x80, 0x100))
_EVEN_BYTES: Final = bytes(range(0, 0x100, 2))  # even: not negative


class AlikeRecords(NamedTuple):
    """`record_count` sound records, which end at `end`. See `RecordFacts` for the rest."""

    record_count: int
    end: int
    size_bytes: int
    least_delta_ms: int
    greatest_delta_ms: int
    lacks_key: bool


def find_alike(data: bytes, at: int, index: int, count: int) -> AlikeRecords | None:
    """The records from the one at `at` on, at most `count`, that are alike. None: look at them one by one, as that is
    cheaper, or as it shows what is wrong.

    The offsets inside have to count up from `index`, that of the first of them. All lengths have one or two bytes.
    """
    if len(data) - at < FEW * MIN_RECORD_BYTES:
        return None
    start = at + 1 if data[at] < 0x80 else at + 2
    size_bytes = data[at] >> 1 if data[at] < 0x80 else data[at] >> 1 & 0x3F | data[at + 1] << 6
    end = start + size_bytes
    stride = end - at
    numbered = (_OFFSETS if index >= _SHORT_OFFSETS else _SHORT_OFFSETS) - index
    count = min(count, _MOST, numbered, (len(data) - at) // stride)
    if count < FEW or stride < MIN_RECORD_BYTES or data[end] != data[at] or data[at] & 1 or data[start - 1] >= 0x80:
        return None
    offset_at = start + 2
    while data[offset_at - 1] >= 0x80 and offset_at - start <= _WIDEST_TIMESTAMP:
        offset_at += 1
    if data[offset_at - 1] >= 0x80:
        return None
    key_at = offset_at + 1 if index < _SHORT_OFFSETS else offset_at + 2
    places = _places_of_lengths(data, key_at, end)
    if places is None:
        return None
    places += range(at, start)
    reach = (count - 1) * stride + 1
    for place in places:
        column = data[place : place + reach : stride]
        if column != column[:1] * count:
            count -= len(column.lstrip(column[:1]))
            reach = (count - 1) * stride + 1
    if (
        count < FEW
        or data[offset_at : offset_at + reach : stride] != _FIRST_BYTES[index : index + count]
        or (
            index >= _SHORT_OFFSETS
            and data[offset_at + 1 : offset_at + 1 + reach : stride] != _SECOND_BYTES[index : index + count]
        )
    ):
        return None
    times = [data[place : place + reach : stride] for place in range(start + 1, offset_at)]
    count, least_ms, greatest_ms = _timestamps(times)
    if count < FEW:
        return None
    return AlikeRecords(count, at + count * stride, size_bytes, least_ms, greatest_ms, data[key_at] & 1 == 1)


def _places_of_lengths(data: bytes, at: int, end: int) -> list[int] | None:
    """Where the lengths in a record stand, from that of its key on; None if they do not lead to its end."""
    places = []
    for _ in ("key", "value"):
        if at >= end:
            return None
        places.append(at)
        byte = data[at]
        if byte < 0x80:
            at += 1 if byte & 1 else 1 + (byte >> 1)  # an odd one is negative: there is none
        elif (more := data[at + 1]) < 0x80:
            places.append(at + 1)
            at += 2 if byte & 1 else 2 + (byte >> 1 & 0x3F | more << 6)
        else:
            return None
    if at >= end:
        return None
    places.append(at)
    if data[at]:
        at = _end_of_headers(data, at, places)
    else:
        at += 1
    return places if at == end else None


def _end_of_headers(data: bytes, at: int, places: list[int]) -> int:
    """Where they end; -1 for more than are worth it, and for what is no header."""
    header_count = data[at] >> 1
    at += 1
    if data[at - 1] & 1 or header_count > _MOST_HEADERS:
        return -1
    try:
        for _ in range(header_count):
            name_bytes, after = decode_varint(data, at)
            places += range(at, after)
            if name_bytes < 0:
                return -1
            at = after + name_bytes
            value_bytes, after = decode_varint(data, at)
            places += range(at, after)
            at = after + max(value_bytes, 0)
    except ProtocolError:
        return -1
    return at


def _timestamps(columns: list[bytes]) -> tuple[int, int, int]:
    """How many of the varints in these columns have a byte in each, and the least and the greatest of them."""
    count = len(columns[0])
    for column in columns:
        if column != column[:1] * count:
            break
    else:  # all are the same
        byte = columns[0][0]
        if len(columns) == 1:
            value = byte >> 1 ^ -(byte & 1)
        else:
            value, _ = decode_varlong(bytes(column[0] for column in columns), 0)
        return count, value, value
    if not columns[-1].isascii():
        count -= len(columns[-1].lstrip(_LAST_BYTES))
    for column in columns[:-1]:
        count = min(count, len(column) - len(column.lstrip(_OTHER_BYTES)))
    if not count:
        return 0, 0, 0
    columns = [column[:count] for column in columns]
    if len(columns) == 1:
        deltas_ms = [byte >> 1 ^ -(byte & 1) for byte in set(columns[0])]
    else:  # equally long ones compare as their bytes do, the last one first
        values = list(zip(*reversed(columns), strict=True))
        has_negative = bool(columns[0].translate(None, _EVEN_BYTES))
        chosen = set(values) if has_negative else {min(values), max(values)}
        deltas_ms = [decode_varlong(bytes(reversed(value)), 0)[0] for value in chosen]
    return count, min(deltas_ms), max(deltas_ms)
