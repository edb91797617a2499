"""One client that is gone again and again: it crashes, it comes and goes, or two processes have one instance id."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median_high, median_low

from kshim.explain.candidate import Candidate
from kshim.explain.causes import Cause
from kshim.explain.disturbances import Disturbance, What
from kshim.explain.facts import RETURN_MS, START_MS, UNSEEN, Kind, Known
from kshim.explain.hypotheses.chains import IRREGULAR, chains, member_id_of
from kshim.explain.hypotheses.departures import evidence_for
from kshim.explain.life import Life
from kshim.explain.lives import Group
from kshim.explain.weigh import Evidence, Step, weight

_SHORT_MS = 2 * START_MS
"""Twice to end so soon after a start is hardly chance."""
_SHORT_TO_CLOSE_MS = 45_000
"""The same of processes that close: nobody restarts one by hand twice within a minute."""

_PRIORS = {Cause.CRASH_LOOP: -3.5, Cause.FLAPPING: -4.0}
"""Of one that repeats itself, against several that happen by chance: what crashes is started again by a supervisor, what closes rather by somebody."""


def loops(group: Group, found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    """One client was gone again and again."""
    of_clients: dict[int, list[Disturbance]] = {}
    for each in found:
        if each.what in (What.DEPARTED, What.REPLACED) and each.life is not None:
            of_clients.setdefault(id(each.life.first), []).append(each)
    around = _Around(group, found)
    for mine in of_clients.values():
        for chain in chains(mine, known):
            for part in _alike(chain, around):
                if len(part) >= 2:
                    yield from _loop(part, around, known)


class _Around:
    """All that happened to a group, to look up what lies near in time."""

    def __init__(self, group: Group, found: Sequence[Disturbance]) -> None:
        self._group = group
        self._arrived = sorted((each for each in found if each.what is What.ARRIVED), key=lambda each: each.from_ms)
        self._arrived_ms = [each.from_ms for each in self._arrived]
        self._of_life = {id(each.life): each for each in reversed(self._arrived)}
        self._ended: dict[tuple[What, Kind], list[Disturbance]] = {}
        for each in sorted(found, key=lambda each: each.fact.ts_ms):
            if each.what is What.REPLACED or each.fact.kind is Kind.LEFT:
                self._ended.setdefault((each.what, each.fact.kind), []).append(each)
        self._ended_ms = {kind: [each.fact.ts_ms for each in mine] for kind, mine in self._ended.items()}

    def arrival_alone(self, life: Life | None) -> Disturbance | None:
        """When it was there for the first time, unless others came with it: those were started with it."""
        first = self._of_life.get(id(life))
        if first is None:
            return None
        begin = bisect_left(self._arrived_ms, first.from_ms - START_MS)
        end = bisect_right(self._arrived_ms, first.from_ms + START_MS)
        return first if end - begin == 1 else None

    def lived_ms(self, each: Disturbance) -> int | None:
        """For how long a process was there at least, without the rebalance for which a dynamic member has to wait first; None: it is not known since when."""
        if each.life is None or each.life.began_ms <= 0:
            return None
        began_ms = each.life.began_ms
        if each.life.member.instance_id is None:
            began_ms = max(began_ms, self._group.settled_ms(began_ms) or 0)
        silent_ms = each.from_ms if each.life.stopped_ms is None else each.life.stopped_since_ms
        return max(silent_ms - began_ms, 0)

    def ended_at_once(self, each: Disturbance, most_ms: int = _SHORT_MS) -> bool:
        """Whether a process ended within seconds of its start."""
        lived_ms = self.lived_ms(each)
        return lived_ms is not None and lived_ms <= most_ms

    def was_in_turn(self, before: Disturbance, each: Disturbance) -> bool:
        """Whether another process was replaced, or left, between two replacements of a static member or two departures, as in deploys."""
        kind = (each.what, each.fact.kind)
        if kind not in self._ended:
            return False
        begin = bisect_right(self._ended_ms[kind], before.fact.ts_ms)
        end = bisect_left(self._ended_ms[kind], each.fact.ts_ms)
        return any(_first(one) is not _first(each) for one in self._ended[kind][begin:end])


def _alike(chain: Sequence[Disturbance], around: _Around) -> Iterator[list[Disturbance]]:
    """Parts without a life that is much longer than the others: a loop ended before it, and what ends it has causes of its own."""
    most_ms = _most_ms([lived for each in chain[1:] if (lived := around.lived_ms(each)) is not None])
    part: list[Disturbance] = []
    for each in chain:
        if part and each.life is not None and (around.lived_ms(each) or 0) > most_ms:
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def _most_ms(lived_ms: Sequence[int]) -> float:
    """How long the longest life of a loop may be, by the lives between its ends."""
    if len(lived_ms) <= 2:  # one may be the exception as well as the other
        return max(IRREGULAR * min(lived_ms, default=0), 3 * START_MS)
    # Where half are longer they are no exception, unless they are so long that one loop may have ended and another begun.
    return max(IRREGULAR * median_low(lived_ms), _SHORT_MS, min(IRREGULAR * median_high(lived_ms), RETURN_MS))


def _loop(chain: Sequence[Disturbance], around: _Around, known: Known) -> Iterator[Candidate]:
    yield from (
        candidate
        for candidate in (
            _repeated(Cause.CRASH_LOOP, chain, around, known, _may_have_crashed),
            _repeated(Cause.FLAPPING, chain, around, known, lambda each: each.fact.kind is Kind.LEFT),
            _duplicates(chain, known),
        )
        if candidate is not None
    )


_REPEATED = {
    # The processes of a static member that are started again at once look as if each had been restarted.
    Cause.CRASH_LOOP: (Cause.KILLED, Cause.STATIC_RESTART),
    Cause.FLAPPING: (Cause.RESTART,),
}
"""What a loop repeats: it predicts of each departure what that does."""


def _may_have_crashed(each: Disturbance) -> bool:
    if each.life is not None and each.life.has_closed:
        return False
    return each.fact.kind in (Kind.EXPIRED, Kind.REPLACED) or each.fact.reason == UNSEEN


def _repeated(
    cause: Cause,
    chain: Sequence[Disturbance],
    around: _Around,
    known: Known,
    fits: Callable[[Disturbance], bool],
) -> Candidate | None:
    causes = _REPEATED[cause]
    if sum(each.what is What.REPLACED for each in chain) == 1:
        causes = causes[:1]  # one restart between other ends begins no loop

    def is_part(each: Disturbance) -> bool:
        # Supervisors wait longer each time: who crashed at once is in its loop also where it is back as late as after a pause.
        least = Step.UNLIKELY.value if cause is Cause.CRASH_LOOP and around.ended_at_once(each) else 0
        return fits(each) and not _speaks_against(each, known, *causes, least=least)

    mine = [each for each in chain if is_part(each)]
    asked = _ended_before_they_joined(mine) if cause is Cause.CRASH_LOOP else []
    if not mine or len(mine) + len(asked) < 2:
        return None
    # When a loop has ended, nobody joins again: that says nothing against the rest of it.
    ends = cause is Cause.FLAPPING and mine[-1].life is not None and not mine[-1].life.is_followed(known)
    evidence = [one for each in (mine[:-1] if ends else mine) for one in evidence_for(each, known, *causes)]
    if cause is Cause.FLAPPING and (ended := _ended_meanwhile(mine, chain, around)):
        evidence += [one for each in ended for one in evidence_for(each, known, Cause.KILLED)]
        mine = sorted((*mine, *ended), key=lambda each: each.from_ms)
    # Once is no loop, and twice may be chance.
    evidence += [
        Evidence(f"{each.name} {_ended(each)} again", Step.LIKELY)
        if not around.was_in_turn(before, each)
        else Evidence(f"others were replaced before {each.name} {_ended(each)} again", Step.UNLIKELY)
        for before, each in pairwise(mine)
    ]
    first = around.arrival_alone(mine[0].life)
    is_known_to_close = cause is Cause.FLAPPING and all(each.fact.is_observed for each in mine)
    short_ms = _SHORT_TO_CLOSE_MS if is_known_to_close else _SHORT_MS
    # Before a loop, a process may have been started by a deploy just before.
    evidence += [
        Evidence(f"{each.name} {_ended(each)} within seconds of its start", Step.LIKELY)
        for each in (mine[1:] if first is None else mine)
        if around.ended_at_once(each, short_ms)
    ]
    if len(mine) == 2 and mine[1].fact.ts_ms - mine[0].fact.ts_ms > 2 * RETURN_MS:
        evidence.append(Evidence("the second time was long after the first", Step.UNLIKELY))
    evidence += [Evidence(f"a process asked for the instance id {name}, and ended", Step.LIKELY) for name in asked]
    if len({each.member.host for each in mine if each.member is not None}) > 1 and cause is Cause.CRASH_LOOP:
        evidence.append(Evidence("its processes are on different hosts", Step.UNLIKELY))
    if first is not None and mine[0].from_ms - first.from_ms <= RETURN_MS:
        mine.insert(0, first)
        evidence.append(Evidence(f"{first.name} had joined for the first time just before", Step.NEUTRAL))
    return Candidate(cause, tuple(mine), tuple(evidence), _PRIORS[cause])


def _ended(each: Disturbance) -> str:
    return "left in order" if each.fact.kind is Kind.LEFT else "ended without leaving"


def _ended_meanwhile(left: Sequence[Disturbance], chain: Sequence[Disturbance], around: _Around) -> list[Disturbance]:
    """Those of a loop whose processes close that did not leave: who closes before it has been given anything may not.

    They are fewer than those that left, or as many: nobody who crashes leaves. Who had been there for long before the loop began
    is none of them.
    """
    others = [
        each
        for each in chain
        if each.what is What.DEPARTED
        and each.fact.kind is Kind.EXPIRED
        and (each.from_ms >= left[0].from_ms or around.ended_at_once(each))
    ]
    return others if 2 <= len(left) >= len(others) else []


def _ended_before_they_joined(chain: Sequence[Disturbance]) -> list[str]:
    """The instance ids for which processes asked that never joined, once for each process: the one before them was still a member."""
    found: list[str] = []
    for each in chain:
        life = each.life
        if life is None or each.fact.kind is not Kind.EXPIRED:
            continue
        joined = None if life.next is None else life.next.member.member_id
        asking = {
            fact.member.member_id for fact in life.refused if fact.member is not None and fact.ts_ms >= each.from_ms
        }
        found += [life.member.name] * len(asking - {joined})
    return found


def _first(each: Disturbance) -> Life | None:
    return None if each.life is None else each.life.first


def _speaks_against(each: Disturbance, known: Known, *causes: Cause, least: float = 0) -> bool:
    """Whether what is seen of a departure speaks against causes: it was no part of their loop, but perhaps of a deploy, or a pause."""
    if each.what is What.DEPARTED and each.life is not None and not each.life.is_followed(known):
        return False  # that nobody came back says nothing of how it ended
    return weight(0, evidence_for(each, known, *causes)) < least


def _duplicates(chain: Sequence[Disturbance], known: Known) -> Candidate | None:
    """Two living processes take an instance id from each other."""
    causes = (Cause.DUPLICATE_INSTANCE,)
    mine = [each for each in chain if each.what is What.REPLACED and not _speaks_against(each, known, *causes)]
    evidence = [one for each in mine for one in evidence_for(each, known, Cause.DUPLICATE_INSTANCE)]
    # Those that are started again have a twin for as long as the first one is heard of.
    heard_ms = max((each.life.heard_after_ms for each in mine if each.life is not None), default=0)
    mine = [each for each in chain if each in mine or (each.what is What.REPLACED and each.fact.ts_ms <= heard_ms)]
    evidence += [Evidence("another process with the instance id took its place again", Step.LIKELY)] * (len(mine) - 1)
    # When one of the two is stopped, the id has no process until its session expires and the other one joins.
    last = chain[-1]
    if mine and last not in mine and last.what is What.DEPARTED and last.fact.kind is Kind.EXPIRED:
        mine.append(last)
        evidence += evidence_for(last, known, Cause.STATIC_STOPPED, Cause.STATIC_RESTART, Cause.KILLED)
        if last.life is not None and last.life.is_followed(known):
            evidence.append(Evidence(f"a process joined when {last.name} had none any more", Step.LIKELY))
    # Or the other one joins with it once more.
    elif mine and last not in mine and last.what is What.REPLACED and _is_soon(last, mine[-1], known):
        mine.append(last)
    if len(mine) < 2:
        return None
    return Candidate(Cause.DUPLICATE_INSTANCE, tuple(mine), tuple(evidence), prior=-2.0)


def _is_soon(each: Disturbance, before: Disturbance, known: Known) -> bool:
    return each.from_ms - before.to_ms <= known.session_ms(member_id_of(each))
