"""Answers for people: tables and lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

_CELL_MAX: Final = 60


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """Lines with the columns in upper case at the top; `-` for what is not there."""
    cells = [[column.upper() for column in columns]]
    cells += [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def lines(document: Mapping[str, Any], *, without: str | None = None) -> list[str]:
    """A line for each field."""
    return [f"{name}: {_value(value)}" for name, value in document.items() if name != without]


def _cell(value: Any) -> str:
    text = _value(value)
    return text if len(text) <= _CELL_MAX else f"{text[: _CELL_MAX - 3]}..."


def _value(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str():
            return value if value.isprintable() else json.dumps(value)
        case int() | float():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)
