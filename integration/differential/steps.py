"""A step of a sequence: what to do, in names that mean the same on every broker.

Members are named `@a`: the id that the slot `a` of the group was given last; `@a'` is the one before. Steps are plain
data, so that a transcript can be kept, shortened and played again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


class Step:
    """`verb` is one of `requests.BUILDERS` or of the machine's own (close, wait, keep).

    `group` is a name such as "g1" and `slot` a member's place in it such as "a"; both may be "". `options` are plain
    JSON values.
    """

    __slots__ = ("group", "options", "slot", "verb")

    def __init__(self, verb: str, group: str = "", slot: str = "", **options: Any) -> None:
        self.verb = verb
        self.group = group
        self.slot = slot
        self.options = options

    def __str__(self) -> str:
        words = [self.verb]
        if self.slot:
            words.append(self.slot)
        if self.group and self.group != "g1":
            words.append(f"group={self.group}")
        words += [f"{key}={_text(value)}" for key, value in self.options.items() if key not in _HIDDEN]
        return " ".join(words)

    def to_json(self) -> list[Any]:
        """The step as a JSON value."""
        return [self.verb, self.group, self.slot, self.options]

    @classmethod
    def from_json(cls, value: list[Any]) -> Step:
        """The inverse of `to_json`."""
        verb, group, slot, options = value
        return cls(verb, group, slot, **options)


_HIDDEN = frozenset({"profile"})


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if value is True or value is False:
        return str(value).lower()
    if isinstance(value, list | tuple):
        if all(isinstance(item, list | tuple) for item in value) and value:
            return ",".join(":".join(_text(part) for part in item) for item in value)
        return ",".join(map(_text, value)) or "-"
    if value == "":
        return '""'
    return str(value)


def dump_steps(steps: Iterable[Step]) -> str:
    """One JSON value a line."""
    return "".join(json.dumps(step.to_json()) + "\n" for step in steps)


def load_steps(text: str) -> list[Step]:
    """The inverse of `dump_steps`."""
    return [Step.from_json(json.loads(line)) for line in text.splitlines() if line.strip()]


KEEPING: dict[str, dict[str, Any]] = {
    "heartbeat": {"v": 4},
    "commit": {"v": 9, "offsets": [["t", 0, 1, -1, ""]]},
    "fetch": {"v": 9},
}
"""What a member does while time passes, by kind: options of the request that keeps it alive, or must not."""
