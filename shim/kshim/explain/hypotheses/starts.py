"""Members that join an empty group, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kshim.explain.candidate import Candidate
from kshim.explain.causes import Cause
from kshim.explain.disturbances import Disturbance, What
from kshim.explain.facts import HEARTBEAT_MS, RETURN_MS, START_MS, Known
from kshim.explain.hypotheses.chains import IRREGULAR, member_id_of
from kshim.explain.hypotheses.others import EMPTY, is_foreign
from kshim.explain.hypotheses.subscriptions import is_passing_stranger
from kshim.explain.lives import Group
from kshim.explain.weigh import Evidence, Step


def starts(group: Group, found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    """Members joined an empty group, one after the other."""
    arrived = [each for each in found if each.what is What.ARRIVED]
    for chain in _arriving(group, arrived, known):
        first = chain[0]
        if first.life is None or group.before(first.life):
            continue
        # Another application is no part of it.
        lives = [each.life for each in chain if each.life is not None]
        chain = [
            each
            for each in chain
            if each.life is None
            or not (is_foreign(each.life, [lives[0]], known) or is_passing_stranger(group, each.life, lives[0], known))
        ]
        if len(chain) < 2:
            continue
        evidence = [Evidence(EMPTY, Step.MUST)]
        evidence += [Evidence(f"{each.name} joined after it", Step.LIKELY) for each in chain[1:]]
        yield Candidate(Cause.ONE_BY_ONE_START, tuple(chain), tuple(evidence), prior=-0.5)


def _arriving(group: Group, arrived: Sequence[Disturbance], known: Known) -> Iterator[list[Disturbance]]:
    """Arrivals in parts of which each may be of one start.

    What is started at once is there within a session timeout, or, where that is short, as soon as the slowest of the
    processes. Nobody can arrive while the broker is stopped.
    """
    part: list[Disturbance] = []
    for each in sorted(arrived, key=lambda each: each.from_ms):
        pause_ms = group.up_ms(part[-1].from_ms, each.from_ms) if part else 0
        is_over = len(part) > 1 and group.rested_until_a_stop(part[0].from_ms, part[-1].from_ms, each.from_ms)
        if pause_ms > max(known.session_ms(member_id_of(each)), START_MS) or is_over:
            yield from _alike(group, part)
            part = []
        part.append(each)
    yield from _alike(group, part)


def _alike(group: Group, part: list[Disturbance]) -> Iterator[list[Disturbance]]:
    """Once several are there, the pauses between them tell how long another one may take, unless all that follow take as long."""
    pauses_ms = [group.up_ms(before.from_ms, each.from_ms) for before, each in pairwise(part)]
    for number in range(2, len(part)):
        pause_ms, later_ms = pauses_ms[number - 1], pauses_ms[number:]
        longest_ms = max(pauses_ms[: number - 1])
        # Where one process was started after the other, the next is no addition because it takes a little longer.
        is_late = pause_ms > max(IRREGULAR * longest_ms, RETURN_MS if longest_ms >= HEARTBEAT_MS else START_MS)
        is_slow_on = bool(later_ms) and min(later_ms) > pause_ms / IRREGULAR
        if is_late and not is_slow_on:
            yield part[:number]
            yield part[number:]
            return
    if part:
        yield part
