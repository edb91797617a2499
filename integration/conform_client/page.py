"""docs/clients-judged.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_LINE = 180
_WORDS = {"passed": "pass", "failed": "**fail**", "skipped": "n/a"}
_HEAD = """# Clients, judged

What a plain consumer of each client library does when its coordinator fails: the verdicts of [`kshim conform-client`](testing/conform-client.md). Written by `python -m integration.conform_client.run --page docs/clients-judged.md`.

The programs are `integration/clients/*/consumer.*`: the loop of each library's documentation with automatic commits every 500 ms, everything else at the library's defaults. What the library throws ends them; librdkafka's errors do so if they are fatal. Where a program may also end with an error, `pass (exit)` says that it did; a supervisor would start it again.

`pass`, `**fail**` (what was seen stands below), `n/a` (why stands below).
"""


class Judged(NamedTuple):
    """One client, and the behaviours of its report as JSON."""

    client: str
    version: str
    behaviours: Sequence[dict[str, Any]]

    @property
    def summary(self) -> str:
        """A line."""
        counts = Counter(each["verdict"] for each in self.behaviours)
        failed = [each["name"] for each in self.behaviours if each["verdict"] == "failed"]
        return (
            f"{self.client} {self.version}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} n/a"
            f"{'; failed: ' if failed else ''}{', '.join(failed)}"
        )

    def find(self, name: str) -> dict[str, Any] | None:
        """The behaviour of this name."""
        return next((each for each in self.behaviours if each["name"] == name), None)


def markdown(judged: Sequence[Judged], reasons: Mapping[str, Mapping[str, str]]) -> str:
    """The page; `reasons` says why, by client and behaviour."""
    return "\n".join([_HEAD, *_table(judged), *_failures(judged, reasons), *_not_applicable(judged)]) + "\n"


def _table(judged: Sequence[Judged]) -> Iterator[str]:
    yield "| Behaviour | " + " | ".join(f"{each.client} {each.version}" for each in judged) + " |"
    yield "|--" * (len(judged) + 1) + "|"
    longest = max(judged, key=lambda each: len(each.behaviours))
    for behaviour in longest.behaviours:
        cells = (_cell(each.find(behaviour["name"])) for each in judged)
        yield f"| {behaviour['title']} (`{behaviour['name']}`) | " + " | ".join(cells) + " |"
    counts = (Counter(found["verdict"] for found in each.behaviours) for each in judged)
    yield (
        "| passed, failed, not applicable | "
        + " | ".join(f"{count['passed']}, {count['failed']}, {count['skipped']}" for count in counts)
        + " |"
    )


def _cell(behaviour: dict[str, Any] | None) -> str:
    if behaviour is None:
        return ""
    has_ended = behaviour.get("how", "").startswith("it ended")
    return _WORDS[behaviour["verdict"]] + (" (exit)" if behaviour["verdict"] == "passed" and has_ended else "")


def _failures(judged: Sequence[Judged], reasons: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for each in judged:
        failed = [behaviour for behaviour in each.behaviours if behaviour["verdict"] == "failed"]
        if failed:
            yield f"\n## {each.client} {each.version}\n"
        for behaviour in failed:
            yield f"**{behaviour['title']}** (`{behaviour['name']}`; {behaviour['source']})\n"
            if why := reasons[each.client].get(behaviour["name"]):
                yield f"{why[0].upper()}{why[1:]}.\n"
            yield from (f"- expected: {one['expected']}; seen: {one['seen']}" for one in behaviour["failures"])
            yield "\n```text"
            yield from map(_shown, behaviour["dialogue"])
            yield "```\n"


def _shown(line: str) -> str:
    """A line without the folders of the machine, and not too long."""
    line = re.sub(r'"?/\S*/(site-packages/|(?=integration/))', "", line)
    return line if len(line) <= _LINE else f"{line[:_LINE]}..."


def _not_applicable(judged: Sequence[Judged]) -> Iterator[str]:
    found: dict[tuple[str, str], list[str]] = {}
    for each in judged:
        for behaviour in each.behaviours:
            if behaviour["verdict"] == "skipped":
                found.setdefault((each.client, behaviour["reason"]), []).append(behaviour["name"])
    if found:
        yield "\n## What does not apply\n"
        yield from (f"- {client}: {reason} (`{'`, `'.join(names)}`)" for (client, reason), names in found.items())
