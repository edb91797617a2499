"""Deploys: processes that are stopped in order and started again, or others in their place."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from kshim.explain.candidate import Candidate
from kshim.explain.causes import Cause
from kshim.explain.disturbances import Disturbance, Key, What
from kshim.explain.facts import BEGINS_MS, HEARTBEAT_MS, RETURN_MS, START_MS, Kind, Known
from kshim.explain.hypotheses.chains import IRREGULAR, member_id_of
from kshim.explain.hypotheses.departures import evidence_for
from kshim.explain.hypotheses.others import not_admitted
from kshim.explain.life import Life
from kshim.explain.lives import Group
from kshim.explain.successors import release_of, stem
from kshim.explain.weigh import Evidence, Step, weight


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
        return member_id_of(self.gone)

    def was_there(self, ts_ms: int) -> bool:
        """Whether the process that was stopped had been a member before a time. What was added then, or later, is new already."""
        return self.gone.life is not None and self.gone.life.of_process.began_ms < ts_ms

    @property
    def parts(self) -> tuple[Disturbance, ...]:
        return (self.gone,) if self.came is None else (self.gone, self.came)

    @property
    def from_ms(self) -> int:
        return min(each.from_ms for each in self.parts)

    @property
    def to_ms(self) -> int:
        return max(each.to_ms for each in self.parts)


def deploys(group: Group, found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    """Processes were stopped in order and started again, or others in their place."""
    for chain in _steady(group, sorted(_turnovers(group, found, known), key=lambda one: one.from_ms), known):
        for turned in _rounds(chain):
            yield from _deploy(group, turned, found, known)


def _deploy(
    group: Group, turned: Sequence[_Turnover], found: Sequence[Disturbance], known: Known
) -> Iterator[Candidate]:
    begin_ms = turned[0].from_ms
    replaced = {one.process for one in turned}
    if len(replaced) < 2:
        return
    end_ms = max(one.to_ms for one in turned)
    there = group.alive_at(begin_ms - 1)
    # Who crashed meanwhile and is back was not stopped by the deploy, and is a new process as well.
    crashed = {id(life.first) for life in there if life.next is not None and begin_ms < life.next.began_ms <= end_ms}
    crashed -= replaced
    # Who had just joined is new already.
    fresh = {id(life.first) for life in there if life.of_process.began_ms > begin_ms - START_MS} - replaced
    before = {id(life.first): life.member.name for life in there if id(life.first) not in crashed | fresh}
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
    changed = change_of_assignor(group, ordered)
    if changed is not None:
        # Until the last member without the new assignor is gone, nobody may join with it alone.
        refused = [
            each
            for each in found
            if each.what is What.NOT_ADMITTED and begin_ms - RETURN_MS <= each.from_ms <= end_ms + RETURN_MS
        ]
        evidence += [each for one in refused for each in not_admitted([one]).evidence]
        ordered = tuple(sorted((*ordered, *refused), key=lambda each: each.from_ms))
        yield Candidate(Cause.ASSIGNOR_CHANGED, ordered, (*evidence, Evidence(changed, Step.MUST)), prior=-2.0)


def _without_a_word(group: Group, found: Sequence[Disturbance]) -> set[str]:
    """Records in which all members were gone and others had come: when the last one leaves, there is a record of an empty group."""
    gone: dict[str, set[int]] = {}
    for each in found:
        if each.what is What.DEPARTED and not each.fact.is_observed and each.life is not None:
            gone.setdefault(each.fact.source, set()).add(id(each.life))
    gone = {source: lives for source, lives in gone.items() if len(lives) >= 2}
    if not gone:
        return set()
    emptied = {fact.source for fact in group.facts if fact.kind is Kind.EMPTIED}
    completed = {fact.source: fact.ts_ms for fact in group.facts if fact.kind is Kind.COMPLETED}
    return {
        source
        for source, lives in gone.items()
        if source in completed.keys() - emptied
        and not any(
            id(life) not in lives and (life.joined is None or life.joined.source != source)
            for life in group.alive_at(completed[source])
        )
    }


def _turnovers(group: Group, found: Sequence[Disturbance], known: Known) -> Iterator[_Turnover]:
    came = [each for each in found if each.what is What.ARRIVED]
    starting = _starting(group, came, known)
    lost = _without_a_word(group, found)
    for gone in found:
        if gone.life is None or not _is_orderly(gone, known) or gone.fact.source in lost:
            continue
        if gone.life.is_followed(known):
            if not _flaps_away(gone.life.next):
                yield _Turnover(gone, None)
        elif (new := _take_successor(group, gone, came, starting, known)) is not None:
            yield _Turnover(gone, new)


def _starting(group: Group, came: Sequence[Disturbance], known: Known) -> set[Key]:
    """Those that joined as the group started: who comes long after the others is no part of that, nor who comes later."""
    starting: set[Key] = set()
    pauses: list[int] = []
    before_ms, is_over = 0, False
    for each in sorted(came, key=lambda each: each.from_ms):
        if group.alive_at(each.from_ms - known.session_ms(member_id_of(each))):
            continue
        if not group.alive_at(each.from_ms - 1):
            pauses, is_over = [], False
        else:
            pauses.append(group.up_ms(before_ms, each.from_ms))
            is_over |= len(pauses) > 1 and pauses[-1] > max(IRREGULAR * max(pauses[:-1]), START_MS)
        before_ms = each.from_ms
        if not is_over:
            starting.add(each.key)
    return starting


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


def _is_next_release(new: Disturbance, gone: Disturbance) -> bool:
    """Whether they are pods of two releases: the new one has to be ready before an old one is stopped, which may take minutes."""
    releases = {release_of(each.member.client_id) for each in (new, gone) if each.member is not None}
    return len(releases) == 2 and None not in releases


def _take_successor(
    group: Group, gone: Disturbance, came: list[Disturbance], starting: Collection[Key], known: Known
) -> Disturbance | None:
    """Who took the place of one that left for good: a process of the same kind that came before or after it left.

    It is younger than the one it replaces, and has not come when the group of both started. One of the same name is
    preferred, then one on the same host; another comes within a minute, unless it is of another release.
    """
    old = gone.life
    assert old is not None
    within_ms = old.return_ms(known)
    release_ms = known.return_ms(old.member.member_id)
    # Who joined in the same rebalance was started together with it.
    settled_ms = group.settled_ms(old.began_ms)
    if settled_ms is None:
        return None
    fitting = [
        new
        for new in came
        if new.member is not None
        and new.from_ms >= settled_ms
        and (new.from_ms > gone.from_ms or new.key not in starting)
        and stem(new.member.client_id) == stem(old.member.client_id)
        and (
            (apart_ms := abs(new.from_ms - gone.from_ms)) <= RETURN_MS
            or (apart_ms <= within_ms and _is_alike(new, gone))
            or (apart_ms <= release_ms and _is_next_release(new, gone))
        )
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
    """Parts without a pause that is much longer than the others: a deploy goes on when the process before is back.

    Whose client is back only after a time that is much longer than the others' was not replaced with them.
    """
    usual_ms = median(one.to_ms - one.from_ms for one in turned) if turned else 0
    most_ms = max(IRREGULAR * usual_ms, RETURN_MS)
    turned = [one for one in turned if one.came is not None or one.to_ms - one.from_ms <= most_ms]
    pauses: list[int] = []
    end_ms = 0
    for one in turned:
        pauses.append(max(group.up_ms(end_ms, one.from_ms), 0))
        end_ms = max(end_ms, one.to_ms)
    usual_ms = median([*pauses[1:], *(one.to_ms - one.from_ms for one in turned)]) if turned else 0
    part: list[_Turnover] = []
    for one, pause_ms in zip(turned, pauses, strict=True):
        most_ms = min(max(IRREGULAR * usual_ms, RETURN_MS), known.return_ms(one.member_id))
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
        if end > max(longest, begin):  # one that had not been there yet begins none
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
        if weight(0, stopped) < weight(0, evidence_for(each, known, Cause.PAUSED, Cause.KILLED)):
            return False
    # That another process took its place is the same for all replacements.
    if each.what is What.REPLACED and weight(-Step.LIKELY.value, evidence_for(each, known, Cause.STATIC_RESTART)) < 0:
        return False
    return is_static and life is not None and life.next is not None and each.fact.kind in (Kind.EXPIRED, Kind.REPLACED)


def change_of_assignor(group: Group, chain: Sequence[Disturbance]) -> str | None:
    """What changed: in what a process offers, or, where that is unknown, from the rebalance before to that of the last process."""
    begin_ms, end_ms = chain[0].from_ms, max(each.to_ms for each in chain)
    offered = [
        (each.name, old.subscription.assignors, new.subscription.assignors)
        for each in chain
        if each.life is not None
        and each.life.next is not None
        and each.life.next.began_ms <= end_ms  # else it is of a later deploy
        and (old := each.life.joined) is not None
        and (new := each.life.next.joined) is not None
        and old.subscription is not None
        and new.subscription is not None
    ]
    if offered:
        return next((f"{name} came back with other assignors" for name, old, new in offered if old != new), None)
    before = after = None
    place = bisect_right(group.completed_ms, begin_ms)
    while place > 0 and ((known := group.completed[place - 1].phases) is None or not known.protocol):
        place -= 1
    for fact in group.completed[max(place - 1, 0) :]:
        phases = fact.phases
        if phases is None or not phases.protocol:
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
