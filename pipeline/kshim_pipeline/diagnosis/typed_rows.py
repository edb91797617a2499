"""The values of `kshim.explain`, which are named tuples, as rows of Spark: columns are read from their annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_T = TypeVar("_T", bound=tuple[Any, ...])

_SCALARS: Final[Mapping[Any, DataType]] = {
    bool: BooleanType(),
    float: DoubleType(),
    int: LongType(),
    str: StringType(),
}


class _Column(NamedTuple):
    kind: DataType
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def schema_of(named_tuple: type) -> StructType:
    """The columns of a named tuple. Those that no row can hold are left out, and read as None."""
    kind = _of_named_tuple(named_tuple).kind
    assert isinstance(kind, StructType)
    return kind


def rows_of(values: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Named tuples as rows of their `schema_of`."""
    return [_of_named_tuple(type(value)).write(value) for value in values]


def values_of(named_tuple: type[_T], rows: Iterable[Mapping[str, Any]]) -> list[_T]:
    """Rows as named tuples. Columns that it does not have are ignored."""
    read = _of_named_tuple(named_tuple).read
    return [read(row) for row in rows]


@cache
def _of_named_tuple(kind: Any) -> _Column:
    columns = {name: column for name, hint in get_type_hints(kind).items() if (column := _column_of(hint)) is not None}

    def write(value: Any) -> dict[str, Any]:
        return {
            name: None if (part := getattr(value, name)) is None else column.write(part)
            for name, column in columns.items()
        }

    def read(row: Mapping[str, Any]) -> Any:
        found = {name: None if (part := row[name]) is None else column.read(part) for name, column in columns.items()}
        return kind(**{name: found.get(name) for name in kind._fields})

    return _Column(StructType([StructField(name, column.kind) for name, column in columns.items()]), write, read)


def _column_of(hint: Any) -> _Column | None:
    """None: no column can hold it."""
    parts = [part for part in get_args(hint) if part is not type(None)]
    if type(None) in get_args(hint):
        return _column_of(parts[0]) if len(parts) == 1 else None
    if hint in _SCALARS:
        return _Column(_SCALARS[hint], _same, _same)
    if get_origin(hint) is tuple and parts[-1] is Ellipsis:
        item = _column_of(parts[0])
        return None if item is None else _list_of(item)
    if get_origin(hint) is Mapping:
        key, value = map(_column_of, parts)
        return None if key is None or value is None else _mapping_of(key.kind, value.kind)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _Column(StringType(), _name, hint.__getitem__)
    return _of_named_tuple(hint) if hasattr(hint, "_fields") else None


def _list_of(item: _Column) -> _Column:
    return _Column(
        ArrayType(item.kind),
        lambda values: [item.write(value) for value in values],
        lambda values: tuple(item.read(value) for value in values),
    )


def _mapping_of(key: DataType, value: DataType) -> _Column:
    """A list of pairs: Spark compares lists, and no maps."""
    return _Column(
        ArrayType(StructType([StructField("key", key), StructField("value", value)])),
        lambda mapping: [{"key": each, "value": mapping[each]} for each in mapping],
        lambda pairs: {pair["key"]: pair["value"] for pair in pairs},
    )


def _same(value: Any) -> Any:
    return value


def _name(value: Enum) -> str:
    return value.name
