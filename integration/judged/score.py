"""How often `kshim why` is right about plays of an outside judge: `python -m integration.judged.score`.

The judge's own rules: a finding is of a truth of the same group if it overlaps it, or comes up to a minute later, with one of the causes
that were accepted before the play. Every truth counts, and every finding, also those of starts and of the end.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kshim.tools.why.run import run_why

PLAYS: Final = Path(__file__).parent / "plays"
SOURCES: Final = {"kshim-events": "kshim", "kshim-71": "kshim-71", "kafka-log": "kafka", "kafka-samples": "kafka"}
"""What was kept of a play, and on which broker that was."""

_BEFORE_MS, _AFTER_MS = 10_000, 60_000
_NO_INCIDENTS = ("formation", "end")
_OF_MANY = ("broker_restarted", "duplicate_holder_stopped")
"""What one finding may tell of more than once."""

Row = dict[str, Any]


class Score(NamedTuple):
    """Counts, and a line for each miss and each finding that is wrong."""

    truths: int
    causes: int
    asked: int
    """Truths whose culprits have to be named."""
    culprits: int
    findings: int
    right: int
    misses: tuple[str, ...]


def score(source: str) -> Score:
    """Of one of SOURCES."""
    text = (PLAYS / f"{SOURCES[source]}.jsonl").read_text(encoding="utf-8")
    truths = [json.loads(line) for line in text.splitlines()]
    since_ms = min(int(truth["from_ms"]) for truth in truths) - 1_000
    answer = io.StringIO()
    run_why(recorded=str(PLAYS / f"{source}.zip"), since_ms=since_ms, output="json", stream=answer)
    until_ms = max(int(truth["to_ms"]) for truth in truths) + _AFTER_MS
    said = [each for each in json.loads(answer.getvalue())["incidents"] if each["from_ms"] <= until_ms]
    return _compared(truths, said)


def _compared(truths: Sequence[Row], said: Sequence[Row]) -> Score:
    done = [truth for truth in truths if truth["kind"] not in _NO_INCIDENTS]
    pairs = sorted(
        (not _names(finding, truth), abs(finding["from_ms"] - truth["from_ms"]), place, number)
        for place, truth in enumerate(done)
        for number, finding in enumerate(said)
        if _fits(finding, truth)
    )
    found: dict[int, int] = {}
    for _, _, place, number in pairs:
        is_free = number not in found.values() or done[place]["kind"] in _OF_MANY
        if place not in found and is_free:
            found[place] = number
    asked = [place for place, truth in enumerate(done) if truth["ask_culprit"]]
    named = [place for place in asked if place in found and _names(said[found[place]], done[place])]
    wrong = [finding for finding in said if not any(_fits(finding, truth) for truth in truths)]
    misses = [f"missed: {_line(truth)}" for place, truth in enumerate(done) if place not in found]
    misses += [f"culprit: {_line(done[place])}" for place in asked if place in found and place not in named]
    misses += [f"wrong: {_line(finding)}" for finding in wrong]
    right = len(said) - len(wrong)
    return Score(len(done), len(found), len(asked), len(named), len(said), right, tuple(misses))


def _fits(finding: Row, truth: Row) -> bool:
    is_there = truth["group"] == "*" or truth["group"] in finding["groups"]
    is_then = finding["from_ms"] <= truth["to_ms"] + _AFTER_MS and finding["to_ms"] >= truth["from_ms"] - _BEFORE_MS
    return is_there and is_then and finding["cause"] in truth["accept"]


def _names(finding: Row, truth: Row) -> bool:
    """Whether it names the culprits, of a cut network all, and nobody else; a static member by its instance id or its client id."""
    names = {client.rsplit("@", 1)[0] for client in finding["clients"]}
    culprits = set(truth["culprits"])
    if not truth["ask_culprit"]:
        return True
    return names == culprits if truth["kind"] == "network_cut" else bool(names) and names <= culprits


def _line(row: Row) -> str:
    what, who = row.get("cause") or row["kind"], row.get("clients") or row["culprits"]
    return f"{what} {row.get('groups') or row['group']} {who} {row['from_ms']}..{row['to_ms']}"


def main() -> None:
    """Print the scores."""
    for source in SOURCES:
        found = score(source)
        print(
            f"{source}: causes {found.causes} of {found.truths}, culprits {found.culprits} of {found.asked}, "
            f"findings right {found.right} of {found.findings}"
        )
        for line in found.misses:
            print(f"  {line}")


if __name__ == "__main__":
    main()
