"""One declaration a message for all its versions: a dataclass whose rows say how they travel.

    @message(api_key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest(Request["HeartbeatResponse"]):
        group_id: str = string("0+")
        generation_id: int = int32("0+")

Rows stand in wire order. `codec.codec(HeartbeatRequest, 4)` parses and builds one version. The classes are keyword-only,
slotted and comparable dataclasses: frozen for the type checker, not at run time (freezing triples the cost of making
one). Field names are those of Kafka's JSON schemas in snake_case.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kshim_protocol.errors import ErrorCode


T = TypeVar("T")
S = TypeVar("S", bound="Struct")
R_co = TypeVar("R_co", covariant=True)

MISSING: Any = object()
LAST_VERSION = 32767
ZERO_UUID = bytes(16)
FIXED_TYPES = frozenset({"int8", "int16", "int32", "int64", "uint16", "boolean", "float64", "uuid"})

Range = tuple[int, int]


def version_range(text: str) -> Range:
    """`"3+"` -> (3, 32767), `"2-5"` -> (2, 5), `"7"` -> (7, 7), `"none"` -> (0, -1)."""
    if text == "none":
        return (0, -1)
    if text.endswith("+"):
        return (int(text[:-1]), LAST_VERSION)
    first, dash, last = text.partition("-")
    return (int(first), int(last if dash else first))


class Row:
    """How one field travels. Made by the row functions, named by the decorator.

    `element` is the element of an array: a Struct class or a type name. `nullable`, `versions` are version ranges.
    `tag` is the number of a tagged row, None for one in fixed position. `flexible=False`: never compact. `keeps_bytes`: see
    `rows`.
    """

    __slots__ = (
        "default",
        "element",
        "flexible",
        "ignorable",
        "keeps_bytes",
        "name",
        "nullable",
        "tag",
        "type",
        "versions",
    )

    def __init__(
        self,
        type_: str,
        versions: str,
        *,
        element: Any = None,
        nullable: str | None = None,
        default: Any = MISSING,
        ignorable: bool = False,
        tag: int | None = None,
        flexible: bool = True,
        keeps_bytes: bool = False,
    ) -> None:
        self.name = ""
        self.type = type_
        self.element = element
        self.versions = version_range(versions)
        self.nullable = version_range(nullable or "none")
        self.default = default
        self.ignorable = ignorable
        self.tag = tag
        self.flexible = flexible
        self.keeps_bytes = keeps_bytes

    def __repr__(self) -> str:
        return f"<row {self.name}: {self.type} {self.versions[0]}-{self.versions[1]}>"


def row_is_in(row: Row, version: int) -> bool:
    """Whether `row` travels in `version`."""
    return row.versions[0] <= version <= row.versions[1]


class MessageInfo:
    """What the decorator knows of a class: `rows` in wire order, version range, first flexible version, api key."""

    def __init__(
        self, name: str, rows: tuple[Row, ...], api_key: int | None, versions: Range | None, flexible: Range
    ) -> None:
        self.name = name
        self.rows = rows
        self.api_key = api_key
        self.versions = versions
        self.flexible = flexible
        self.codecs: dict[int, Any] = {}  # by version: see `codec.codec`


class Struct:
    """Base of every declared class. `unknown_tagged_fields` keeps (tag, bytes) of tags this side does not know."""

    __slots__ = ("unknown_tagged_fields",)

    info: ClassVar[MessageInfo]
    unknown_tagged_fields: tuple[tuple[int, bytes], ...]

    def __init__(self, **values: Any) -> None:
        # Replaced by generated code at the first call: most classes are never made by hand.
        cls = type(self)
        cls.__init__ = _make_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if other is self:  # the usual case of a tagged field: its default
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self.unknown_tagged_fields == other.unknown_tagged_fields and all(
            getattr(self, row.name) == getattr(other, row.name) for row in self.info.rows
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{row.name}={getattr(self, row.name)!r}" for row in self.info.rows)
        if self.unknown_tagged_fields:
            fields += f", unknown_tagged_fields={self.unknown_tagged_fields!r}"
        return f"{type(self).__name__}({fields})"

    def __getstate__(self) -> dict[str, Any]:
        names = (*(row.name for row in self.info.rows), "unknown_tagged_fields")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


class Request(Struct, Generic[R_co]):
    """Base of requests; `R_co` is the response class."""

    __slots__ = ()

    @abstractmethod
    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> R_co:
        """The response that carries `error` for the whole request, as Kafka answers it in `version`.

        Responses without a top-level error repeat it on everything the request named (partitions, topics, groups,
        members). `message` travels where the response has room for a text.
        Kafka: `getErrorResponse` of each request class.
        """


def has_records(cls: type[Struct]) -> bool:
    """Whether record batches are anywhere in a struct, which makes it large."""
    return any(
        row.type == "records" or (isinstance(row.element, type) and has_records(row.element)) for row in cls.info.rows
    )


def _make_init(cls: type[Struct]) -> Callable[..., None]:
    """Generate `__init__(self, *, row=default, ..., unknown_tagged_fields=())`."""
    scope: dict[str, Any] = {}
    parameters, body = [], []
    for row in cls.info.rows:
        if row.default is MISSING:
            parameters.append(row.name)
        else:
            scope[f"default_{row.name}"] = row.default
            parameters.append(f"{row.name}=default_{row.name}")
        body.append(f"    self.{row.name} = {row.name}")
    parameters.append("unknown_tagged_fields=()")
    body.append("    self.unknown_tagged_fields = unknown_tagged_fields")
    source = f"def __init__(self, *, {', '.join(parameters)}):\n" + "\n".join(body)
    exec(compile(source, f"<kshim_protocol {cls.__name__}.__init__>", "exec"), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _declare(cls: type[S], api_key: int | None, versions: Range | None, flexible: Range) -> type[S]:
    rows = []
    for name in cls.__annotations__:
        row = cls.__dict__.get(name)
        if not isinstance(row, Row):
            raise TypeError(f"{cls.__name__}.{name} is no row")
        row.name = name
        rows.append(row)
    namespace = {
        key: value
        for key, value in cls.__dict__.items()
        if key not in cls.__annotations__ and key not in ("__dict__", "__weakref__")
    }
    namespace["__slots__"] = tuple(row.name for row in rows)
    namespace["__match_args__"] = ()
    declared: type[S] = type(cls.__name__, cls.__bases__, namespace)
    declared.info = MessageInfo(cls.__name__, tuple(rows), api_key, versions, flexible)
    # The dataclass surface (fields, replace, asdict) without the cost of its generated methods.
    declared.__dataclass_fields__ = _LazyFields(declared)  # type: ignore[attr-defined]
    return declared


class _LazyFields(dict[str, Any]):
    """`__dataclass_fields__`, filled on first use."""

    __slots__ = ("cls",)

    def __init__(self, cls: type[Struct]) -> None:
        self.cls = cls

    def _fill(self) -> None:
        if super().__len__() == 0:
            import dataclasses

            names = [(row.name, Any, dataclasses.field(kw_only=True)) for row in self.cls.info.rows]
            names.append(("unknown_tagged_fields", Any, dataclasses.field(default=(), kw_only=True)))
            made = dataclasses.make_dataclass(self.cls.__name__, names, init=False, repr=False, eq=False)
            super().update(made.__dataclass_fields__)  # type: ignore[attr-defined]

    def values(self) -> Any:
        self._fill()
        return super().values()

    def items(self) -> Any:
        self._fill()
        return super().items()


@overload
def string(versions: str, *, nullable: str, default: str | None = ..., ignorable: bool = ..., tag: int | None = ..., flexible: bool = ...) -> str | None: ...  # fmt: skip
@overload
def string(versions: str, *, default: str = ..., ignorable: bool = ..., tag: int | None = ..., flexible: bool = ...) -> str: ...  # fmt: skip
def string(versions: str, **options: Any) -> Any:
    """UTF-8 text: int16 length, or compact in flexible versions."""
    return Row("string", versions, **options)


@overload
def bytes_(versions: str, *, nullable: str, default: bytes | None = ..., ignorable: bool = ..., tag: int | None = ...) -> bytes | None: ...  # fmt: skip
@overload
def bytes_(versions: str, *, default: bytes = ..., ignorable: bool = ..., tag: int | None = ...) -> bytes: ...
def bytes_(versions: str, **options: Any) -> Any:
    """Opaque bytes: int32 length, or compact in flexible versions."""
    return Row("bytes", versions, **options)


@overload
def records(versions: str, *, nullable: str, default: bytes | None = ..., ignorable: bool = ..., tag: int | None = ...) -> bytes | None: ...  # fmt: skip
@overload
def records(versions: str, *, default: bytes = ..., ignorable: bool = ..., tag: int | None = ...) -> bytes: ...
def records(versions: str, **options: Any) -> Any:
    """Record batches, untouched: travels as `bytes_`."""
    return Row("records", versions, **options)


def int8(versions: str, *, default: int = MISSING, ignorable: bool = False, tag: int | None = None) -> int:
    """Signed, 1 byte."""
    return _fixed("int8", versions, default, ignorable, tag)


def int16(versions: str, *, default: int = MISSING, ignorable: bool = False, tag: int | None = None) -> int:
    """Signed, 2 bytes, big-endian."""
    return _fixed("int16", versions, default, ignorable, tag)


def uint16(versions: str, *, default: int = MISSING, ignorable: bool = False, tag: int | None = None) -> int:
    """Unsigned, 2 bytes, big-endian."""
    return _fixed("uint16", versions, default, ignorable, tag)


def int32(versions: str, *, default: int = MISSING, ignorable: bool = False, tag: int | None = None) -> int:
    """Signed, 4 bytes, big-endian."""
    return _fixed("int32", versions, default, ignorable, tag)


def int64(versions: str, *, default: int = MISSING, ignorable: bool = False, tag: int | None = None) -> int:
    """Signed, 8 bytes, big-endian."""
    return _fixed("int64", versions, default, ignorable, tag)


def float64(versions: str, *, default: float = MISSING, ignorable: bool = False, tag: int | None = None) -> float:
    """IEEE double, big-endian."""
    return _fixed("float64", versions, default, ignorable, tag)


def boolean(versions: str, *, default: bool = MISSING, ignorable: bool = False, tag: int | None = None) -> bool:
    """One byte, zero is false."""
    return _fixed("boolean", versions, default, ignorable, tag)


def uuid(versions: str, *, default: bytes = MISSING, ignorable: bool = False, tag: int | None = None) -> bytes:
    """16 bytes; all zero means none."""
    return _fixed("uuid", versions, default, ignorable, tag)


def _fixed(type_: str, versions: str, default: T, ignorable: bool, tag: int | None) -> T:
    return Row(type_, versions, default=default, ignorable=ignorable, tag=tag)  # type: ignore[return-value]


@overload
def array(element: type[S], versions: str, *, nullable: str, default: tuple[S, ...] | None = ..., ignorable: bool = ..., tag: int | None = ...) -> tuple[S, ...] | None: ...  # fmt: skip
@overload
def array(element: type[S], versions: str, *, default: tuple[S, ...] = ..., ignorable: bool = ..., tag: int | None = ...) -> tuple[S, ...]: ...  # fmt: skip
@overload
def array(element: Literal["int8", "int16", "int32", "int64"], versions: str, *, nullable: str, default: tuple[int, ...] | None = ..., ignorable: bool = ..., tag: int | None = ...) -> tuple[int, ...] | None: ...  # fmt: skip
@overload
def array(element: Literal["int8", "int16", "int32", "int64"], versions: str, *, default: tuple[int, ...] = ..., ignorable: bool = ..., tag: int | None = ...) -> tuple[int, ...]: ...  # fmt: skip
@overload
def array(element: Literal["string"], versions: str, *, nullable: str, default: tuple[str, ...] | None = ..., ignorable: bool = ..., tag: int | None = ...) -> tuple[str, ...] | None: ...  # fmt: skip
@overload
def array(element: Literal["string"], versions: str, *, default: tuple[str, ...] = ..., ignorable: bool = ..., tag: int | None = ...) -> tuple[str, ...]: ...  # fmt: skip
@overload
def array(element: Literal["uuid", "bytes"], versions: str, *, nullable: str, default: tuple[bytes, ...] | None = ..., ignorable: bool = ..., tag: int | None = ...) -> tuple[bytes, ...] | None: ...  # fmt: skip
@overload
def array(element: Literal["uuid", "bytes"], versions: str, *, default: tuple[bytes, ...] = ..., ignorable: bool = ..., tag: int | None = ...) -> tuple[bytes, ...]: ...  # fmt: skip
def array(element: Any, versions: str, **options: Any) -> Any:
    """A tuple of structs or primitives: int32 count, or compact in flexible versions."""
    return Row("array", versions, element=element, **options)


def rows(element: type[S], versions: str, *, default: Sequence[S] = MISSING) -> Sequence[S]:
    """An array of structs, which may stay the bytes it travels as: see `rows.Rows`. In requests they hold no arrays and structs."""
    return Row("array", versions, element=element, default=default, keeps_bytes=True)  # type: ignore[return-value]


@overload
def struct_(element: type[S], versions: str, *, nullable: str, default: S | None = ..., ignorable: bool = ..., tag: int | None = ...) -> S | None: ...  # fmt: skip
@overload
def struct_(element: type[S], versions: str, *, default: S = ..., ignorable: bool = ..., tag: int | None = ...) -> S: ...  # fmt: skip
def struct_(element: Any, versions: str, **options: Any) -> Any:
    """One nested struct; a nullable one is preceded by a presence byte (an unsigned varint inside a tagged row)."""
    return Row("struct", versions, element=element, **options)


# fmt: off
@dataclass_transform(
    kw_only_default=True, frozen_default=True,
    field_specifiers=(
        string, bytes_, records, int8, int16, uint16, int32, int64, float64, boolean, uuid, array, rows, struct_,
    ),
)
def struct(cls: type[T]) -> type[T]:
    """Declare a part of messages. Its rows follow the version and the flexibility of the message it stands in."""
    return _declare(_with_base(cls), None, None, (0, -1))


@dataclass_transform(
    kw_only_default=True, frozen_default=True,
    field_specifiers=(
        string, bytes_, records, int8, int16, uint16, int32, int64, float64, boolean, uuid, array, rows, struct_,
    ),
)
def message(*, versions: str, flexible: str, api_key: int | None = None) -> Callable[[type[T]], type[T]]:
    """Declare a message with its valid versions (`"0-9"`) and its flexible ones (`"6+"` or `"none"`)."""

    def declare(cls: type[T]) -> type[T]:
        return _declare(_with_base(cls), api_key, version_range(versions), version_range(flexible))

    return declare

# fmt: on


def _with_base(cls: type[Any]) -> type[Any]:
    if not issubclass(cls, Struct):
        raise TypeError(f"{cls.__name__} must derive from Struct or Request")
    return cls
