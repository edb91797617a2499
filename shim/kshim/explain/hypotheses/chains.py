"""Disturbances that may be of one doing, by the time between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kshim.explain.disturbances import Disturbance
from kshim.explain.facts import RETURN_MS, Known

IRREGULAR = 3
"""So many times the usual pause, or the usual time that a thing takes, is not of the same doing."""


def chains(found: Sequence[Disturbance], known: Known) -> Iterator[list[Disturbance]]:
    """Parts in which each begins at most a rebalance timeout, or a minute, after the one before has ended.

    It is the longest time for which consumers agree to be kept waiting, so who changes all of a group one after the other
    rarely waits longer. Some clients have a short one without having been asked.
    """
    return _parts(found, lambda each: max(known.rebalance_ms(member_id_of(each)), RETURN_MS))


def within_reach(found: Sequence[Disturbance], known: Known) -> Iterator[list[Disturbance]]:
    """Parts between which there was nothing for longer than any hypothesis about a group looks ahead."""
    reach_ms = max(map(known.return_ms, (None, *known.profiles)))
    return _parts(found, lambda _: reach_ms)


def _parts(found: Sequence[Disturbance], most_ms: Callable[[Disturbance], int]) -> Iterator[list[Disturbance]]:
    """Without longer pauses than `most_ms` says of the disturbance after each."""
    part: list[Disturbance] = []
    end_ms = 0
    for each in sorted(found, key=lambda each: each.from_ms):
        if part and each.from_ms - end_ms > most_ms(each):
            yield part
            part = []
        part.append(each)
        end_ms = max(end_ms, each.to_ms)
    if part:
        yield part


def member_id_of(each: Disturbance) -> str | None:
    """Whom a disturbance is about."""
    return each.member.member_id if each.member is not None else None
