"""The lives of one group, and who was there when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from kshim.explain.closed import with_closed
from kshim.explain.facts import FORGOTTEN, HEARTBEAT_MS, POLL_MS, Fact, Kind, Known, Member
from kshim.explain.life import Life
from kshim.explain.member_ids import is_made_by_client
from kshim.explain.successors import link

_DEPARTURES = (Kind.LEFT, Kind.EXPIRED, Kind.REMOVED)

_JOIN_ENDED = (Kind.JOIN_COMPLETED, Kind.COMPLETED)

_OF_BROKER = (Kind.STOPPING, Kind.LOADED)
_WITHOUT_CLIENTS = (*_OF_BROKER, Kind.EXPIRED, Kind.EMPTIED)
"""What happens, or is told, where no client can connect: sessions end by a timer."""
_REGISTERED_MS = 15_000
"""For so long a broker that was killed is registered still: `broker.session.timeout.ms`, 9 s, and until it asks again."""

_NEAR = 100
"""So many facts about records before another one, and after it, are looked at for what they have to do with it."""

LATE_MS = 500
"""How late a timer of a group that was just loaded may be."""

_TIMER_MS = 200
"""How much later than it is due a broker may notice that a session has expired, and how exact times of phases are."""


class Group:
    """The lives of one group, in the order in which they began."""

    def __init__(self, name: str, facts: Iterable[Fact], known: Known, down: Sequence[Span] = ()) -> None:
        """`down`: see `downtimes`. Those in which something happened to the group were of other brokers than its coordinator."""
        self.name = name
        self.facts = tuple(with_closed(fact, known) for fact in facts)
        self.lives: list[Life] = []
        self._known = known
        self._by_id: dict[str, Life] = {}
        self._recorded = 0
        """So many of them had begun when the last rebalance ended."""
        for fact in self.facts:
            self._add(fact)
        self._find_hosts()
        self._places = {id(life): place for place, life in enumerate(self.lives)}
        self._attendance = _Attendance(self.lives)
        self.completed = [fact for fact in self.facts if fact.kind is Kind.COMPLETED]
        self.completed_ms = [fact.ts_ms for fact in self.completed]
        """Of each of these, for a search."""
        self._first_ms: dict[str, int] = {}
        for life in self.lives:
            name = life.member.name
            self._first_ms[name] = min(life.began_ms, self._first_ms.get(name, life.began_ms))
        self._down = [span for span in down if not any(map(partial(_is_within, span), self.facts))]
        self._deliveries: dict[tuple[str, int], list[Fact]] = defaultdict(list)
        for fact in self.facts:
            if fact.records is not None:
                self._deliveries[fact.records.topic, fact.records.partition].append(fact)
        self._find_last_joins()
        self._find_stops(down)
        for life in self.lives:
            if life.gone is not None and life.joined is not None:
                settled_ms = self.settled_ms(life.began_ms)
                life.has_settled = settled_ms is not None and settled_ms <= max(life.silent_ms(known), life.began_ms)
        link(self.lives, known)
        for life in self.lives:
            if life.previous is not None:  # which has begun before, and knows its first
                life.first = life.previous.first
            if life.gone is not None and life.gone.committed is not None:
                life.uncommitted_ms = self.up_ms(life.gone.committed.last_ms, life.gone.ts_ms)
            if life.gone is not None and life.next is not None:
                life.away_ms = self.up_ms(life.gone.ts_ms, life.next.began_ms)

    def alive_at(self, ts_ms: int) -> list[Life]:
        """Members at a time."""
        return self._attendance.at(ts_ms)

    def before(self, life: Life) -> list[Life]:
        """Members when a life began."""
        there = self.alive_at(life.began_ms)
        return there[: bisect_left(there, self._place_of(life), key=self._place_of)]

    def knows_name_before(self, life: Life) -> bool:
        """Whether a client of the same name had been a member when a life began."""
        return self._first_ms[life.member.name] < life.began_ms

    def up_ms(self, from_ms: int, to_ms: int) -> int:
        """The time between two times without that in which the broker was stopped, when nobody can join."""
        down_ms = sum(max(min(end_ms, to_ms) - max(begin_ms, from_ms), 0) for begin_ms, end_ms in self._down)
        return to_ms - from_ms - down_ms

    def rested_until_a_stop(self, began_ms: int, from_ms: int, to_ms: int) -> bool:
        """Whether the broker was stopped between two times, when a rebalance since an earlier one had been over for a while."""
        stopped_ms = next((begin_ms for begin_ms, end_ms in self._down if from_ms < begin_ms < end_ms <= to_ms), None)
        place = 0 if stopped_ms is None else bisect_right(self.completed_ms, stopped_ms)
        settled_ms = self.completed_ms[place - 1] if place else began_ms
        return stopped_ms is not None and began_ms < settled_ms < stopped_ms - HEARTBEAT_MS - POLL_MS

    def settled_ms(self, after_ms: int) -> int | None:
        """When the first rebalance after a time ended; None: none has."""
        place = bisect_right(self.completed_ms, after_ms)
        return self.completed_ms[place] if place < len(self.completed_ms) else None

    def deliveries_near(self, fact: Fact) -> list[Fact]:
        """What failed of the same partition of a share group before a fact that is about records, and after it; not all, if it is much."""
        records = fact.records
        if records is None:
            return []
        found = self._deliveries[records.topic, records.partition]
        place = bisect_right(found, fact.ts_ms, key=_time_of)
        return found[max(place - _NEAR, 0) : place + _NEAR]

    def life_with(self, member_id: str | None) -> Life | None:
        """The life of a member id."""
        return self._by_id.get(member_id or "")

    def life_of(self, member: Member | None) -> Life | None:
        """The life of a member."""
        return None if member is None else self.life_with(member.member_id)

    def _place_of(self, life: Life) -> int:
        return self._places[id(life)]

    def _add(self, fact: Fact) -> None:
        if fact.kind is Kind.LOADED and fact.reason == FORGOTTEN:
            self.lives = [life for life in self.lives if life.gone is not None]
        if fact.kind is Kind.COMPLETED:
            self._recorded = len(self.lives)
        if fact.kind is Kind.LOADED and fact.reason != FORGOTTEN:
            for life in self.lives[self._recorded :]:
                # Groups of the new protocol have a record of each member as soon as it joins.
                life.is_forgotten = life.gone is None and not is_made_by_client(life.member.member_id)
        if fact.member is None:
            return
        match fact.kind:
            case Kind.JOINED:
                self._begin(fact)
            case Kind.REPLACED:
                old = self._life(fact.member._replace(member_id=fact.other_id or ""))
                old.gone = fact
                new = self._begin(fact)
                old.next, new.previous = new, old
            case Kind.STOPPED:
                self._life(fact.member).stopped = fact
            case Kind.HEARD:
                if (heard := self.life_of(fact.member)) is not None:
                    heard.heard_after_ms = fact.ts_ms
            case Kind.NOT_ADMITTED:
                pass  # it is no member
            case Kind.REFUSED:
                self._refuse(fact, fact.member.instance_id)
            case kind if kind in _DEPARTURES:
                life = self._life(fact.member)
                if life.gone is None:  # else a broker that was stopped meanwhile had forgotten that it was gone
                    life.gone = fact
            case _:
                self._life(fact.member)

    def _refuse(self, fact: Fact, instance_id: str | None) -> None:
        """Who asks for the instance id of a member is none, or the member itself, which has given up its membership."""
        owner = self._by_id.get(fact.other_id or "")
        if owner is None:
            mine = [life for life in self.lives if life.member.instance_id == instance_id and life.gone is None]
            owner = mine[-1] if mine else None
        if owner is None:
            return
        if fact.member is not None and owner.member.member_id == fact.member.member_id:
            owner.asked_anew_ms = fact.ts_ms
        else:
            owner.refused.append(fact)

    def _begin(self, fact: Fact) -> Life:
        assert fact.member is not None
        life = Life(self.name, fact.member, fact)
        self.lives.append(life)
        self._by_id[fact.member.member_id] = life
        return life

    def _life(self, member: Member) -> Life:
        life = self._by_id.get(member.member_id)
        if life is None:
            life = self._by_id[member.member_id] = Life(self.name, member, None)
            self.lives.insert(0, life)
            self._recorded += 1
        return life

    def _find_hosts(self) -> None:
        """Who was gone before there was a record of it is on the host of its client: the only one without a living member of that name."""
        of_clients: dict[str, list[Life]] = defaultdict(list)
        for life in self.lives:
            if life.member.host is not None and life.member.client_id is not None:
                of_clients[life.member.client_id].append(life)
        for life in self.lives:
            if life.member.host is not None:
                continue
            known = of_clients.get(life.member.client_id or "", ())
            there = [other for other in known if other.is_alive_at(life.began_ms)]
            hosts = {other.member.host for other in known} - {other.member.host for other in there}
            # Where each host has a member of that name, one of them has ended, and this is its successor.
            hosts = hosts or {other.member.host for other in there if self._is_silent_at(other, life.began_ms)}
            if len(hosts) == 1:
                life.member = life.member._replace(host=hosts.pop())
        self._find_only_host()

    def _find_only_host(self) -> None:
        """Where all of a group are on one host, so is a client that was gone before there was a record of it."""
        if all(life.member.host is not None for life in self.lives):
            return
        known = {life.member.member_id: life.member.host for life in self.lives if life.member.host is not None}
        hosts = set(known.values())
        if len(known) < 2 or len(hosts) > 1:
            return
        (host,) = hosts
        for life in self.lives:
            if life.member.host is None:
                life.member = life.member._replace(host=host)

    def _find_stops(self, down: Sequence[Span]) -> None:
        """Sessions begin anew when a coordinator has read its groups, also of members that had been silent for long."""
        for life in self.lives:
            if life.gone is None or life.gone.kind is not Kind.EXPIRED or life.gone.activity is not None:
                continue
            session_ms = self._known.session_ms(life.member.member_id)
            for stopped_ms, loaded_ms in down:
                if abs(loaded_ms + session_ms - life.gone.ts_ms) <= LATE_MS and life.began_ms < stopped_ms:
                    life.stopped_ms = stopped_ms
                    life.stopped_since_ms = self._silent_since_ms(life, life.gone, stopped_ms, session_ms)

    def _silent_since_ms(self, life: Life, gone: Fact, stopped_ms: int, session_ms: int) -> int:
        """When a member was heard of at the earliest whose session had not ended when the broker was stopped: it may have been its JoinGroup."""
        since_ms = stopped_ms - session_ms
        begin = bisect_right(self.facts, since_ms, key=_time_of)
        for fact in self.facts[begin : bisect_right(self.facts, stopped_ms, key=_time_of)]:
            if fact.kind in _JOIN_ENDED and fact.phases is not None and since_ms < fact.ts_ms:
                since_ms = fact.ts_ms - (fact.phases.sync_ms or 0) - (fact.phases.join_ms or 0)
        found = gone.committed
        return max(since_ms, life.began_ms, 0 if found is None or found.is_none else found.last_ms)

    def _is_silent_at(self, life: Life, ts_ms: int) -> bool:
        """Whether nothing is heard any more of a member whose session will expire."""
        is_failure = life.gone is not None and life.gone.kind is Kind.EXPIRED
        return is_failure and life.silent_ms(self._known) <= ts_ms

    def _find_last_joins(self) -> None:
        """Sessions begin anew when phase JOIN ends. Who is not heard of after that may have been gone since its JoinGroup."""
        phases = [
            (fact.ts_ms - (fact.phases.sync_ms or 0), fact.phases.join_ms)
            for fact in self.facts
            if fact.kind in _JOIN_ENDED and fact.phases is not None and fact.phases.join_ms is not None
        ]
        ends = [end_ms for end_ms, _ in phases]
        self._find_awaited(phases)
        joined = [
            fact.ts_ms - (fact.phases.sync_ms or 0)
            for fact in self.facts
            if fact.kind in _JOIN_ENDED and fact.phases is not None
        ]
        joined = sorted([*joined, *(fact.ts_ms for fact in self.facts if fact.kind is Kind.LOADED)])
        for life in self.lives:
            if life.gone is not None:
                place = bisect_right(joined, life.gone.ts_ms) - 1
                life.renewed_ms = max(joined[place], life.began_ms) if place >= 0 else life.began_ms
            if life.gone is None or life.gone.kind is not Kind.EXPIRED or not life.gone.is_observed:
                continue
            began_ms = life.gone.ts_ms - self._known.session_ms(life.member.member_id)
            place = bisect_right(ends, began_ms + _TIMER_MS) - 1
            if place >= 0 and began_ms - ends[place] <= _TIMER_MS + life.gone.late_ms:
                life.joined_last_ms = max(life.began_ms, ends[place] - phases[place][1])

    def _find_awaited(self, phases: Sequence[tuple[int, int]]) -> None:
        """When the phases JOIN began at whose ends members were given up that had not joined: until then others of their names are other processes."""
        for life in self.lives:
            if life.gone is None or life.gone.kind is not Kind.REMOVED:
                continue
            began_ms = (end - join for end, join in phases if abs(end - life.gone.ts_ms) <= _TIMER_MS)
            since_ms = max(next(began_ms, 0), life.began_ms)
            alike = [each for each in self.alive_at(since_ms - 1) if each.member.name == life.member.name]
            if since_ms > life.began_ms and alike == [life]:
                life.awaited_since_ms = since_ms


def _time_of(fact: Fact) -> int:
    return fact.ts_ms


Span = tuple[int, int]


def downtimes(facts: Iterable[Fact]) -> list[Span]:
    """From when to when a broker was not there that was stopped in good order, as far as some group was read afterwards.

    Where records tell of it, it was at some time between two of them, and no rebalance of any group ended meanwhile.
    """
    found: list[Span] = []
    stopped_ms: int | None = None
    is_certain = is_still = False
    for fact in facts:
        # A Kafka that was killed reads its groups once as the broker that it was, and again when it is registered anew.
        if is_still and fact.kind in _OF_BROKER and LATE_MS < fact.ts_ms - found[-1][1] <= _REGISTERED_MS:
            found.append((found[-1][1], fact.ts_ms))
        if fact.kind is Kind.STOPPING and stopped_ms is None:
            stopped_ms, is_certain = fact.ts_ms, fact.is_observed
        elif fact.kind is Kind.LOADED and stopped_ms is not None:
            found.append((stopped_ms, fact.ts_ms))
            stopped_ms, is_still = None, True
        elif fact.kind is Kind.COMPLETED and not is_certain:
            stopped_ms = None
        is_still = is_still and fact.kind in _WITHOUT_CLIENTS
    return found


class _Attendance:
    """Who was a member when, without a look at every life: the changes in order, and who was there after every so many.

    What was asked for is kept: hypotheses ask for the same times one after the other.
    """

    _EVERY = 64
    _MOST_KEPT = 4_096

    def __init__(self, lives: Sequence[Life]) -> None:
        self._places = {id(life): place for place, life in enumerate(lives)}
        self._found: dict[int, list[Life]] = {}
        changes = [(life.began_ms, False, life) for life in lives if life.is_alive_at(life.began_ms)]
        changes += [(life.gone.ts_ms, True, life) for _, _, life in changes if life.gone is not None]
        self._changes = sorted(changes, key=lambda change: change[:2])
        self._times = [ts_ms for ts_ms, _, _ in self._changes]
        self._kept: list[tuple[Life, ...]] = []
        there: dict[int, Life] = {}
        for number, change in enumerate(self._changes):
            if number % self._EVERY == 0:
                self._kept.append(tuple(there.values()))
            self._apply(change, there)

    def at(self, ts_ms: int) -> list[Life]:
        """In the order of lives."""
        end = bisect_right(self._times, ts_ms)
        found = self._found.get(end)
        if found is None:
            if len(self._found) >= self._MOST_KEPT:
                self._found.clear()
            found = self._found[end] = sorted(self._before(end), key=lambda life: self._places[id(life)])
        return found

    def _before(self, end: int) -> Iterable[Life]:
        start = min(end // self._EVERY, len(self._kept) - 1)
        there = {id(life): life for life in self._kept[start]} if self._kept else {}
        for change in self._changes[max(start, 0) * self._EVERY : end]:
            self._apply(change, there)
        return there.values()

    @staticmethod
    def _apply(change: tuple[int, bool, Life], there: dict[int, Life]) -> None:
        _, is_end, life = change
        if is_end:
            there.pop(id(life), None)
        else:
            there[id(life)] = life


def _is_within(span: Span, fact: Fact) -> bool:
    return fact.kind not in _WITHOUT_CLIENTS and span[0] < fact.ts_ms < span[1]
