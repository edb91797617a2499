"""From a sequence that shows a difference to a short one that still does."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

from integration.differential.allowed import Rule
from integration.differential.brokers import Pair
from integration.differential.sequence import Difference, Inconclusive, Sequence
from integration.differential.steps import Step

_names = itertools.count()
_AGREE_TIMEOUT_S = 1.0
_run_id = int(time.time()) % 1_000_000


def difference_of(pair: Pair, rules: list[Rule], steps: list[Step], *, tries: int) -> str | None:
    """The transcript up to the difference, or None when there is none in so many tries (leaders are arbitrary)."""
    for _ in range(tries):
        try:
            play_all(pair, f"s{_run_id}-{next(_names)}", rules, steps)
        except Difference as difference:
            return str(difference)
        except Inconclusive:
            pass
    return None


def shortest(
    pair: Pair, rules: list[Rule], steps: list[Step], *, tries: int = 2, limit_s: float = 180.0
) -> tuple[list[Step], str] | None:
    """Delete steps, long stretches first, while a difference remains and time is left. None: it did not show again."""
    over_at = time.monotonic() + limit_s
    found = difference_of(pair, rules, steps, tries=max(tries, 6))
    if found is None:
        return None
    size = max(1, len(steps) // 2)
    while True:
        at = 0
        has_shrunk = False
        while at < len(steps):
            if time.monotonic() > over_at:
                return steps, found
            fewer = steps[:at] + steps[at + size :]
            text = difference_of(pair, rules, fewer, tries=tries) if fewer else None
            if text is None:
                at += size
            else:
                steps, found, has_shrunk = fewer, text, True
        if size > 1:
            size = max(1, size // 2)
        elif not has_shrunk:
            return steps, found


def play_all(pair: Pair, prefix: str, rules: list[Rule], steps: Iterable[Step]) -> None:
    """Play steps that are there already, and finish. Raises Difference, Inconclusive."""
    sequence = Sequence(pair, prefix, rules, _AGREE_TIMEOUT_S)
    try:
        for step in steps:
            sequence.play(step)
        sequence.finish()
    finally:
        sequence.close()
