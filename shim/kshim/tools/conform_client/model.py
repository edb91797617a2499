"""What a behaviour is: the data of `behaviours/*.toml`, read and checked.

`errors` makes one behaviour of each error code: `{error}` stands for it, `{error-name}` for its form in names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

Moment = Literal["starting", "consuming"]
Ending = Literal["recovers", "recovers or exits", "exits"]
Identity = Literal["", "given", "same", "new"]
Check = Literal["starts where committed", "waits for the answer", "does not join again"]

_ENDINGS: Final[Mapping[Ending, str]] = {
    "recovers": "commits records of every partition that come after it is over, within {within}",
    "recovers or exits": "ends with an exit code that is not 0, or commits records of every partition that come after it is "
    "over, within {within}",
    "exits": "ends with an exit code that is not 0, within {within}",
}
REJOINS: Final[Mapping[Identity, str]] = {
    "given": "joins with the member id that it was given",
    "same": "joins again with its member id",
    "new": "joins again without a member id",
}
_DIRECTORY = Path(__file__).with_name("behaviours")


class BehaviourError(Exception):
    """A file of behaviours is wrong; `str(error)` says which behaviour and why."""


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """One thing that goes wrong, when, and what a program is expected to do then."""

    name: str
    suite: str
    title: str
    source: str
    """Where Kafka says so: a KIP, or a class and method of its client."""
    moment: Moment = "consuming"
    fault: Mapping[str, Any] | None = None
    """A rule of `kshim.faults`."""
    act: str = ""
    """Instead of a fault: something done to the brokers or the group; see `acts.py`."""
    for_s: float = 0.0
    """How long it lasts, from the first request that it meets."""
    needs: str = ""
    """The API of that request; a program that never sends it is not judged."""
    min_version: int = 0
    """A program that speaks it in older versions only is not judged."""
    error: str = ""
    """What that request is answered; needed where brokers give the answer themselves."""
    ends: Ending = "recovers"
    within_s: float = 20.0
    asks: str = ""
    """The API of the request that must follow."""
    rejoins: Identity = ""
    """The member id of the next JoinGroup: that which it was given, the same as before, or none."""
    pauses_s: float = 0.0
    """No request on a connection for so long, once it was told to wait."""
    checks: tuple[Check, ...] = ()
    brokers: int = 1
    config: Mapping[str, str] | None = None
    is_static: bool = False
    """The program is told to be a static member; judged only if it is one."""

    @property
    def expectation(self) -> str:
        """What a program must do, as the brokers see it, in a sentence."""
        parts = [_ENDINGS[self.ends].format(within=f"{self.within_s:g} s")]
        if self.asks:
            parts.append(f"sends {self.asks} after it")
        if self.rejoins:
            parts.append(REJOINS[self.rejoins])
        if self.pauses_s:
            parts.append(f"sends nothing on the connection for {self.pauses_s:g} s")
        if "starts where committed" in self.checks:
            parts.append("begins at the committed offsets")
        if "waits for the answer" in self.checks:
            parts.append("does not ask again before it is answered")
        if "does not join again" in self.checks:
            parts.append("does not join again")
        return f"Expected: {'; '.join(parts)}."


def load_behaviours() -> list[Behaviour]:
    """All of them, in the order of their suites and files. Raises BehaviourError."""
    found: list[Behaviour] = []
    for file in sorted(_DIRECTORY.glob("*.toml")):
        found += parse_behaviours(file.stem.split("_", 1)[1], file.read_text(encoding="utf-8"))
    return found


def parse_behaviours(suite: str, text: str) -> list[Behaviour]:
    """The behaviours of one file. Raises BehaviourError."""
    try:
        tables = tomllib.loads(text).get("behaviour", [])
    except tomllib.TOMLDecodeError as error:
        raise BehaviourError(f"{suite}: {error}") from None
    return [_behaviour(suite, row) for table in tables for row in _rows(table)]


def _rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    """One row an error of `errors`, with `{error}` filled in; the row itself where there is none."""
    errors = table.pop("errors", None)
    return [table] if errors is None else [_filled(table, error) | {"error": error} for error in errors]


def _filled(value: Any, error: str) -> Any:
    if isinstance(value, str):
        return value.replace("{error}", error).replace("{error-name}", error.lower().replace("_", "-"))
    if isinstance(value, dict):
        return {key: _filled(part, error) for key, part in value.items()}
    return value


def _behaviour(suite: str, row: dict[str, Any]) -> Behaviour:
    name = f"{suite}: {row.get('name', 'a behaviour without a name')}"
    unknown = set(row) - {each.name for each in fields(Behaviour)}
    if unknown:
        raise BehaviourError(f"{name}: unknown keys {', '.join(sorted(unknown))}")
    if missing := {"name", "title", "source"} - set(row):
        raise BehaviourError(f"{name}: {', '.join(sorted(missing))} is missing")
    for key, choices in (("moment", Moment), ("ends", Ending), ("rejoins", Identity)):
        if row.get(key, get_args(choices)[0]) not in get_args(choices):
            raise BehaviourError(f"{name}: {key} is one of {', '.join(map(repr, get_args(choices)))}, not {row[key]!r}")
    if unknown := set(row.get("checks", ())) - set(get_args(Check)):
        raise BehaviourError(f"{name}: unknown checks {', '.join(sorted(unknown))}")
    if "fault" in row and "act" in row:
        raise BehaviourError(f"{name}: has both a fault and an act")
    api = row.get("fault", {}).get("on", "")
    return Behaviour(suite=suite, **{"needs": api, **row, "checks": tuple(row.get("checks", ()))})
