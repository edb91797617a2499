"""The construct schemas: from the shape of a message to one construct tree per version. The codec of record.

Interpreting these trees is exact but slow; `compiler.py` walks the same shapes and generates plain Python. So construct is
imported only where something has to be explained, which is not part of a start.
"""

from __future__ import annotations

import io
import sys
from functools import lru_cache
from typing import Any

import construct as c

from kshim_protocol import shape
from kshim_protocol.frame import (
    MAX_SECTION_TAGS,
    MAX_TEXT_BYTES,
    MAX_VARINT_BYTES,
    BuildError,
    ProtocolError,
)
from kshim_protocol.rows import Rows
from kshim_protocol.schema import MessageInfo
from kshim_protocol.shape import default_of, max_elements_of

_MOST_KEPT = 64


class WireFault(c.ConstructError):  # type: ignore[misc]
    """What the interpreted trees raise; carries the field path and becomes a ProtocolError or a BuildError."""

    def __init__(self, reason: str, path: str, offset: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = path
        self.offset = offset


class WireStream(io.BytesIO):
    """A BytesIO that knows how many bytes are left, so that counts are checked before anything is allocated."""

    def __init__(self, data: bytes = b"", max_elements: int = sys.maxsize) -> None:
        super().__init__(data)
        self.size = len(data)
        self.max_elements = max_elements
        self._budget = max_elements

    def spend(self, count: int, path: str) -> None:
        """Take that many elements off the budget, where there is one."""
        self._budget -= count
        if self._budget < 0:
            raise WireFault(f"more than {self.max_elements} elements in total", path, self.tell())

    def take(self, count: int, path: str) -> bytes:
        if count > self.size - self.tell():
            raise WireFault(f"{count} bytes expected, {self.size - self.tell()} left", path, self.tell())
        return self.read(count)


class Fixed(c.Construct):  # type: ignore[misc]
    """A fixed-width value around construct's own `FormatField` (or `Bytes(16)`)."""

    def __init__(self, made_of: shape.Fixed) -> None:
        super().__init__()
        self.type, self.width = made_of.type, made_of.width
        letter = "l" if made_of.format == "i" else made_of.format  # construct's word for 32 bits
        self.subcon = c.Bytes(made_of.width) if made_of.type == "uuid" else c.FormatField(">", letter)

    def _parse(self, stream: WireStream, context: Any, path: str) -> Any:
        if self.width > stream.size - stream.tell():
            raise WireFault(f"{self.width} bytes expected, {stream.size - stream.tell()} left", path, stream.tell())
        return self.subcon._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        try:
            return self.subcon._build(obj, stream, context, path)
        except (c.ConstructError, TypeError, ValueError) as error:
            raise WireFault(f"{obj!r} is no {self.type}: {error}", path) from None


class UVarint(c.Construct):  # type: ignore[misc]
    """Unsigned base-128 varint of at most five bytes (construct's own VarInt has no end)."""

    def _parse(self, stream: WireStream, context: Any, path: str) -> int:
        start = stream.tell()
        value = 0
        for i in range(MAX_VARINT_BYTES):
            byte = stream.take(1, path)[0]
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return value
        raise WireFault("varint longer than 5 bytes", path, start)

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        value = obj
        while value > 0x7F:
            stream.write(bytes((value & 0x7F | 0x80,)))
            value >>= 7
        stream.write(bytes((value,)))
        return obj


class CompactSize(c.Construct):  # type: ignore[misc]
    """A length or count in flexible versions: uvarint of n + 1; null is 0 and reads as -1."""

    varint = UVarint()

    def _parse(self, stream: WireStream, context: Any, path: str) -> int:
        value: int = self.varint._parsereport(stream, context, path)
        return value - 1

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        self.varint._build(obj + 1, stream, context, path)
        return obj


class Sized(c.Construct):  # type: ignore[misc]
    """Length, then bytes; `is_text` decodes them as UTF-8 (malformed sequences become U+FFFD, as in Java)."""

    def __init__(self, made_of: shape.Sized) -> None:
        super().__init__()
        self.size = construct_of(made_of.size)
        self.is_text, self.is_nullable = made_of.is_text, made_of.is_nullable

    def _parse(self, stream: WireStream, context: Any, path: str) -> Any:
        start = stream.tell()
        length = self.size._parsereport(stream, context, path)
        if length < 0:
            if self.is_nullable:
                return None
            raise WireFault("null, which this row may not be", path, start)
        if self.is_text and length > MAX_TEXT_BYTES:
            raise WireFault(f"text of {length} bytes, at most {MAX_TEXT_BYTES}", path, start)
        data = stream.take(length, path)
        return data.decode("utf-8", "replace") if self.is_text else data

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        if obj is None:
            if not self.is_nullable:
                raise WireFault("None, which this row may not be", path)
            self.size._build(-1, stream, context, path)
            return obj
        try:
            data = obj.encode() if self.is_text else bytes(obj) if not isinstance(obj, (int, str)) else None
        except (AttributeError, TypeError, ValueError):
            data = None
        if data is None:
            raise WireFault(f"{obj!r} is no {'text' if self.is_text else 'bytes'}", path)
        if self.is_text and len(data) > MAX_TEXT_BYTES:
            raise WireFault(f"text of {len(data)} bytes, at most {MAX_TEXT_BYTES}", path)
        self.size._build(len(data), stream, context, path)
        stream.write(data)
        return obj


class Items(c.Construct):  # type: ignore[misc]
    """Count, then elements, as a tuple. The count is checked against the bytes left, `element_min_bytes` each."""

    def __init__(self, made_of: shape.Items) -> None:
        super().__init__()
        self.size, self.element = construct_of(made_of.size), construct_of(made_of.element)
        self.is_nullable, self.element_min_bytes = made_of.is_nullable, made_of.element_min_bytes

    def _parse(self, stream: WireStream, context: Any, path: str) -> Any:
        start = stream.tell()
        count = self.size._parsereport(stream, context, path)
        if count < 0:
            if self.is_nullable:
                return None
            raise WireFault("null, which this row may not be", path, start)
        left = stream.size - stream.tell()
        if count * self.element_min_bytes > left:
            raise WireFault(f"{count} elements claimed, {left} bytes left", path, start)
        stream.spend(count, path)
        return tuple([self.element._parsereport(stream, context, f"{path}[{i}]") for i in range(count)])

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        if obj is None:
            if not self.is_nullable:
                raise WireFault("None, which this row may not be", path)
            self.size._build(-1, stream, context, path)
            return obj
        if not isinstance(obj, (tuple, list, Rows)):
            raise WireFault(f"{obj!r} is no tuple", path)
        self.size._build(len(obj), stream, context, path)
        for i, element in enumerate(obj):
            self.element._build(element, stream, context, f"{path}[{i}]")
        return obj


class Nullable(c.Construct):  # type: ignore[misc]
    """A nullable struct: int8 -1 or 1 before it; inside a tagged row an unsigned varint 0 or 1 (KIP-893)."""

    def __init__(self, made_of: shape.Nullable) -> None:
        super().__init__()
        self.subcon, self.is_tagged = construct_of(made_of.subcon), made_of.is_tagged
        self.presence: c.Construct = UVarint() if made_of.is_tagged else construct_of(shape.FIXED["int8"])

    def _parse(self, stream: WireStream, context: Any, path: str) -> Any:
        presence = self.presence._parsereport(stream, context, path)
        if presence < 0 or (self.is_tagged and presence == 0):
            return None
        return self.subcon._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        if obj is None:
            self.presence._build(0 if self.is_tagged else -1, stream, context, path)
        else:
            self.presence._build(1, stream, context, path)
            self.subcon._build(obj, stream, context, path)
        return obj


class Tagged(c.Construct):  # type: ignore[misc]
    """The tagged section at the end of a flexible struct: `known` maps tag -> (row, construct)."""

    def __init__(self, made_of: shape.Tagged) -> None:
        super().__init__()
        self.known = {tag: (row, construct_of(each)) for tag, (row, each) in made_of.known.items()}
        self.varint = UVarint()

    def _parse(self, stream: WireStream, context: Any, path: str) -> Any:
        values: dict[str, Any] = {}
        unknown = []
        start = stream.tell()
        count = self.varint._parsereport(stream, context, f"{path}tagged_fields")
        if count * 2 > stream.size - stream.tell():
            raise WireFault(
                f"{count} tags announced, {stream.size - stream.tell()} bytes left", f"{path}tagged_fields", start
            )
        if count > MAX_SECTION_TAGS:
            raise WireFault(f"{count} tags, at most {MAX_SECTION_TAGS}", f"{path}tagged_fields", start)
        for _ in range(count):
            tag = self.varint._parsereport(stream, context, f"{path}tagged_fields")
            size = self.varint._parsereport(stream, context, f"{path}tagged_fields")
            at = stream.tell()
            data = stream.take(size, f"{path}tagged_fields")
            if tag not in self.known:
                unknown.append((tag, data))
                continue
            row, subcon = self.known[tag]
            stream.seek(at)
            values[row.name] = subcon._parsereport(stream, context, f"{path}{row.name}")
            if stream.tell() != at + size:
                raise WireFault(
                    f"tag {tag} announces {size} bytes but has {stream.tell() - at}", f"{path}{row.name}", at
                )
        stream.spend(len(unknown), f"{path}tagged_fields")
        return values, tuple(unknown)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        sections: list[tuple[int, bytes]] = []
        for tag, (row, subcon) in self.known.items():
            value = getattr(obj, row.name)
            if value == default_of(row):
                continue
            inner = WireStream()
            subcon._build(value, inner, context, f"{path}{row.name}")
            sections.append((tag, inner.getvalue()))
        for tag, data in obj.unknown_tagged_fields:
            if tag in self.known:
                raise WireFault(f"tag {tag} is known as {self.known[tag][0].name}", f"{path}unknown_tagged_fields")
            sections.append((tag, data))
        sections.sort(key=lambda section: section[0])
        self.varint._build(len(sections), stream, context, path)
        for tag, data in sections:
            self.varint._build(tag, stream, context, path)
            self.varint._build(len(data), stream, context, path)
            stream.write(data)
        return obj


class RowTree(c.Construct):  # type: ignore[misc]
    """A struct in one version: parses straight into its class.

    `fields` are (row, construct) in wire order, `absent` the rows this version lacks, `tagged` the tagged section.
    """

    def __init__(self, made_of: shape.RowTree) -> None:
        super().__init__()
        self.cls, self.absent = made_of.cls, made_of.absent
        self.fields = [(row, construct_of(each)) for row, each in made_of.fields]
        self.tagged = None if made_of.tagged is None else Tagged(made_of.tagged)

    def _parse(self, stream: WireStream, context: Any, path: str) -> Any:
        prefix = f"{path}." if path else ""
        values = {row.name: default_of(row) for row in self.absent}
        for row, subcon in self.fields:
            values[row.name] = subcon._parsereport(stream, context, f"{prefix}{row.name}")
        if self.tagged is not None:
            for row, _ in self.tagged.known.values():
                values[row.name] = default_of(row)
            tagged, unknown = self.tagged._parsereport(stream, context, prefix)
            values.update(tagged)
            values["unknown_tagged_fields"] = unknown
        return self.cls(**values)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        prefix = f"{path}." if path else ""
        if not isinstance(obj, self.cls):
            raise WireFault(f"{obj!r} is no {self.cls.__name__}", path)
        for row in self.absent:
            if not row.ignorable and getattr(obj, row.name) != default_of(row):
                raise WireFault(
                    f"not a field of this version, but set to {getattr(obj, row.name)!r}", prefix + row.name
                )
        for row, subcon in self.fields:
            subcon._build(getattr(obj, row.name), stream, context, f"{prefix}{row.name}")
        if self.tagged is not None:
            self.tagged._build(obj, stream, context, prefix)
        elif obj.unknown_tagged_fields:
            raise WireFault("this version has no tagged fields", f"{prefix}unknown_tagged_fields")
        return obj


def construct_of(made_of: shape.Shape) -> c.Construct:
    """The construct of a shape."""
    match made_of:
        case shape.Fixed():
            return Fixed(made_of)
        case shape.CompactSize():
            return CompactSize()
        case shape.Sized():
            return Sized(made_of)
        case shape.Items():
            return Items(made_of)
        case shape.Nullable():
            return Nullable(made_of)
        case shape.RowTree():
            return RowTree(made_of)
        case _:
            raise TypeError(f"no construct for {made_of!r}")


@lru_cache(maxsize=_MOST_KEPT)
def _message(tree: shape.RowTree) -> RowTree:
    return RowTree(tree)


def interpreted_parse(
    tree: shape.RowTree, info: MessageInfo, version: int, data: bytes, offset: int
) -> tuple[Any, int]:
    """Parse with construct alone. Returns (object, offset after it). Raises ProtocolError."""
    stream = WireStream(data, max_elements_of(info) or sys.maxsize)
    stream.seek(offset)
    try:
        return _message(tree)._parsereport(stream, c.Container(), ""), stream.tell()
    except WireFault as fault:
        raise ProtocolError(
            fault.reason, message=info.name, version=version, field=fault.field, offset=fault.offset
        ) from None


def interpreted_build(tree: shape.RowTree, info: MessageInfo, version: int, obj: Any) -> bytes:
    """Build with construct alone. Raises BuildError."""
    return interpreted_struct_build(tree, f"{info.name} v{version}", obj)


def interpreted_struct_build(tree: shape.RowTree, name: str, obj: Any) -> bytes:
    """The same of a struct of that name."""
    stream = WireStream()
    try:
        _message(tree)._build(obj, stream, c.Container(), "")
    except WireFault as fault:
        raise BuildError(f"{name}: {fault.field}: {fault.reason}") from None
    return stream.getvalue()
