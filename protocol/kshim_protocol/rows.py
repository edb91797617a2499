"""Arrays of structs that stay the bytes they travel as: who needs them by columns takes those, without an object each.

A row declared with `schema.rows` is read as `Rows` from requests where there are several structs and none has text of its
own, which is the rule, and as a tuple otherwise. Answers may hold `Rows` in its place: their bytes are sent as they are by the versions
in which structs look like that; in others they are built from the structs. So a part of an answer can be kept as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar, overload

from kshim_protocol.compiler_source import SIZES, text_size
from kshim_protocol.schema import Struct, row_is_in

S = TypeVar("S", bound=Struct)

WORTH_ROWS: Final = 4
"""Fewer structs are made at once: columns would cost more."""


class Layout(Generic[S]):
    """How a struct travels, in all versions in which it does so alike. `names` are its rows in wire order."""

    make_parser: ClassVar[Callable[[Layout[Any]], Callable[[bytes, int], tuple[Any, int]]]]
    """What reads the structs of a layout. Set by `codec`, which knows this module and not the other way round."""
    make_builder: ClassVar[Callable[[Layout[Any]], Callable[[Any], bytes]]]
    """What builds them, from there, too."""

    def __init__(self, cls: type[S], version: int, names: tuple[str, ...], *, is_flexible: bool) -> None:
        self.cls = cls
        self.version = version
        """One of these versions."""
        self.names = names
        self.is_flexible = is_flexible
        self._parse: Callable[[bytes, int], tuple[S, int]] | None = None
        self._build: Callable[[S], bytes] | None = None

    def parse(self, data: bytes, at: int) -> tuple[S, int]:
        """One struct and where the next one begins. Raises AssertionError for bytes that hold something else."""
        if self._parse is None:
            self._parse = Layout.make_parser(self)
        return self._parse(data, at)

    def build(self, struct: S) -> bytes:
        """The bytes of one struct. Raises BuildError."""
        if self._build is None:
            self._build = Layout.make_builder(self)
        return self._build(struct)

    def rows_of(self, structs: Sequence[S]) -> Rows[S]:
        """These structs as bytes. Raises BuildError."""
        return Rows(self, len(structs), b"".join(map(self.build, structs)))


_layouts: dict[tuple[object, ...], Layout[Any]] = {}


def layout_of(cls: type[S], version: int, *, is_flexible: bool) -> Layout[S]:
    """The layout of a struct in a version of the message it stands in: the same object for all that are alike."""
    shape = _shape_of(cls, version, is_flexible=is_flexible)
    found = _layouts.get(shape)
    if found is None:
        names = tuple(row.name for row in cls.info.rows if row_is_in(row, version))
        found = _layouts[shape] = Layout(cls, version, names, is_flexible=is_flexible)
    return found


def _shape_of(cls: type[Struct], version: int, *, is_flexible: bool) -> tuple[object, ...]:
    """What makes the bytes of a struct differ between versions, with that of the structs in it."""
    rows = [row for row in cls.info.rows if row_is_in(row, version)]
    inner = [row.element for row in rows if isinstance(row.element, type) and issubclass(row.element, Struct)]
    return (
        cls,
        is_flexible,
        tuple((row.name, row.nullable[0] <= version <= row.nullable[1]) for row in rows),
        tuple(_shape_of(each, version, is_flexible=is_flexible) for each in inner),
    )


def build_text(text: str) -> bytes:
    """A text as flexible versions have it. Raises ValueError for one that is longer than Java allows, or no Unicode."""
    data = text.encode()
    size_bytes = len(data)
    return (SIZES[size_bytes] if size_bytes < len(SIZES) else text_size(size_bytes)) + data


class Rows(Sequence[S]):
    """Structs, one behind the other in `data`. They are made when one is looked at."""

    __slots__ = ("_made", "data", "layout", "length")

    def __init__(self, layout: Layout[S], count: int, data: bytes) -> None:
        self.layout = layout
        self.length = count
        self.data = data
        self._made: tuple[S, ...] | None = None

    def structs(self) -> tuple[S, ...]:
        """All of them."""
        if self._made is None:
            made, at, parse = [], 0, self.layout.parse
            for _ in range(self.length):
                one, at = parse(self.data, at)
                made.append(one)
            self._made = tuple(made)
        return self._made

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> S: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[S, ...]: ...
    def __getitem__(self, index: int | slice) -> S | tuple[S, ...]:
        return self.structs()[index]

    def __iter__(self) -> Iterator[S]:
        return iter(self.structs())

    def __eq__(self, other: object) -> bool:
        return self.structs() == (other.structs() if isinstance(other, Rows) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.structs())

    def __reduce__(self) -> tuple[type, tuple[tuple[S, ...]]]:
        return tuple, (self.structs(),)
