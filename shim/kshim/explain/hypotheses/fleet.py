"""Causes outside of the clients: a restarted broker, and a host that stalled or was cut off."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import zip_longest
from typing import NamedTuple

from kshim.explain.candidate import Candidate
from kshim.explain.causes import TOLD_BY_BROKER, Cause
from kshim.explain.client_names import is_of_library
from kshim.explain.client_reasons import Says
from kshim.explain.disturbances import Disturbance, What
from kshim.explain.facts import BEGINS_MS, FORGOTTEN, HEARTBEAT_MS, POLL_MS, RETURN_MS, START_MS, UNSEEN, Kind, Known
from kshim.explain.hypotheses.chains import member_id_of
from kshim.explain.hypotheses.conduct import CLOSING_MS, MISSED
from kshim.explain.hypotheses.departures import NOT_BACK, evidence_for
from kshim.explain.hypotheses.deploys import change_of_assignor
from kshim.explain.life import Life
from kshim.explain.lives import LATE_MS, Group
from kshim.explain.member_ids import is_made_by_client
from kshim.explain.weigh import Evidence, Step, weight

_MEMBERS_OF_A_HOST = 2
_GROUPS_BY_CHANCE = 2
"""In two groups something else may befall a member in the same seconds, and in more of them hardly."""
_EXCLUDED = Step.MUST_NOT.value + Step.LIKELY.value
_GRACE = 1.25
"""Within so many session timeouts after a load members come back, or expire."""
_RECONNECT_MS = 30_000
"""Within so long all clients try again to connect; most do so every second, or every ten."""
_AT_ONCE_MS = 300
"""How far apart threads of one process do the same thing at most."""


def broker_restarts(found: Sequence[Disturbance], groups: Mapping[str, Group], known: Known) -> Iterator[Candidate]:
    """One for each time that coordinators were loaded, with all that may follow from it in any group."""
    loads = sorted((each for each in found if each.what is What.LOADED), key=lambda each: each.to_ms)
    while loads:
        mine = _of_one_restart(loads, groups, known)
        loads = loads[len(mine) :]
        # When one is read from records, it was at some time between two of them, which may be far from each other.
        certain = [each for each in mine if each.fact.is_observed] or mine
        began_ms, ended_ms = min(each.from_ms for each in certain), max(each.to_ms for each in certain)
        load_of = {each.group: each for each in mine}
        anew = {each.group for each in mine if each.fact.reason == FORGOTTEN}
        restart = _Restart(began_ms, ended_ms, certain, load_of, anew, found, groups, known)
        consequences = [each for each in found if restart.has(each)]
        # Sessions start anew when a group is loaded, so that who does not return in time expires one timeout later.
        evidence = [Evidence("the coordinator read its groups from the log", Step.MUST)]
        evidence += [
            Evidence(f"{each.name} asked to join anew after it, and had to wait until its session expired", Step.MUST)
            if restart.was_refused(each)
            else Evidence(f"{each.name} rejoined or expired after it", Step.LIKELY)
            for each in consequences
        ]
        yield Candidate(Cause.BROKER_RESTARTED, (*mine, *consequences), tuple(evidence))


def _of_one_restart(loads: Sequence[Disturbance], groups: Mapping[str, Group], known: Known) -> list[Disturbance]:
    """The first of loads, in order of time, and those that belong to it: within a session, and until one of a group that had recovered."""
    longest_ms = max((profile.session_ms for profile in known.profiles.values()), default=known.session_ms(None))
    load_of: dict[str, Disturbance] = {}
    mine: list[Disturbance] = []
    for each in loads:
        before = load_of.setdefault(each.group, each)
        is_late = each.to_ms - loads[0].to_ms > longest_ms
        settled_ms = groups[each.group].settled_ms(before.to_ms)
        if is_late or (settled_ms is not None and settled_ms < each.from_ms):
            break
        mine.append(each)
    return mine


class _Restart:
    """One time that coordinators were loaded, and what follows from it. `load_of`: by group; `anew`: groups that began again."""

    def __init__(
        self,
        began_ms: int,
        ended_ms: int,
        certain: Sequence[Disturbance],
        load_of: Mapping[str, Disturbance],
        anew: Set[str],
        found: Sequence[Disturbance],
        groups: Mapping[str, Group],
        known: Known,
    ) -> None:
        self._began_ms, self._ended_ms, self._certain = began_ms, ended_ms, certain
        self._load_of, self._anew, self._groups, self._known = load_of, anew, groups, known
        departed = [(each, each.life) for each in found if each.what is What.DEPARTED and each.life is not None]
        self._unheard = Counter(each.group for each, life in departed if self._is_unheard(each, life))
        self._back = {each.group for each, life in departed if self._came_back(life)}

    def has(self, each: Disturbance) -> bool:
        """Whether something may be due to it."""
        life, load = each.life, self._load_of.get(each.group)
        if each.what in (What.DEPARTED, What.REPLACED) and self._had_stopped(each):
            return False
        if life is not None and each.what is What.REPLACED and self._is_replaced_alone(life):
            return False
        if self.was_refused(each):
            return True
        if life is not None and each.what is What.DEPARTED:
            if (
                life.next is not None
                and life.next.began_ms < self._began_ms
                and self._is_certainly_followed(each, life)
            ):
                return False  # its successor was there before the broker was stopped
            if each.group in self._back and self._stays_away(each, life):
                return False
            if self._unheard[each.group] > 1 and self._is_unheard(each, life):
                return True  # of several that is no chance
            if self._is_silent_alone(each, life):
                return False
        if each.what is What.ARRIVED and each.group in self._anew:
            return False
        loaded_ms = self._ended_ms if load is None else load.to_ms
        if load is not None and each.what is What.SLOW_JOIN and self._had_settled(each, loaded_ms):
            return False
        return _may_follow(each, load, self._certain) and _follows(
            each, self._began_ms, self._ended_ms, loaded_ms, self._known
        )

    def was_refused(self, each: Disturbance) -> bool:
        """Whether a member asked to join anew when the coordinator was there, and was refused until its session had expired.

        Static members of the new protocol of franz-go do so when the broker was away for longer than that.
        """
        if each.life is None or each.what is not What.DEPARTED or each.life.has_closed:
            return False
        asked_ms = each.life.asked_anew_ms
        session_ms = self._known.session_ms(member_id_of(each))
        return asked_ms is not None and self._ended_ms <= asked_ms <= self._ended_ms + session_ms

    def _is_certainly_followed(self, each: Disturbance, life: Life) -> bool:
        """Whether it is the only one that is not back, or the processes of its name followed each other, each within a session of the one before."""
        if self._unheard[each.group] <= 1:
            return True
        lives = self._groups[each.group].lives
        there = [one for one in lives if one.member.name == life.member.name and one.is_alive_at(self._began_ms - 1)]
        return len(there) > 2 and sum(one.next not in there for one in there) == 1

    def _is_unheard(self, each: Disturbance, life: Life) -> bool:
        """Whether a session ended one timeout after it began anew: nothing had been heard of the member."""
        if each.group not in self._load_of or each.fact.kind is not Kind.EXPIRED:
            return False
        loaded_ms = self._load_of[each.group].to_ms
        return life.began_ms < loaded_ms and _ends_with_new_session(each, loaded_ms, self._known)

    def _is_replaced_alone(self, life: Life) -> bool:
        """Whether all others of its group went on with their memberships: a client does so if its process does."""
        others = [other for other in self._groups[life.group].alive_at(self._began_ms - 1) if other is not life]
        until_ms = self._ended_ms + self._known.session_ms(life.member.member_id)
        return bool(others) and all(other.is_alive_at(until_ms) for other in others)

    def _is_silent_alone(self, each: Disturbance, life: Life) -> bool:
        """Whether nothing was heard of it for longer than clients wait before they try again, and others of its group are there."""
        if self._known.session_ms(life.member.member_id) < _RECONNECT_MS or _has_overlap(life):
            return False
        others = self._groups[each.group].alive_at(each.fact.ts_ms - 1)
        return self._is_unheard(each, life) and any(other is not life for other in others)

    def _came_back(self, life: Life) -> bool:
        """Whether one that had been a member before the coordinator was there again joined when it was."""
        return life.began_ms < self._ended_ms and life.next is not None and life.next.began_ms >= self._ended_ms

    def _had_stopped(self, each: Disturbance) -> bool:
        """Whether it had not committed for much longer than usual when the broker was stopped."""
        found = each.fact.committed
        if found is None or found.is_none or found.usual_ms is None:
            return False
        quiet_ms = self._groups[each.group].up_ms(found.last_ms, self._began_ms)
        if quiet_ms < self._began_ms - found.last_ms:
            return False  # it had been away before
        return quiet_ms > MISSED * found.usual_ms + POLL_MS

    def _had_settled(self, slow: Disturbance, loaded_ms: int) -> bool:
        """Whether the group had completed a rebalance since it was loaded: then all that were waited for had found the coordinator."""
        settled_ms = self._groups[slow.group].settled_ms(loaded_ms)
        has_epochs = slow.fact.phases is not None and slow.fact.phases.has_epochs
        return settled_ms is not None and settled_ms <= slow.from_ms and not has_epochs

    def _stays_away(self, each: Disturbance, life: Life) -> bool:
        """Whether a session ended and its client is not back for long: its process ended meanwhile, for a reason of its own."""
        is_alone = life.next is None and each.fact.kind is Kind.EXPIRED
        return is_alone and self._known.end_ms - each.fact.ts_ms > RETURN_MS


def _may_follow(each: Disturbance, load: Disturbance | None, certain: Sequence[Disturbance]) -> bool:
    """Whether the coordinator of its group was away before it. `load`: of its group; None: it was not loaded.

    Where records tell of loads, they do so of every group that was loaded and goes on; and from the first of a new leader on it is there.
    """
    if load is None:
        return certain[0].fact.is_observed
    return load.fact.is_observed or each.what is not What.SLOW_JOIN or each.from_ms < load.to_ms


def _follows(each: Disturbance, began_ms: int, ended_ms: int, loaded_ms: int, known: Known) -> bool:
    """Whether it may be a consequence: of clients that were members before, and come back by themselves.

    `loaded_ms`: when its group was loaded.
    """
    if each.what in (What.LOADED, What.GREW) or (each.what is What.ARRIVED and each.fact.says is not Says.GOES_ON):
        return False
    if each.fact.reason in TOLD_BY_BROKER:
        return False
    if each.what is What.REQUESTED and each.fact.subscription is not None and each.fact.subscription.added:
        return False  # it had found topics
    if each.fact.kind is Kind.LEFT and _has_own_reason_to_leave(each, loaded_ms):
        return False
    if each.what is What.SLOW_JOIN and each.fact.kind is Kind.JOINED:
        return False  # the coordinator was there, and had been found
    if each.what is What.SLOW_JOIN and _is_later_than_others(each, loaded_ms):
        return False
    if each.fact.says in (Says.ENFORCED, Says.CLOSES, Says.POLL_TIMEOUT):
        return False
    subscription = each.fact.subscription
    is_same = subscription is not None and not (subscription.added or subscription.removed)
    if each.fact.says is Says.SUBSCRIPTION_CHANGED and not is_same:
        return False
    # A new member is, only if its client got no answer to a JoinGroup and sent another one.
    is_new = each.what in (What.DEPARTED, What.REPLACED) and each.life is not None and each.life.began_ms > ended_ms
    if is_new and (each.what is What.REPLACED or each.life is None or not _has_overlap(each.life)):
        return False
    session_ms = known.session_ms(member_id_of(each))
    activity = each.fact.activity
    if each.what is What.REPLACED and _is_replaced_anew(each, loaded_ms, known):
        return False
    if each.fact.kind is Kind.EXPIRED:
        has_none = _ends_with_new_session(each, loaded_ms, known) and not is_new
        is_other = each.life is not None and each.life.is_same_process_as_next(known) is False
        if has_none and not is_other and each.member is not None and is_made_by_client(each.member.member_id):
            return True  # no heartbeat has come since the sessions began anew, whatever else its process has sent
        if activity is not None and activity.last_request_ms > ended_ms and not _has_new_id(each):
            return False  # it had returned
        if activity is not None and activity.closed_ms is not None and activity.closed_ms < began_ms - session_ms:
            return False
        if is_other:
            return False  # it was gone for good, and another one was started
        return began_ms <= each.fact.ts_ms <= ended_ms + _GRACE * session_ms
    # A phase JOIN that began then had to wait until its members had found the coordinator.
    at_ms = each.from_ms if each.what is What.SLOW_JOIN else each.fact.ts_ms
    return began_ms <= at_ms <= ended_ms + session_ms


def _is_replaced_anew(each: Disturbance, loaded_ms: int, known: Known) -> bool:
    """Whether the process that was replaced had been there again, or the one that took its place says that it is new."""
    activity = each.fact.activity
    was_back = activity is not None and activity.was_there_since(loaded_ms)
    return was_back or (each.life is not None and each.life.is_same_process_as_next(known) is False)


def _ends_with_new_session(each: Disturbance, loaded_ms: int, known: Known) -> bool:
    """Whether a session ended one timeout after it began anew, when its group was loaded."""
    session_ms = known.session_ms(member_id_of(each))
    return -LATE_MS <= each.fact.ts_ms - loaded_ms - session_ms <= LATE_MS + each.fact.late_ms


def _has_own_reason_to_leave(each: Disturbance, loaded_ms: int) -> bool:
    """Whoever leaves long after a load, or after it has connected again, had found the coordinator; who commits as it leaves is closed, and
    with the new protocol nobody leaves to join again.
    """
    found, activity = each.fact.committed, each.fact.activity
    closing_ms = CLOSING_MS + each.fact.late_ms
    is_closed = found is not None and not found.is_none and 0 <= each.fact.ts_ms - found.last_ms <= closing_ms
    was_back = activity is not None and each.fact.ts_ms - max(activity.opened_ms, loaded_ms) > BEGINS_MS
    if is_closed or was_back or (each.member is not None and is_made_by_client(each.member.member_id)):
        return True
    is_known = each.fact.is_observed and each.fact.reason != UNSEEN
    return is_known and each.fact.ts_ms > loaded_ms + HEARTBEAT_MS + POLL_MS


def _is_later_than_others(slow: Disturbance, loaded_ms: int) -> bool:
    """Whether all other members had found the coordinator long before the one for which they waited."""
    other_ms = None if slow.fact.phases is None else slow.fact.phases.other_wait_ms
    return other_ms is not None and other_ms <= HEARTBEAT_MS + POLL_MS and slow.to_ms > loaded_ms + START_MS


def _has_overlap(life: Life) -> bool:
    """Whether its client joined again before it was gone."""
    return life.next is not None and life.gone is not None and life.next.began_ms <= life.gone.ts_ms


def _has_new_id(each: Disturbance) -> bool:
    """Whether its process had joined again before, as another member: it had not got the answer to an earlier JoinGroup."""
    new = each.life.next if each.life is not None else None
    if (
        each.life is None
        or new is None
        or new.joined is None
        or each.fact.activity is None
        or new.joined.activity is None
    ):
        return False
    return new.began_ms <= each.fact.ts_ms and new.joined.activity.connection_id == each.fact.activity.connection_id


OnHosts = Mapping[str, Sequence[Group]]
"""The groups that have, or had, members on each host."""


def groups_on_hosts(groups: Iterable[Group]) -> OnHosts:
    """The groups of each host, in their order."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        for host in {life.member.host for life in group.lives if life.member.host is not None}:
            found.setdefault(host, []).append(group)
    return found


def host_failures(found: Sequence[Disturbance], groups: OnHosts, known: Known) -> Iterator[Candidate]:
    """Members of one host, or of several, that fell silent at the same time: within a heartbeat interval."""
    silent = sorted((each for each in found if _fell_silent(each) and not _has_ended(each, known)), key=_begin)
    by_host: dict[str | None, list[Disturbance]] = {}
    for each in silent:
        by_host.setdefault(_host(each), []).append(each)
    slow = [each for each in found if each.what is What.SLOW_JOIN or each.fact.kind is Kind.REMOVED]
    slow += [each for each in found if each.fact.reason == UNSEEN and each.life is not None]
    for together in _together(silent, known):
        count = Counter(map(_host, together))
        # One member of another host is rather silent by itself.
        least = 1 if max(count.values()) <= _MEMBERS_OF_A_HOST else _MEMBERS_OF_A_HOST
        mine = [each for each in together if count[_host(each)] >= least]
        if len({_host(each) for each in mine}) > 1:
            yield from _of_hosts(None, mine, slow, groups, known)
    for host, mine in by_host.items():
        for together in _together(mine, known):
            waited_for = [
                each
                for each in slow
                if each.life is not None and _host(each) == host and _is_meanwhile(each, together, known)
            ]
            if _process_count((*together, *waited_for)) >= _MEMBERS_OF_A_HOST:
                yield from _of_hosts(host, together, slow, groups, known)
            # Something else may have befallen another group at the same time.
            of_groups = [
                [each for each in together if each.group == name] for name in {each.group for each in together}
            ]
            for part in of_groups if len(of_groups) > 1 else ():
                if _process_count(part) >= _MEMBERS_OF_A_HOST:
                    yield from _of_hosts(host, part, slow, groups, known)


def process_failures(found: Sequence[Disturbance], groups: Mapping[str, Group], known: Known) -> Iterator[Candidate]:
    """Members of one process, as threads of it are: they joined at the same time, fell silent together, and were back together."""
    by_start: dict[tuple[str, str | None], list[Disturbance]] = {}
    loaded = [each for each in found if each.what is What.LOADED]
    for each in sorted((each for each in found if _fell_silent(each)), key=_begin):
        if any(load.group == each.group and _is_near(each, load, known) for load in loaded):
            continue  # all members do the same when the broker is there again
        by_start.setdefault((each.group, _host(each)), []).append(each)
    for mine in by_start.values():
        for together in _together(mine, known):
            for siblings in _siblings(together):
                lives = [each.life for each in siblings if each.life is not None]
                returned = [life.next for life in lives if life.next is not None]
                back = [] if any(map(_is_vague, returned)) else [life.began_ms for life in returned]
                shared = [Evidence(f"{each.name} had joined at the same time", Step.LIKELY) for each in siblings]
                if len(back) == len(lives) and max(back) - min(back) <= _AT_ONCE_MS:
                    shared.append(Evidence("they were back at the very same time", Step.MUST))
                elif back:
                    shared.append(Evidence("they did not come back at the very same time", Step.MUST_NOT))
                first_ms = siblings[0].life.first.began_ms if siblings[0].life is not None else 0
                shared += [
                    Evidence(f"{life.member.name} had joined at the same time, too, and went on", Step.MUST_NOT)
                    for life in groups[siblings[0].group].alive_at(siblings[0].from_ms)
                    if life not in lives and abs(life.first.began_ms - first_ms) <= _AT_ONCE_MS
                ]
                for cause in (Cause.PAUSED, Cause.KILLED):
                    own = [one for each in siblings for one in evidence_for(each, known, cause)]
                    yield Candidate(cause, tuple(siblings), (*shared, *own), prior=-2.0)


def _is_near(each: Disturbance, load: Disturbance, known: Known) -> bool:
    """Whether a session ended so soon after a load that it may have ended for that."""
    session_ms = known.session_ms(member_id_of(each))
    return load.from_ms <= each.fact.ts_ms <= load.to_ms + _GRACE * session_ms


def _siblings(together: Sequence[Disturbance]) -> Iterator[list[Disturbance]]:
    """Those whose clients joined for the first time within a moment."""
    part: list[Disturbance] = []
    for each in sorted(together, key=_first_ms):
        if part and _first_ms(each) - _first_ms(part[-1]) > _AT_ONCE_MS:
            if len(part) > 1:
                yield part
            part = []
        if each.life is not None and _first_ms(each) > 0 and not _is_vague(each.life.first):
            part.append(each)
    if len(part) > 1:
        yield part


def _is_vague(life: Life) -> bool:
    """Whether a sample shows that it had joined, and may be too late to tell that it did so with others."""
    return life.joined is not None and life.joined.late_ms > _AT_ONCE_MS


def _first_ms(each: Disturbance) -> int:
    return 0 if each.life is None else each.life.first.began_ms


def _begin(each: Disturbance) -> int:
    return each.from_ms


def _host(each: Disturbance) -> str | None:
    return None if each.member is None else each.member.host


def _process(each: Disturbance) -> int:
    return id(each.life.first) if each.life is not None else 0


def _process_count(silent: Iterable[Disturbance]) -> int:
    """How many processes of a host these are at least: one may be a member of several groups, with one name."""
    of_groups: dict[str, dict[str, set[int]]] = {}
    for each in silent:
        name = f"{each.name} {each.group}" if is_of_library(each.name) else each.name
        of_groups.setdefault(name, {}).setdefault(each.group, set()).add(_process(each))
    return sum(max(map(len, of_name.values())) for of_name in of_groups.values())


def _fell_silent(each: Disturbance) -> bool:
    """Whether its session expired, other than because it had to give up partitions, which some clients do without a heartbeat.

    Where sessions began anew with the coordinator, they end at the same time, whenever the members fell silent.
    """
    is_known = each.life is not None and _host(each) is not None and each.life.stopped_ms is None
    return is_known and each.fact.kind is Kind.EXPIRED and each.fact.told_ms is None


def _has_ended(each: Disturbance, known: Known) -> bool:
    """Whether its process has ended, as its connection tells."""
    return weight(0, evidence_for(each, known, Cause.NETWORK_CUT, Cause.PAUSED)) <= _EXCLUDED


def _together(silent: Sequence[Disturbance], known: Known) -> Iterator[list[Disturbance]]:
    """Those whose silence may have begun at the same time: first those of the moment that is possible for most, then those of the others.

    A process is silent in all of its groups at once, so that one sign of life more or less in one of them makes no difference.
    `silent`: in the order in which they were heard of last.
    """
    silences = [_Silence(each, _silent_until_ms(each, known)) for each in silent]
    for linked in _linked(_with_those_that_went_on_together(silences, known)):
        rest = linked
        while rest:
            at_ms = _fullest_ms(rest)
            groups = _groups_of_processes(one.of for one in rest if one.is_possible_at(at_ms))
            is_theirs = [
                one.is_possible_at(at_ms) or (_is_of(one.of, groups) and _is_about(one, at_ms, known)) for one in rest
            ]
            yield [one.of for one, is_mine in zip(rest, is_theirs, strict=True) if is_mine]
            rest = [one for one, is_mine in zip(rest, is_theirs, strict=True) if not is_mine]


def _groups_of_processes(silent: Iterable[Disturbance]) -> dict[tuple[str, str | None], set[str]]:
    """The groups of each name and host, as far as names tell processes apart."""
    groups: dict[tuple[str, str | None], set[str]] = {}
    for each in silent:
        if not is_of_library(each.name):
            groups.setdefault((each.name, _host(each)), set()).add(each.group)
    return groups


def _is_of(each: Disturbance, groups: Mapping[tuple[str, str | None], Set[str]]) -> bool:
    """Whether a member is one of these processes in a further group: in the same one it would be another process of that name."""
    mine = groups.get((each.name, _host(each)))
    return mine is not None and each.group not in mine


def _is_about(one: _Silence, at_ms: int, known: Known) -> bool:
    """Whether a member fell silent about that time: some heartbeats before or after it."""
    return abs(at_ms - one.of.from_ms) <= known.session_ms(member_id_of(one.of)) / 4


class _Silence(NamedTuple):
    """What tells that a member fell silent. It did so from its last sign of life on, or until `until_ms` at the latest."""

    of: Disturbance
    until_ms: float

    def is_possible_at(self, at_ms: int) -> bool:
        """Whether it may have fallen silent then."""
        return self.of.from_ms <= at_ms <= self.until_ms


def _with_those_that_went_on_together(silences: Sequence[_Silence], known: Known) -> list[_Silence]:
    """Those of a host of which something was heard again at the very same moment may have fallen silent at the same time, although one was
    heard of long before the other: heartbeats may be a third of a session apart.
    """
    until_ms = {one.of.key: one.until_ms for one in silences}
    by_host: dict[str | None, list[_Silence]] = {}
    for one in silences:
        if _went_on_ms(one):
            by_host.setdefault(_host(one.of), []).append(one)
    for mine in by_host.values():
        mine.sort(key=_went_on_ms)
        at_once: list[_Silence] = []
        for one, after in zip_longest(mine, mine[1:]):
            at_once.append(one)
            if after is None or _went_on_ms(after) - _went_on_ms(one) > _AT_ONCE_MS:
                begins_ms = sorted(each.of.from_ms for each in at_once)
                for each in at_once:
                    most_ms = each.of.from_ms + known.session_ms(member_id_of(each.of)) / 2
                    latest_ms = begins_ms[bisect_right(begins_ms, most_ms) - 1]
                    until_ms[each.of.key] = max(until_ms[each.of.key], latest_ms)
                at_once = []
    return [one._replace(until_ms=until_ms[one.of.key]) for one in silences]


def _went_on_ms(one: _Silence) -> int:
    """When something was heard of a process that was no member any more; 0: that is unknown."""
    return 0 if one.of.life is None else one.of.life.heard_after_ms


def _linked(silences: Sequence[_Silence]) -> Iterator[list[_Silence]]:
    """Parts of which no moment is possible for those of two."""
    part: list[_Silence] = []
    latest_ms = 0.0
    for each in silences:
        if part and each.of.from_ms > latest_ms:
            yield part
            part = []
        latest_ms = max(latest_ms, each.until_ms) if part else each.until_ms
        part.append(each)
    if part:
        yield part


def _fullest_ms(silences: Sequence[_Silence]) -> int:
    """The first moment at which most may have fallen silent: one at which one of them was heard of last."""
    ends_ms = sorted(one.until_ms for one in silences)
    most, found_ms = 0, 0
    for number, one in enumerate(silences, 1):
        count = number - bisect_left(ends_ms, one.of.from_ms)
        if count > most:
            most, found_ms = count, one.of.from_ms
    return found_ms


def _silent_until_ms(each: Disturbance, known: Known) -> float:
    """When a member fell silent at the latest: its next sign of life is missing. Commits are rarer than heartbeats."""
    session_ms = known.session_ms(member_id_of(each))
    activity = each.fact.activity
    if activity is not None and activity.last_fetch_ms is not None and activity.last_fetch_ms >= each.from_ms:
        return each.from_ms + POLL_MS  # it had fetched until the end, several times a second
    if each.fact.is_observed:
        # Its session may have begun with the end of a rebalance for which it had joined before.
        return max(each.from_ms, each.fact.ts_ms - session_ms) + min(session_ms / 2, HEARTBEAT_MS + LATE_MS)
    usual_ms = each.fact.committed.usual_ms if each.fact.committed is not None else None
    return each.from_ms + max(session_ms / 2, 2 * (usual_ms or 0))


def _is_meanwhile(slow: Disturbance, together: Sequence[Disturbance], known: Known) -> bool:
    """Whether a member let others wait that was perhaps silent for the same time, but for less than its session timeout."""
    begin_ms, end_ms = min(each.from_ms for each in together), max(each.to_ms for each in together)
    if _process(slow) in [_process(each) for each in together]:
        return False
    told_ms = None if slow.fact.phases is None else slow.fact.phases.last_told_ms
    if told_ms is not None and slow.from_ms + told_ms > min(_silent_until_ms(each, known) for each in together):
        return False  # its heartbeat came when nothing came of the others any more
    back = [each.life.next.began_ms for each in together if each.life is not None and each.life.next is not None]
    if slow.fact.reason != UNSEEN:
        is_then = begin_ms <= slow.to_ms and slow.from_ms <= end_ms
        # Who is waited for as long as nothing can be heard of it joins when the others can be heard of again.
        return is_then and (not back or any(abs(other - slow.to_ms) <= HEARTBEAT_MS + POLL_MS for other in back))
    # How it was gone is unknown: that it was back with the others tells.
    if slow.life is None or slow.life.next is None:
        return False
    return any(abs(other - slow.life.next.began_ms) <= START_MS for other in back)


def _of_hosts(
    host: str | None,
    together: Sequence[Disturbance],
    slow: Sequence[Disturbance],
    groups: OnHosts,
    known: Known,
) -> Iterator[Candidate]:
    """`host` None: of the hosts of all these."""
    hosts = {_host(each) for each in together}
    near = {group.name: group for name in hosts if name is not None for group in groups.get(name, ())}
    waited_for = [
        each
        for each in slow
        if _is_meanwhile(each, together, known)
        and (_host(each) in hosts if each.life is not None else _has_member(near.get(each.group), hosts, each.from_ms))
    ]
    explained = (*together, *waited_for)
    lives = [each.life for each in explained if each.life is not None]
    at_ms, until_ms = min(each.from_ms for each in together), min(each.fact.ts_ms for each in together)
    others = [life for group in near.values() for life in _that_went_on(group, at_ms, until_ms, known)]
    where = "on the same host" if host is not None else "on another host"
    shared = [Evidence(f"{each.name} {where} fell silent at the same time", Step.LIKELY) for each in together]
    shared += [
        Evidence(f"{each.name or each.group} {where} was gone, or let others wait, at the same time", Step.LIKELY)
        for each in waited_for
    ]
    own = [one for each in together for one in evidence_for(each, known, Cause.NETWORK_CUT, Cause.PAUSED)]
    # A process that goes on keeps its assignor, and a group has what all its members know.
    changed = {group.name: text for group in near.values() if (text := _changed(group, together)) is not None}
    own += [Evidence(changed[each.group], Step.MUST_NOT) for each in together if each.group in changed]
    went_on = [life for life in others if life.member.host in hosts and life not in lives]
    returned = sorted(
        each.life.next.began_ms for each in together if each.life is not None and each.life.next is not None
    )
    # What kept all of them from sending ended at one time, and clients retry within seconds.
    spread_ms = returned[-1] - returned[0] if len(returned) > 1 else None
    if spread_ms is not None and spread_ms <= HEARTBEAT_MS + POLL_MS:
        shared.append(Evidence("they were back at the same time", Step.LIKELY))
    elif spread_ms is not None and spread_ms > START_MS:
        shared.append(Evidence("they came back one by one", Step.UNLIKELY))
    if returned:
        away = [each for each in together if each.life is not None and each.life.next is None]
        shared += [Evidence(f"{each.name} has not come back as others have", Step.UNLIKELY) for each in away]
    all_kept = [_kept_connection(each.life, known) for each in together if each.life is not None]
    kept = [each for each in all_kept if each is not None]
    anew = Evidence("its clients came back on new connections", Step.LIKELY)
    same = Evidence("its clients came back on the same connections", Step.LIKELY)
    # Clients give up connections that do not answer; a process that stood still finds its connections as they were.
    cut = [anew] if kept and not any(kept) else []
    stalled = [same] if kept and all(kept) else []
    # Where all clients are on one host, or behind one address, that others of it went on says little more than one of them does.
    is_one_place = len(groups) == 1 and len({each.group for each in together}) != _GROUPS_BY_CHANCE
    cut += own
    # A network is mended; what ran on a host that is gone is not back, each of it.
    if not returned and all(known.end_ms - each.fact.ts_ms > RETURN_MS for each in together):
        lost = [Evidence(f"{each.name} has not come back, nor has another one", Step.LIKELY) for each in together]
        stalled += lost[:1] if is_one_place else lost
        own = [one for one in own if one.text != NOT_BACK]
    stalled += own
    # A host that stands still for longer than a session is rarer than a network that is cut, but that rarely takes one of several hosts.
    stalled_prior, cut_prior = (-2.5, -2.0) if len(groups) == 1 else (-2.0, -2.5)
    if host is None:
        cut_prior = -4.0  # members of different hosts may fall silent within the same few seconds by chance
    against = [Evidence(_went_on(life), Step.UNLIKELY) for life in went_on]
    cut += against[:1] if is_one_place else against
    yield Candidate(Cause.NETWORK_CUT, explained, (*shared, *cut), cut_prior, host)
    if host is not None:
        # A network may be cut for some of a host's processes, and a host stands still with all of them.
        is_certain = all(each.fact.is_observed for each in together)
        stalled += [Evidence(_went_on(life), Step.MUST_NOT if is_certain else Step.UNLIKELY) for life in went_on]
        yield Candidate(Cause.HOST_STALLED, explained, (*shared, *stalled), stalled_prior, host)


def _changed(group: Group, together: Sequence[Disturbance]) -> str | None:
    """Which other assignor a group has afterwards of which all members fell silent."""
    mine = [each for each in together if each.group == group.name]
    silent = [each.life for each in mine]
    if not mine or any(life not in silent for life in group.alive_at(min(each.from_ms for each in mine))):
        return None
    return change_of_assignor(group, mine)


def _went_on(life: Life) -> str:
    return f"{life.member.name} on the same host went on"


def _has_member(group: Group | None, hosts: Set[str | None], at_ms: int) -> bool:
    return group is not None and any(life.member.host in hosts for life in group.alive_at(at_ms))


def _that_went_on(group: Group, at_ms: int, until_ms: int, known: Known) -> Iterator[Life]:
    """Members that would have expired, too, or were in a rebalance meanwhile. Of others it is unknown: their sessions are longer."""
    settled_ms = group.settled_ms(at_ms + HEARTBEAT_MS)
    for life in group.alive_at(until_ms):
        if life.began_ms > at_ms:
            continue
        session_ms = known.session_ms(life.member.member_id)
        has_rebalanced = settled_ms is not None and settled_ms < until_ms
        if has_rebalanced or (session_ms <= until_ms - at_ms and not _expires_with(life, at_ms, known)):
            yield life


def _expires_with(life: Life, at_ms: int, known: Known) -> bool:
    """Whether a life ended by silence from about that time on."""
    gone = life.gone
    is_silent = gone is not None and gone.kind is Kind.EXPIRED
    return is_silent and abs(life.silent_ms(known) - at_ms) <= known.session_ms(life.member.member_id) / 2


def _kept_connection(life: Life, known: Known) -> bool | None:
    """Whether it came back on a connection that it had had before."""
    if life.next is None or life.next.joined is None or life.activity is None or life.next.joined.activity is None:
        return None
    new = life.next.joined.activity
    return new.connection_id == life.activity.connection_id or new.opened_ms < life.silent_ms(known)
