"""The table of docs/testing/faults.md that says what clients make of faults: `python -m tests.docs.faults_page --write`."""

from __future__ import annotations

import sys

from integration.faults.outcomes import CK, DO, KP, OUTCOMES, Effect, Outcome
from tests.docs.blocks import DOCS

PAGE = DOCS / "testing" / "faults.md"
_START = "<!-- written by: python -m tests.docs.faults_page --write -->\n"
_END = "<!-- end -->\n"


def written() -> str:
    """The page with its table as it should be."""
    before, _, rest = PAGE.read_text().partition(_START)
    _, _, after = rest.partition(_END)
    lines = ["| Fault of OffsetCommit | kafka-python | confluent-kafka |", "|---|---|---|"]
    for name, do in DO.items():
        lines.append(f"| `{_action(do)}` | {_told(OUTCOMES[name][KP])} | {_told(OUTCOMES[name][CK])} |")
    return before + _START + "\n".join(lines) + "\n" + _END + after


def _action(do: object) -> str:
    if isinstance(do, dict):
        return ", ".join(f"{key} = {_toml(value)}" for key, value in do.items())
    return str(do)


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _told(outcome: Outcome) -> str:
    match outcome.effect:
        case Effect.RAISED:
            return f"raises {outcome.error}"
        case Effect.RETRIED:
            return f"{outcome.effect.value} ({outcome.error})"
        case Effect.NOT_NOTICED:
            return str(outcome.effect.value)


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(written())
    elif PAGE.read_text() != written():
        sys.exit(f"{PAGE} is out of date: python -m tests.docs.faults_page --write")
