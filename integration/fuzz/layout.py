"""Where in the bytes of a message its counts, lengths, texts, numbers and tags stand, so that each can be made a lie."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kshim_protocol import wire
from kshim_protocol.codec import codec
from kshim_protocol.schema import Struct

Kind = Literal["count", "length", "text", "number", "tags"]


class Place(NamedTuple):
    """`kind` of what stands in `data[start:stop]`. A count or length alone; a text with its length.

    `width` is that of the count or length in bytes, 0 where it is compact.
    """

    kind: Kind
    start: int
    stop: int
    width: int


def laid_out(message: Struct, version: int) -> tuple[bytes, list[Place]]:
    """The bytes of a message in a version, and its places."""
    stream = wire.WireStream()
    places: list[Place] = []
    _struct(codec(type(message), version).schema, message, stream, places)
    return stream.getvalue(), places


def _struct(tree: wire.RowTree, message: Any, stream: wire.WireStream, places: list[Place]) -> None:
    for row, subcon in tree.fields:
        _value(subcon, getattr(message, row.name), stream, places)
    if tree.tagged is not None:
        start = stream.tell()
        tree.tagged._build(message, stream, None, "")
        places.append(Place("tags", start, stream.tell(), 0))


def _value(subcon: Any, value: Any, stream: wire.WireStream, places: list[Place]) -> None:
    start = stream.tell()
    if isinstance(subcon, wire.RowTree):
        _struct(subcon, value, stream, places)
    elif isinstance(subcon, wire.Nullable) and value is not None:
        subcon.presence._build(1, stream, None, "")
        _value(subcon.subcon, value, stream, places)
    elif isinstance(subcon, wire.Items) and value is not None:
        subcon.size._build(len(value), stream, None, "")
        places.append(Place("count", start, stream.tell(), _width(subcon.size)))
        for element in value:
            _value(subcon.element, element, stream, places)
    else:
        subcon._build(value, stream, None, "")
        if isinstance(subcon, wire.Sized):
            width = _width(subcon.size)
            plain_bytes = 0 if value is None else len(value.encode() if isinstance(value, str) else value)
            places.append(Place("length", start, stream.tell() - plain_bytes, width))
            if subcon.is_text:
                places.append(Place("text", start, stream.tell(), width))
        elif isinstance(subcon, wire.Fixed):
            places.append(Place("number", start, stream.tell(), 0))


def _width(size: Any) -> int:
    return 0 if isinstance(size, wire.CompactSize) else int(size.width)
