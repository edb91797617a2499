"""Causes of several disturbances of one group: deploys, loops, starts, shared ids, created topics.

Such a hypothesis pays its prior once. It replaces those about single disturbances if it weighs more than their sum,
so that two restarts of one client may be two restarts, and six are a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from statistics import median, median_low
from typing import NamedTuple

from kshim.explain.candidate import Candidate
from kshim.explain.causes import Cause
from kshim.explain.disturbances import Disturbance, Key, What
from kshim.explain.facts import BEGINS_MS, HEARTBEAT_MS, POLL_MS, RETURN_MS, START_MS, UNSEEN, Kind, Known
from kshim.explain.hypotheses.chains import chains, member_id_of
from kshim.explain.hypotheses.departures import evidence_for
from kshim.explain.hypotheses.others import EMPTY, is_foreign, what_was_slow
from kshim.explain.hypotheses.subscriptions import found_topics, is_passing_stranger, shared_group_ids
from kshim.explain.life import Life
from kshim.explain.lives import Group
from kshim.explain.successors import stem
from kshim.explain.weigh import Evidence, Step, weight

_IRREGULAR = 3
"""So many times the usual pause, or the time that one replacement takes, is another deploy's."""


def candidates_of_group(group: Group, found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    """All hypotheses about several disturbances of the group."""
    yield from _deploys(group, found, known)
    yield from _loops(found, known)
    yield from _starts(group, found, known)
    yield from shared_group_ids(group, found, known)
    yield from found_topics(found, known)
    yield from _slow_joins(found)


def _arriving(group: Group, arrived: Sequence[Disturbance], known: Known) -> Iterator[list[Disturbance]]:
    """Arrivals in parts of which each may be of one start.

    What is started at once is there within a session timeout, or, where that is short, as soon as the slowest of the
    processes; once several are there, the pauses between them tell how long another one may take. Nobody can arrive
    while the broker is stopped.
    """
    part: list[Disturbance] = []
    longest_ms = 0
    for each in sorted(arrived, key=lambda each: each.from_ms):
        pause_ms = group.up_ms(part[-1].from_ms, each.from_ms) if part else 0
        most_ms = max(known.session_ms(member_id_of(each)), START_MS)
        if len(part) > 1:
            most_ms = min(most_ms, max(_IRREGULAR * longest_ms, START_MS))
        is_over = len(part) > 1 and group.rested_until_a_stop(part[0].from_ms, part[-1].from_ms, each.from_ms)
        if pause_ms > most_ms or is_over:
            yield part
            part, longest_ms = [], 0
        else:
            longest_ms = max(longest_ms, pause_ms)
        part.append(each)
    if part:
        yield part


class _Turnover(NamedTuple):
    """A process that was stopped in order, and its successor: the next life of its client, or `came`."""

    gone: Disturbance
    came: Disturbance | None

    @property
    def name(self) -> str:
        return self.gone.name

    @property
    def process(self) -> int:
        """Tells processes apart that have one client id and host."""
        return id(self.gone.life.first) if self.gone.life is not None else 0

    @property
    def member_id(self) -> str | None:
        return None if self.gone.member is None else self.gone.member.member_id

    def was_there(self, ts_ms: int) -> bool:
        """Whether the process that was stopped had been a member at a time. What was added later is new already."""
        return self.gone.life is not None and self.gone.life.of_process.began_ms <= ts_ms

    @property
    def parts(self) -> tuple[Disturbance, ...]:
        return (self.gone,) if self.came is None else (self.gone, self.came)

    @property
    def from_ms(self) -> int:
        return min(each.from_ms for each in self.parts)

    @property
    def to_ms(self) -> int:
        return max(each.to_ms for each in self.parts)


def _deploys(group: Group, found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    """Processes were stopped in order and started again, or others in their place."""
    for chain in _steady(group, sorted(_turnovers(group, found, known), key=lambda one: one.from_ms), known):
        for turned in _rounds(chain):
            yield from _deploy(group, turned, known)


def _deploy(group: Group, turned: Sequence[_Turnover], known: Known) -> Iterator[Candidate]:
    begin_ms = turned[0].from_ms
    replaced = {one.process for one in turned}
    if len(replaced) < 2:
        return
    before = {id(life.first): life.member.name for life in group.alive_at(begin_ms - 1)}
    evidence = [
        each
        for one in turned
        if one.came is None
        for each in evidence_for(one.gone, known, Cause.RESTART, Cause.STATIC_RESTART, Cause.STATIC_STOPPED)
    ]
    for one in turned:
        if one.came is not None:
            evidence += [
                Evidence(f"{one.name} left, and another client joined", Step.LIKELY),
                Evidence(f"{one.came.name} joined when another had left", Step.LIKELY),
            ]
    if before and before.keys() <= replaced:
        # The fewer members there are, the more easily are all of them gone once by chance.
        step = Step.MUST if len(before) > 2 else Step.LIKELY
        evidence.append(Evidence("these were all members of the group", step))
    evidence += [
        Evidence(f"the session of {one.name} expired before it was back", Step.UNLIKELY)
        for one in turned
        if one.gone.fact.kind is Kind.EXPIRED and known.session_ms(one.member_id) > START_MS
    ]
    if len(replaced) == 2 and turned[-1].from_ms - turned[0].to_ms > 2 * START_MS:
        evidence.append(Evidence("the second was replaced long after the first", Step.UNLIKELY))
        is_quick = max(one.to_ms - one.from_ms for one in turned) < START_MS
        if is_quick and turned[-1].from_ms - turned[0].to_ms > 4 * START_MS:
            evidence.append(Evidence("each of them was replaced within seconds", Step.UNLIKELY))
    if turned[-1].gone.from_ms - turned[0].gone.from_ms <= HEARTBEAT_MS:
        evidence.append(Evidence("they were stopped at the same time", Step.LIKELY))
    elif len(replaced) > 2:
        evidence.append(Evidence(f"{len(replaced)} processes were replaced, one after the other", Step.LIKELY))
    # A client may have another member besides the one that was replaced.
    others = set(before.values()) - {one.name for one in turned}
    evidence += [Evidence(f"{name} was not replaced", Step.UNLIKELY) for name in sorted(others)]
    ordered = tuple(sorted((each for one in turned for each in one.parts), key=lambda each: each.from_ms))
    yield Candidate(Cause.DEPLOY, ordered, tuple(evidence), prior=-1.0)
    changed = _change_of_assignor(group, ordered)
    if changed is not None:
        yield Candidate(Cause.ASSIGNOR_CHANGED, ordered, (*evidence, Evidence(changed, Step.MUST)), prior=-2.0)


def _without_a_word(group: Group, found: Sequence[Disturbance]) -> set[str]:
    """Records in which all members were gone and others had come: when the last one leaves, there is a record of an empty group."""
    gone: dict[str, set[int]] = {}
    for each in found:
        if each.what is What.DEPARTED and not each.fact.is_observed and each.life is not None:
            gone.setdefault(each.fact.source, set()).add(id(each.life))
    emptied = {fact.source for fact in group.facts if fact.kind is Kind.EMPTIED}
    completed = {fact.source: fact.ts_ms for fact in group.facts if fact.kind is Kind.COMPLETED}
    return {
        source
        for source, lives in gone.items()
        if len(lives) >= 2
        and source in completed.keys() - emptied
        and not any(
            id(life) not in lives and (life.joined is None or life.joined.source != source)
            for life in group.alive_at(completed[source])
        )
    }


def _turnovers(group: Group, found: Sequence[Disturbance], known: Known) -> Iterator[_Turnover]:
    came = [each for each in found if each.what is What.ARRIVED]
    starting = {
        each.key
        for each in came
        if not group.alive_at(each.from_ms - known.session_ms(each.member.member_id if each.member else None))
    }
    lost = _without_a_word(group, found)
    for gone in found:
        if gone.life is None or not _is_orderly(gone, known) or gone.fact.source in lost:
            continue
        if gone.life.next is not None:
            if not _flaps_away(gone.life.next) and gone.life.away_ms <= gone.life.return_ms(known):
                yield _Turnover(gone, None)
        elif (new := _take_successor(group, gone, came, starting, known)) is not None:
            yield _Turnover(gone, new)


def _flaps_away(new: Life | None) -> bool:
    """Whether a process left again at once, and each one after it, and none stayed: what a deploy starts is there to stay."""
    while new is not None:
        if new.gone is None or new.gone.kind is not Kind.LEFT or new.gone.ts_ms - new.began_ms > START_MS:
            return False
        new = new.next
    return True


def _is_alike(new: Disturbance, gone: Disturbance) -> bool:
    """Whether two have a name or a host in common."""
    hosts = [each.member.host for each in (new, gone) if each.member is not None]
    return new.name == gone.name or (len(hosts) == 2 and hosts[0] is not None and hosts[0] == hosts[1])


def _take_successor(
    group: Group, gone: Disturbance, came: list[Disturbance], starting: Collection[Key], known: Known
) -> Disturbance | None:
    """Who took the place of one that left for good: a process of the same kind that came before or after it left.

    It is younger than the one it replaces, and has not come when the group of both started. One of the same name is
    preferred, then one on the same host; another comes within a minute.
    """
    old = gone.life
    assert old is not None
    within_ms = known.return_ms(old.member.member_id)
    # Who joined in the same rebalance was started together with it.
    settled_ms = group.settled_ms(old.began_ms)
    if settled_ms is None:
        return None
    fitting = [
        new
        for new in came
        if new.member is not None
        and abs(new.from_ms - gone.from_ms) <= (within_ms if _is_alike(new, gone) else RETURN_MS)
        and new.from_ms >= settled_ms
        and (new.from_ms > gone.from_ms or new.key not in starting)
        and stem(new.member.client_id) == stem(old.member.client_id)
    ]
    if not fitting:
        return None
    best = min(
        fitting,
        key=lambda new: (new.name != gone.name, new.member is None or new.member.host != old.member.host, new.from_ms),
    )
    came.remove(best)
    return best


def _steady(group: Group, turned: Sequence[_Turnover], known: Known) -> Iterator[list[_Turnover]]:
    """Parts without a pause that is much longer than the others: a deploy goes on when the process before is back."""
    pauses: list[int] = []
    end_ms = 0
    for one in turned:
        pauses.append(max(group.up_ms(end_ms, one.from_ms), 0))
        end_ms = max(end_ms, one.to_ms)
    usual_ms = median([*pauses[1:], *(one.to_ms - one.from_ms for one in turned)]) if turned else 0
    part: list[_Turnover] = []
    for one, pause_ms in zip(turned, pauses, strict=True):
        most_ms = min(max(_IRREGULAR * usual_ms, RETURN_MS), known.return_ms(one.member_id))
        if part and pause_ms > most_ms:
            yield part
            part = []
        part.append(one)
    if part:
        yield part


def _rounds(chain: Sequence[_Turnover]) -> Iterator[Sequence[_Turnover]]:
    """The longest parts in which each client is replaced once, and was there when the part began, as of one deploy. They may overlap."""
    end = longest = 0
    replaced: set[int] = set()
    for begin, first in enumerate(chain):
        while end < len(chain) and chain[end].process not in replaced and chain[end].was_there(first.from_ms):
            replaced.add(chain[end].process)
            end += 1
        if end > longest:
            yield chain[begin:end]
            longest = end
        replaced.discard(first.process)
        end = max(end, begin + 1)


def _is_orderly(each: Disturbance, known: Known) -> bool:
    """Whether it may be part of a deploy. Static members do not leave: if they are slow to start, their sessions expire."""
    if each.fact.kind is Kind.LEFT:
        return True
    life = each.life
    is_static = life is not None and life.member.instance_id is not None
    if each.fact.kind is Kind.EXPIRED and is_static:
        stopped = evidence_for(each, known, Cause.STATIC_RESTART, Cause.STATIC_STOPPED)
        if weight(0, stopped) <= weight(0, evidence_for(each, known, Cause.PAUSED, Cause.KILLED)):
            return False
    # That another process took its place is the same for all replacements.
    if each.what is What.REPLACED and weight(-Step.LIKELY.value, evidence_for(each, known, Cause.STATIC_RESTART)) < 0:
        return False
    return is_static and life is not None and life.next is not None and each.fact.kind in (Kind.EXPIRED, Kind.REPLACED)


def _change_of_assignor(group: Group, chain: Sequence[Disturbance]) -> str | None:
    """What changed: in what a process offers, or, where that is unknown, from the rebalance before to that of the last process."""
    offered = [
        (each.name, old.subscription.assignors, new.subscription.assignors)
        for each in chain
        if each.life is not None
        and each.life.next is not None
        and (old := each.life.joined) is not None
        and (new := each.life.next.joined) is not None
        and old.subscription is not None
        and new.subscription is not None
    ]
    if offered:
        return next((f"{name} came back with other assignors" for name, old, new in offered if old != new), None)
    begin_ms, end_ms = chain[0].from_ms, max(each.to_ms for each in chain)
    before = after = None
    for fact in group.facts:
        phases = fact.phases
        if fact.kind is not Kind.COMPLETED or phases is None or not phases.protocol:
            continue
        # Static members come back without a rebalance. A later one is that of another deploy.
        took_ms = (phases.join_ms or 0) + (phases.sync_ms or 0)
        if fact.ts_ms <= begin_ms:
            before = phases.protocol
        elif fact.ts_ms - took_ms <= end_ms + BEGINS_MS:
            after = phases.protocol
        else:
            break
    if before is not None and after is not None and before != after:
        return f"the group's assignor changed from {before} to {after}"
    return None


def _loops(found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    """One client was gone again and again."""
    of_clients: dict[int, list[Disturbance]] = {}
    for each in found:
        if each.what in (What.DEPARTED, What.REPLACED) and each.life is not None:
            of_clients.setdefault(id(each.life.first), []).append(each)
    for mine in of_clients.values():
        for chain in chains(mine, known):
            for part in _alike(chain):
                if len(part) >= 2:
                    yield from _loop(part, found, known)


def _alike(chain: Sequence[Disturbance]) -> Iterator[list[Disturbance]]:
    """Parts without a life that is much longer than the others: a loop ended before it, and what ends it has causes of its own."""
    lived_ms = [
        each.from_ms - each.life.began_ms for each in chain[1:] if each.life is not None and each.life.began_ms > 0
    ]
    most_ms = max(_IRREGULAR * median_low(lived_ms), START_MS) if lived_ms else START_MS
    part: list[Disturbance] = []
    for each in chain:
        if part and each.life is not None and each.from_ms - each.life.began_ms > most_ms:
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def _loop(chain: Sequence[Disturbance], found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    yield from (
        candidate
        for candidate in (
            _repeated(Cause.CRASH_LOOP, chain, found, known, _may_have_crashed),
            _repeated(Cause.FLAPPING, chain, found, known, lambda each: each.fact.kind is Kind.LEFT),
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
    return each.fact.kind in (Kind.EXPIRED, Kind.REPLACED) or each.fact.reason == UNSEEN


def _repeated(
    cause: Cause,
    chain: Sequence[Disturbance],
    found: Sequence[Disturbance],
    known: Known,
    fits: Callable[[Disturbance], bool],
) -> Candidate | None:
    causes = _REPEATED[cause]
    if sum(each.what is What.REPLACED for each in chain) == 1:
        causes = causes[:1]  # one restart between other ends begins no loop
    mine = [each for each in chain if fits(each) and not _speaks_against(each, known, *causes)]
    asked = _ended_before_they_joined(mine) if cause is Cause.CRASH_LOOP else []
    if not mine or len(mine) + len(asked) < 2:
        return None
    verb = "ended without leaving" if cause is Cause.CRASH_LOOP else "left in order"
    # When a loop has ended, nobody joins again: that says nothing against the rest of it.
    ends = cause is Cause.FLAPPING and mine[-1].life is not None and mine[-1].life.next is None
    evidence = [one for each in (mine[:-1] if ends else mine) for one in evidence_for(each, known, *causes)]
    # Once is no loop, and twice may be chance.
    evidence += [
        Evidence(f"{each.name} {verb} again", Step.LIKELY)
        if not _was_in_turn(before, each, found)
        else Evidence(f"others were replaced before {each.name} {verb} again", Step.UNLIKELY)
        for before, each in pairwise(mine)
    ]
    if cause is Cause.CRASH_LOOP:
        evidence += [
            Evidence(f"{each.name} ended within seconds of its start", Step.LIKELY)
            for each in mine[1:]
            if each.life is not None and each.what is What.DEPARTED and each.from_ms - each.life.began_ms <= START_MS
        ]
    evidence += [Evidence(f"a process asked for the instance id {name}, and ended", Step.LIKELY) for name in asked]
    if len({each.member.host for each in mine if each.member is not None}) > 1 and cause is Cause.CRASH_LOOP:
        evidence.append(Evidence("its processes are on different hosts", Step.UNLIKELY))
    first = next((one for one in found if one.what is What.ARRIVED and one.life is mine[0].life), None)
    # Who came with others was started with them.
    is_alone = first is not None and not any(
        one.what is What.ARRIVED and one is not first and abs(one.from_ms - first.from_ms) <= START_MS for one in found
    )
    if first is not None and is_alone and mine[0].from_ms - first.from_ms <= RETURN_MS:
        mine.insert(0, first)
        evidence.append(Evidence(f"{first.name} had joined for the first time just before", Step.NEUTRAL))
    return Candidate(cause, tuple(mine), tuple(evidence), prior=-4.0)


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


def _was_in_turn(before: Disturbance, each: Disturbance, found: Sequence[Disturbance]) -> bool:
    """Whether another process was replaced, or left, between two replacements of a static member or two departures, as in deploys."""
    if each.what is not What.REPLACED and each.fact.kind is not Kind.LEFT:
        return False
    return any(
        before.fact.ts_ms < one.fact.ts_ms < each.fact.ts_ms
        for one in found
        if one.what is each.what and one.fact.kind is each.fact.kind and _first(one) is not _first(each)
    )


def _first(each: Disturbance) -> Life | None:
    return None if each.life is None else each.life.first


def _speaks_against(each: Disturbance, known: Known, *causes: Cause) -> bool:
    """Whether what is seen of a departure speaks against causes: it was no part of their loop, but perhaps of a deploy, or a pause."""
    if each.what is What.DEPARTED and each.life is not None and each.life.next is None:
        return False  # that nobody came back says nothing of how it ended
    return weight(0, evidence_for(each, known, *causes)) < 0


def _duplicates(chain: Sequence[Disturbance], known: Known) -> Candidate | None:
    """Two living processes take an instance id from each other."""
    causes = (Cause.DUPLICATE_INSTANCE,)
    mine = [each for each in chain if each.what is What.REPLACED and not _speaks_against(each, known, *causes)]
    evidence = [one for each in mine for one in evidence_for(each, known, Cause.DUPLICATE_INSTANCE)]
    evidence += [Evidence("another process with the instance id took its place again", Step.LIKELY)] * (len(mine) - 1)
    # When one of the two is stopped, the id has no process until its session expires and the other one joins.
    last = chain[-1]
    if mine and last not in mine and last.what is What.DEPARTED and last.fact.kind is Kind.EXPIRED:
        mine.append(last)
        evidence += evidence_for(last, known, Cause.STATIC_STOPPED, Cause.STATIC_RESTART, Cause.KILLED)
    # Or the other one joins with it once more.
    elif mine and last not in mine and last.what is What.REPLACED and _is_soon(last, mine[-1], known):
        mine.append(last)
    if len(mine) < 2:
        return None
    return Candidate(Cause.DUPLICATE_INSTANCE, tuple(mine), tuple(evidence), prior=-2.0)


def _is_soon(each: Disturbance, before: Disturbance, known: Known) -> bool:
    return each.from_ms - before.to_ms <= known.session_ms(member_id_of(each))


def _starts(group: Group, found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
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


def _slow_joins(found: Sequence[Disturbance]) -> Iterator[Candidate]:
    """A member for which all waited, with the arrival that began the rebalance: without it that would have been short."""
    for slow in found:
        if slow.what is not What.SLOW_JOIN:
            continue
        phases = slow.fact.phases
        # In the new protocol a member is told with a heartbeat after the arrival.
        told_ms = HEARTBEAT_MS + POLL_MS if phases is not None and phases.has_epochs else BEGINS_MS
        begins_ms = slow.from_ms - told_ms
        arrived = [each for each in found if each.what is What.ARRIVED and begins_ms <= each.from_ms <= slow.to_ms]
        if len(arrived) == 1:
            evidence = (
                Evidence(what_was_slow(slow), Step.LIKELY),
                Evidence(f"{arrived[0].name} joined, which is harmless", Step.LIKELY),
            )
            yield Candidate(Cause.SLOW_POLL, (slow, *arrived), evidence)
