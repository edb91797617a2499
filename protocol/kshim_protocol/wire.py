"""The construct schemas: from the rows of a message to one construct tree per version. The codec of record.

Interpreting these trees is exact but slow; `compiler.py` walks the same trees and generates plain Python. Compact and
classic types are chosen here, when the tree is made: a parse never tests a version.
"""

from __future__ import annotations

import io
import sys
from typing import Any

import construct as c

from kshim_protocol.frame import (
    MAX_REQUEST_ELEMENTS,
    MAX_SECTION_TAGS,
    MAX_TEXT_BYTES,
    MAX_VARINT_BYTES,
    BuildError,
    ProtocolError,
)
from kshim_protocol.rows import Layout, Rows, layout_of
from kshim_protocol.schema import MISSING, ZERO_UUID, MessageInfo, Row, Struct, row_is_in


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
    """A fixed-width value around construct's own `FormatField` (or `Bytes(16)`); `format` is struct's letter."""

    def __init__(self, type_: str, subcon: c.Construct, format_: str, width: int, zero: Any) -> None:
        super().__init__()
        self.type, self.subcon, self.format, self.width, self.zero = type_, subcon, format_, width, zero

    def _parse(self, stream: WireStream, context: Any, path: str) -> Any:
        if self.width > stream.size - stream.tell():
            raise WireFault(f"{self.width} bytes expected, {stream.size - stream.tell()} left", path, stream.tell())
        return self.subcon._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        try:
            return self.subcon._build(obj, stream, context, path)
        except (c.ConstructError, TypeError, ValueError) as error:
            raise WireFault(f"{obj!r} is no {self.type}: {error}", path) from None


FIXED: dict[str, Fixed] = {
    "int8": Fixed("int8", c.Int8sb, "b", 1, 0),
    "int16": Fixed("int16", c.Int16sb, "h", 2, 0),
    "uint16": Fixed("uint16", c.Int16ub, "H", 2, 0),
    "int32": Fixed("int32", c.Int32sb, "i", 4, 0),
    "int64": Fixed("int64", c.Int64sb, "q", 8, 0),
    "float64": Fixed("float64", c.Float64b, "d", 8, 0.0),
    "boolean": Fixed("boolean", c.FormatField(">", "?"), "?", 1, False),
    "uuid": Fixed("uuid", c.Bytes(16), "16s", 16, ZERO_UUID),
}


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


COMPACT = CompactSize()


class Sized(c.Construct):  # type: ignore[misc]
    """Length, then bytes; `is_text` decodes them as UTF-8 (malformed sequences become U+FFFD, as in Java)."""

    def __init__(self, size: c.Construct, *, is_text: bool, is_nullable: bool) -> None:
        super().__init__()
        self.size, self.is_text, self.is_nullable = size, is_text, is_nullable

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

    def __init__(
        self,
        size: c.Construct,
        element: c.Construct,
        *,
        is_nullable: bool,
        element_min_bytes: int,
        layout: Layout[Any] | None = None,
    ) -> None:
        """`layout`: that of the elements, where the generated code may keep their bytes."""
        super().__init__()
        self.size, self.element, self.is_nullable, self.layout = size, element, is_nullable, layout
        self.element_min_bytes = max(1, element_min_bytes)

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

    def __init__(self, subcon: c.Construct, *, is_tagged: bool) -> None:
        super().__init__()
        self.subcon, self.is_tagged = subcon, is_tagged
        self.presence: c.Construct = UVarint() if is_tagged else FIXED["int8"]

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

    def __init__(self, known: dict[int, tuple[Row, c.Construct]]) -> None:
        super().__init__()
        self.known = known
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

    def __init__(
        self, cls: type[Struct], fields: list[tuple[Row, c.Construct]], absent: list[Row], tagged: Tagged | None
    ) -> None:
        super().__init__()
        self.cls, self.fields, self.absent, self.tagged = cls, fields, absent, tagged
        self.min_bytes = sum(min_bytes(subcon) for _, subcon in fields) + (tagged is not None)

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


def min_bytes(subcon: c.Construct) -> int:
    """The fewest bytes a value of this construct takes; guards counts."""
    if isinstance(subcon, Fixed):
        return subcon.width
    if isinstance(subcon, (Sized, Items)):
        return 1 if isinstance(subcon.size, CompactSize) else subcon.size.width
    if isinstance(subcon, RowTree):
        return subcon.min_bytes
    return 1


def default_of(row: Row) -> Any:
    """The value a row has where it does not travel: its declared default, or its type's zero."""
    if row.default is not MISSING:
        return row.default
    if row.type in FIXED:
        return FIXED[row.type].zero
    if row.type == "struct":
        return row.element(**{r.name: default_of(r) for r in row.element.info.rows})
    return {"string": "", "bytes": b"", "records": b"", "array": ()}[row.type]


def tree_for(cls: type[Struct], version: int) -> RowTree:
    """The construct tree of a message in one of its valid versions."""
    info = cls.info
    return struct_tree_for(cls, version, is_flexible=info.flexible[0] <= version <= info.flexible[1])


def struct_tree_for(cls: type[Struct], version: int, *, is_flexible: bool) -> RowTree:
    """The same of a struct, in a version of the message it stands in."""
    fields: list[tuple[Row, c.Construct]] = []
    absent: list[Row] = []
    known: dict[int, tuple[Row, c.Construct]] = {}
    for row in cls.info.rows:
        if not row_is_in(row, version):
            absent.append(row)
        elif row.tag is not None and is_flexible:
            known[row.tag] = (row, _construct_of(row, version, is_flexible=True))
        elif row.tag is not None:
            absent.append(row)
        else:
            fields.append((row, _construct_of(row, version, is_flexible=is_flexible and row.flexible)))
    return RowTree(cls, fields, absent, Tagged(known) if is_flexible else None)


def _construct_of(row: Row, version: int, *, is_flexible: bool) -> c.Construct:
    is_nullable = row.nullable[0] <= version <= row.nullable[1]
    if row.type == "array":
        element = row.element
        if isinstance(element, str):
            subcon = _primitive(element, is_flexible=is_flexible, is_nullable=False)
        else:
            subcon = struct_tree_for(element, version, is_flexible=is_flexible)
        size = COMPACT if is_flexible else FIXED["int32"]
        layout = layout_of(element, version, is_flexible=is_flexible) if row.keeps_bytes else None
        return Items(size, subcon, is_nullable=is_nullable, element_min_bytes=min_bytes(subcon), layout=layout)
    if row.type == "struct":
        tree = struct_tree_for(row.element, version, is_flexible=is_flexible)
        return Nullable(tree, is_tagged=row.tag is not None) if is_nullable else tree
    return _primitive(row.type, is_flexible=is_flexible, is_nullable=is_nullable)


def _primitive(type_: str, *, is_flexible: bool, is_nullable: bool) -> c.Construct:
    if type_ in FIXED:
        return FIXED[type_]
    is_text = type_ == "string"
    size = COMPACT if is_flexible else FIXED["int16" if is_text else "int32"]
    return Sized(size, is_text=is_text, is_nullable=is_nullable)


def max_elements_of(info: MessageInfo) -> int | None:
    """How many array elements and tags a message may hold; None: any. Only requests come from untrusted clients."""
    return MAX_REQUEST_ELEMENTS if info.api_key is not None and info.name.endswith("Request") else None


def interpreted_parse(tree: RowTree, info: MessageInfo, version: int, data: bytes, offset: int) -> tuple[Any, int]:
    """Parse with construct alone. Returns (object, offset after it). Raises ProtocolError."""
    stream = WireStream(data, max_elements_of(info) or sys.maxsize)
    stream.seek(offset)
    try:
        return tree._parsereport(stream, c.Container(), ""), stream.tell()
    except WireFault as fault:
        raise ProtocolError(
            fault.reason, message=info.name, version=version, field=fault.field, offset=fault.offset
        ) from None


def interpreted_build(tree: RowTree, info: MessageInfo, version: int, obj: Any) -> bytes:
    """Build with construct alone. Raises BuildError."""
    return interpreted_struct_build(tree, f"{info.name} v{version}", obj)


def interpreted_struct_build(tree: RowTree, name: str, obj: Any) -> bytes:
    """The same of a struct of that name."""
    stream = WireStream()
    try:
        tree._build(obj, stream, c.Container(), "")
    except WireFault as fault:
        raise BuildError(f"{name}: {fault.field}: {fault.reason}") from None
    return stream.getvalue()
