"""The schema as `docs/design/events.md` states it, and what an event has that does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PAGE = (Path(__file__).resolve().parents[2] / "docs/design/events.md").read_text()


class Field(NamedTuple):
    """One row: the type's name, and whether null may stand there."""

    type: str
    is_nullable: bool


def rows(header: str) -> Iterator[list[str]]:
    """The cells of every table with this header."""
    for table in PAGE.split(header)[1:]:
        for line in table.splitlines()[2:]:
            if not line.startswith("|"):
                break
            yield [cell.strip() for cell in line.strip("|").split("|")]


def fields() -> dict[str, dict[str, Field]]:
    """The fields of each type; those of an event itself under the empty name."""
    found: dict[str, dict[str, Field]] = {}
    for name, type_, _, null, _ in rows("| Field | Type | Unit | Null | Meaning |"):
        owner, _, own_name = name.strip("`").rpartition(".")
        assert null in ("yes", "no"), name
        found.setdefault(owner, {})[own_name] = Field(type_, null == "yes")
    return found


FIELDS = fields()
TYPES = [cells[0].strip("`") for cells in rows("| `type` | When | `reason` |")]
KEYWORDS = [word for cells in rows("| Keyword | Meaning |") for word in re.findall(r"`(\w+)`", cells[0])]
PLAIN = {"int": int, "long": int, "string": str, "bool": bool}


def problems(event: dict[str, Any]) -> list[str]:
    """What does not fit the page, a sentence each."""
    found = list(misfits(event, "", "event"))
    if event.get("type") not in TYPES:
        found.append(f"the type {event.get('type')} is not on the page")
    ending = event.get("ended_by") or {}
    words = [event.get("reason"), ending.get("reason")] + [kick["reason"] for kick in event.get("kicked") or ()]
    found += [f"the keyword {word} is not on the page" for word in words if word is not None and word not in KEYWORDS]
    return found


def misfits(value: dict[str, Any], owner: str, where: str) -> Iterator[str]:
    if list(value) != list(FIELDS[owner]):
        yield f"{where} has the fields {list(value)}"
        return
    for name, field in FIELDS[owner].items():
        yield from misfit(value[name], field, f"{where}.{name}")


def misfit(value: Any, field: Field, where: str) -> Iterator[str]:
    if value is None:
        if not field.is_nullable:
            yield f"{where} is null"
        return
    if field.type in PLAIN:
        if type(value) is not PLAIN[field.type]:
            yield f"{where} is {value!r}, not {field.type}"
        elif isinstance(value, int) and field.type == "int" and not -(1 << 31) <= value < 1 << 31:
            yield f"{where} is {value}, beyond an int"
        return
    owner = field.type.removeprefix("array of ")
    if owner == field.type:
        yield from misfits(value, owner, where)
        return
    for index, entry in enumerate(value):
        yield from misfit(entry, Field(owner, is_nullable=False), f"{where}[{index}]")
