"""How a message travels in one version, from its rows: what the generators of code and the interpreter walk.

Compact and classic types are chosen here, when the tree is made: a parse never tests a version. `wire.py` makes
construct's trees of these, which takes construct itself: it is imported only where one is needed.
"""

from __future__ import annotations

from typing import Any, Final

from kshim_protocol.frame import MAX_REQUEST_ELEMENTS
from kshim_protocol.rows import Layout, layout_of
from kshim_protocol.schema import MISSING, ZERO_UUID, MessageInfo, Row, Struct, row_is_in


class Shape:
    """How one value travels."""


class Fixed(Shape):
    """A value of fixed width; `format` is struct's letter."""

    def __init__(self, type_: str, format_: str, width: int, zero: Any) -> None:
        self.type, self.format, self.width, self.zero = type_, format_, width, zero


class CompactSize(Shape):
    """A length or count in flexible versions: uvarint of n + 1; null is 0."""


FIXED: Final = {
    "int8": Fixed("int8", "b", 1, 0),
    "int16": Fixed("int16", "h", 2, 0),
    "uint16": Fixed("uint16", "H", 2, 0),
    "int32": Fixed("int32", "i", 4, 0),
    "int64": Fixed("int64", "q", 8, 0),
    "float64": Fixed("float64", "d", 8, 0.0),
    "boolean": Fixed("boolean", "?", 1, False),
    "uuid": Fixed("uuid", "16s", 16, ZERO_UUID),
}
COMPACT: Final = CompactSize()

Size = Fixed | CompactSize
"""How a length or count travels."""


class Sized(Shape):
    """Length, then bytes, or with `is_text` UTF-8."""

    def __init__(self, size: Size, *, is_text: bool, is_nullable: bool) -> None:
        self.size, self.is_text, self.is_nullable = size, is_text, is_nullable


class Items(Shape):
    """Count, then elements of `element_min_bytes` each at least.

    `layout`: that of the elements, where the generated code may keep their bytes.
    """

    def __init__(
        self,
        size: Size,
        element: Shape,
        *,
        is_nullable: bool,
        element_min_bytes: int,
        layout: Layout[Any] | None = None,
    ) -> None:
        self.size, self.element, self.is_nullable, self.layout = size, element, is_nullable, layout
        self.element_min_bytes = max(1, element_min_bytes)


class Nullable(Shape):
    """A nullable struct: int8 -1 or 1 before it; inside a tagged row an unsigned varint 0 or 1 (KIP-893)."""

    def __init__(self, subcon: RowTree, *, is_tagged: bool) -> None:
        self.subcon, self.is_tagged = subcon, is_tagged


class Tagged(Shape):
    """The tagged section at the end of a flexible struct: `known` maps tag -> (row, shape)."""

    def __init__(self, known: dict[int, tuple[Row, Shape]]) -> None:
        self.known = known


class RowTree(Shape):
    """A struct in one version.

    `fields` are (row, shape) in wire order, `absent` the rows this version lacks, `tagged` the tagged section.
    """

    def __init__(
        self, cls: type[Struct], fields: list[tuple[Row, Shape]], absent: list[Row], tagged: Tagged | None
    ) -> None:
        self.cls, self.fields, self.absent, self.tagged = cls, fields, absent, tagged
        self.min_bytes = sum(min_bytes(subcon) for _, subcon in fields) + (tagged is not None)


def min_bytes(subcon: Shape) -> int:
    """The fewest bytes a value of this shape takes; guards counts."""
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
    """The shape of a message in one of its valid versions."""
    info = cls.info
    return struct_tree_for(cls, version, is_flexible=info.flexible[0] <= version <= info.flexible[1])


def struct_tree_for(cls: type[Struct], version: int, *, is_flexible: bool) -> RowTree:
    """The same of a struct, in a version of the message it stands in."""
    fields: list[tuple[Row, Shape]] = []
    absent: list[Row] = []
    known: dict[int, tuple[Row, Shape]] = {}
    for row in cls.info.rows:
        if not row_is_in(row, version):
            absent.append(row)
        elif row.tag is not None and is_flexible:
            known[row.tag] = (row, _shape_of(row, version, is_flexible=True))
        elif row.tag is not None:
            absent.append(row)
        else:
            fields.append((row, _shape_of(row, version, is_flexible=is_flexible and row.flexible)))
    return RowTree(cls, fields, absent, Tagged(known) if is_flexible else None)


def _shape_of(row: Row, version: int, *, is_flexible: bool) -> Shape:
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


def _primitive(type_: str, *, is_flexible: bool, is_nullable: bool) -> Shape:
    if type_ in FIXED:
        return FIXED[type_]
    is_text = type_ == "string"
    size = COMPACT if is_flexible else FIXED["int16" if is_text else "int32"]
    return Sized(size, is_text=is_text, is_nullable=is_nullable)


def max_elements_of(info: MessageInfo) -> int | None:
    """How many array elements and tags a message may hold; None: any. Only requests come from untrusted clients."""
    return MAX_REQUEST_ELEMENTS if info.api_key is not None and info.name.endswith("Request") else None
