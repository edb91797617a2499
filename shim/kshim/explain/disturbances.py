"""What has to be explained: departures with their return, arrivals, requests to rejoin, long phases, and loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from kshim.explain.causes import TOLD_BY_BROKER
from kshim.explain.client_reasons import Says
from kshim.explain.facts import (
    BEGINS_MS,
    HEARTBEAT_MS,
    POLL_MS,
    RETURN_MS,
    DeliveryEnd,
    Fact,
    Kind,
    Known,
    Member,
    Phases,
)
from kshim.explain.life import Life
from kshim.explain.lives import Group
from kshim.explain.member_ids import is_made_by_client
from kshim.explain.topic_news import unheard

_USUAL_COUNT = 3
_UNUSUAL = 2
"""So many times the median of a group's phases is not usual; a poll may take as long as the one before."""


_POLLS_MS = 10_000
"""For longer than this nobody waits for polls that take as long as those of the others: then several are slow."""

_SLOW_SYNC_MS = 5_000
"""Nobody computes an assignment for so long, however long the session is."""

_VIEW_MS = 10_000
"""How long a new leader may take to learn of its topics: its first metadata, and the poll in which it joins again."""

_AT_ONCE_MS = 500
"""So soon after a rebalance a client that sends another JoinGroup has not got the answer to the one before."""

_RESOLVED = "expression_resolved"
_CHANGED = "subscription_changed"

Key = tuple[str, str, str, str, int]


class What(Enum):
    """The kind of a disturbance."""

    DEPARTED = "departed"
    REPLACED = "replaced"
    ARRIVED = "arrived"
    REQUESTED = "requested"
    SLOW_JOIN = "slow join"
    SLOW_SYNC = "slow sync"
    LOADED = "loaded"
    REFUSED = "refused"
    """A process asked again and again for the instance id of a living one."""
    NOT_ADMITTED = "not admitted"
    """A process asked, perhaps again and again, to join, and may not."""
    GREW = "topics grew"
    """More partitions of a topic were assigned than ever before."""
    LOCKS_ENDED = "locks ended"
    """Locks of a member of a share group ended, with which it was not done, while it went on as a member."""
    GIVEN_BACK = "given back"
    """A member released records that had been delivered before."""
    GIVEN_UP = "given up"
    """Records are delivered to nobody any more, and nobody was done with them."""
    HELD = "held"
    """A member renews the locks of records again and again."""


class Disturbance(NamedTuple):
    """One thing to explain. `life` is that of the member, where there is one."""

    what: What
    group: str
    from_ms: int
    to_ms: int
    fact: Fact
    life: Life | None = None

    @property
    def member(self) -> Member | None:
        """Whom it happened to."""
        return self.fact.member if self.life is None else self.life.member

    @property
    def name(self) -> str:
        """The client's name; empty if it has none."""
        return "" if self.member is None else self.member.name

    @property
    def key(self) -> Key:
        """Identifies it. One record or line may be about several members."""
        member_id = "" if self.member is None else self.member.member_id
        return (self.group, self.what.value, self.fact.source, member_id, self.from_ms)


def disturbances(group: Group, known: Known) -> list[Disturbance]:
    """Those of one group, in order of time."""
    found = [
        *_of_lives(group, known),
        *_requests(group, known),
        *_long_phases(group, known),
        *_loads(group),
        *_late(group),
        *_refused(group, known),
        *_not_admitted(group),
        *_of_records(group, known),
    ]
    return sorted(found, key=lambda each: (each.from_ms, each.to_ms))


def _of_lives(group: Group, known: Known) -> Iterator[Disturbance]:
    for life in group.lives:
        if life.joined is not None and (life.previous is None or _is_added_again(life.previous, known)):
            yield Disturbance(What.ARRIVED, group.name, life.began_ms, life.began_ms, life.joined, life)
        if life.gone is not None and not _is_retry(group, life):
            what = What.REPLACED if life.gone.kind is Kind.REPLACED else What.DEPARTED
            from_ms = life.silent_ms(known)
            to_ms = life.gone.ts_ms
            if life.next is not None and life.is_followed(known):
                to_ms = max(to_ms, life.next.began_ms)
            yield Disturbance(what, group.name, from_ms, to_ms, life.gone, life)


def _is_retry(group: Group, life: Life) -> bool:
    """Whether a static member had itself joined once more, before the rebalance of its first JoinGroup was over."""
    gone = life.gone
    if gone is None or gone.kind is not Kind.REPLACED or gone.activity is not None or life.joined is None:
        return False
    settled_ms = group.settled_ms(life.began_ms)
    is_unsettled = settled_ms is None or settled_ms > gone.ts_ms - _AT_ONCE_MS
    return gone.is_observed and life.joined.kind is Kind.JOINED and is_unsettled


def _is_added_again(before: Life, known: Known) -> bool:
    """Whether the successor of a life is none: its process had ended, and its client was not started again before much later."""
    has_left = (before.gone is not None and before.gone.kind is Kind.LEFT) or before.has_closed
    closed_ms = None if before.activity is None else before.activity.closed_ms
    has_ended = has_left or (closed_ms is not None and before.gone is not None and closed_ms <= before.gone.ts_ms)
    return not before.is_followed(known) and has_ended and before.is_same_process_as_next(known) is not True


def _requests(group: Group, known: Known) -> Iterator[Disturbance]:
    """Requests, except those that follow from an earlier rebalance, and have no reason of their own; and topics that have grown.

    A cooperative member joins again when it has revoked partitions: at most a session timeout after a rebalance. A leader
    whose view of topics is older than the group's does when it has got it, which takes a few requests.
    """
    protocol, changed_ms = "", None
    grown = _grown(group)
    asking = {id(fact) for fact in grown.values()}
    for number, fact in enumerate(group.facts):
        if fact.kind in (Kind.COMPLETED, Kind.JOINED, Kind.REPLACED):
            changed_ms = fact.ts_ms
            protocol = (fact.phases.protocol if fact.phases is not None else None) or protocol
        if number in grown:
            # Whoever asked for the rebalance did it for that, and whoever did not ask had not yet.
            request = grown[number]
            told = request if request.topic_changes else fact
            yield Disturbance(What.GREW, group.name, request.ts_ms, fact.ts_ms, told, group.life_of(request.member))
        if fact.kind is not Kind.REQUESTED or id(fact) in asking or _is_of_unknown_topics(fact):
            continue
        session_ms = known.session_ms(fact.member.member_id if fact.member else None)
        # Without its name, it may be a cooperative one.
        within_ms = session_ms if "cooperative" in protocol or not protocol else min(session_ms, _VIEW_MS)
        follows = changed_ms is not None and fact.ts_ms - changed_ms <= within_ms
        is_changed = fact.subscription is not None and bool(fact.subscription.added or fact.subscription.removed)
        # Somebody has to be the first who notices that a topic has grown.
        is_told = fact.reason in TOLD_BY_BROKER or any(change.has_grown for change in unheard(fact, group))
        if fact.reason == _RESOLVED and changed_ms is not None and fact.ts_ms - changed_ms <= HEARTBEAT_MS:
            continue  # a new member has brought its expression
        if fact.reason == _CHANGED and not is_changed and follows:
            continue  # it asks for another assignor than the member whose place it took
        if follows and not is_changed and not is_told and fact.says in (Says.NOTHING, Says.GOES_ON, Says.BEGINS):
            continue
        yield Disturbance(What.REQUESTED, group.name, fact.ts_ms, fact.ts_ms, fact, group.life_of(fact.member))


def _grown(group: Group) -> dict[int, Fact]:
    """The rebalances in which a topic had more partitions than ever before, by place, with what began them: a request, if there was one."""
    found: dict[int, Fact] = {}
    most: dict[str, int] = {}
    request: Fact | None = None
    for number, fact in enumerate(group.facts):
        if fact.kind is Kind.REQUESTED:
            request = request or fact
        if fact.kind is not Kind.COMPLETED or fact.phases is None:
            continue
        partitions = fact.phases.partitions or {}
        if any(count > most.get(topic, count) for topic, count in partitions.items()):
            found[number] = request or fact
        most |= {topic: max(count, most.get(topic, 0)) for topic, count in partitions.items()}
        request = None
    return found


def _is_of_unknown_topics(fact: Fact) -> bool:
    """Whether a client had no topics before, or has none now: it looks them up itself, and knows none as it joins, or when its broker was away."""
    found = fact.subscription
    if fact.reason not in TOLD_BY_BROKER or found is None:
        return False
    # Without a change of names it is that of an expression, which the broker resolves.
    return bool(found.removed) if not found.topics else found.added == found.topics and not found.removed


def _long_phases(group: Group, known: Known) -> Iterator[Disturbance]:
    completed = [fact for fact in group.facts if fact.kind is Kind.COMPLETED and fact.phases is not None]
    usual_ms = _usual_ms(_polling_ms(fact.phases) for fact in completed if fact.phases)
    # Where samples or commits tell how long a phase JOIN lasted, those of which they do not were short.
    usual_join_ms = _usual_ms(
        fact.phases.join_ms or 0
        for fact in completed
        if fact.phases and fact.phases.join_ms != 0 and any(_awaited(group, fact, fact.phases))
    )
    for fact in completed:
        phases = fact.phases
        assert phases is not None
        leader_id = phases.leader_id
        if phases.sync_ms is not None and phases.sync_ms > min(known.session_ms(leader_id) / 2.5, _SLOW_SYNC_MS):
            # The leader sends no heartbeats while it assigns, and a third of the session timeout may have passed before.
            life = group.life_with(leader_id)
            began_ms = fact.ts_ms - phases.sync_ms
            yield Disturbance(What.SLOW_SYNC, group.name, began_ms, fact.ts_ms, fact, life)
        if phases.waited_for_pending:
            continue  # members had joined in time, or nobody knows whether they would have
        last, wait_ms = phases.last_to_join, phases.last_wait_ms
        if last is None or wait_ms is None or not phases.is_last_observed:
            yield from _long_join(group, fact, phases, known, usual_join_ms)
            continue
        # By its next heartbeat a member knows that it has to join again, and then its application has to poll. Polls of
        # healthy members take about as long as those of the others.
        # In the new protocol the wait begins when it is told, with its heartbeat.
        heartbeat_ms = 0 if phases.has_epochs else min(known.session_ms(last.member_id) / 2, HEARTBEAT_MS)
        least_ms = heartbeat_ms + POLL_MS if phases.last_told_ms is None else 2 * POLL_MS
        is_long = _polling_ms(phases) > max(least_ms, _UNUSUAL * usual_ms)
        if is_long and wait_ms > min(_UNUSUAL * (phases.other_wait_ms or 0), _POLLS_MS):
            began_ms = fact.ts_ms - (phases.sync_ms or 0) - (phases.join_ms or wait_ms)
            if phases.has_epochs:  # it may have been told in an epoch before
                began_ms = fact.ts_ms - max(phases.join_ms or 0, wait_ms) - HEARTBEAT_MS
            life = group.life_of(last)
            yield Disturbance(What.SLOW_JOIN, group.name, began_ms, began_ms + wait_ms, fact, life)


def _awaited(group: Group, fact: Fact, phases: Phases) -> Iterator[Life]:
    """Who had to learn that it has to join again: who has just begun a phase JOIN, as the first of a group, is waited for by nobody."""
    began_ms = fact.ts_ms - (phases.sync_ms or 0) - (phases.join_ms or 0)
    return (life for life in group.alive_at(began_ms - 1) if life.began_ms < began_ms - BEGINS_MS)


def _polling_ms(phases: Phases) -> int:
    """How long the last to join let the others wait after it had been told, or, where it is not known when that was, in all."""
    return (phases.last_wait_ms or 0) - (phases.last_told_ms or 0)


def _usual_ms(durations_ms: Iterable[int]) -> float:
    """The median of a group's; of a few what at least two of them took, of one 0."""
    found = sorted(durations_ms)
    return median(found) if len(found) > _USUAL_COUNT else max(found[-2:-1], default=0)


def _long_join(group: Group, fact: Fact, phases: Phases, known: Known, usual_ms: float) -> Iterator[Disturbance]:
    """A JOIN phase of a source that has not seen who was last: somebody was, unless a member was gone or the group new.

    `usual_ms`: of this group. Members learn from their next heartbeat that they have to join, and no source tells how rare these are; a third
    of the session at most. Where most phases are longer than that and a poll that is no slow one, most had a slow member.
    """
    least_ms = _UNUSUAL * HEARTBEAT_MS if phases.last_to_join is None else HEARTBEAT_MS + POLL_MS
    if phases.join_ms is None or phases.join_ms <= least_ms:
        return
    joined_ms = fact.ts_ms - (phases.sync_ms or 0)
    began_ms = joined_ms - phases.join_ms
    heartbeat_ms = max(
        (known.session_ms(life.member.member_id) / 3 for life in _awaited(group, fact, phases)), default=None
    )
    if heartbeat_ms is None or phases.join_ms <= min(_UNUSUAL * usual_ms, heartbeat_ms + 2 * POLL_MS):
        return
    # It may have waited for a member that was gone when it ended. Records are dated after phase SYNC.
    may_have_waited = any(
        life.gone is not None
        and (began_ms <= life.gone.ts_ms <= joined_ms or (not fact.is_observed and life.gone.source == fact.source))
        for life in group.lives
    )
    if not may_have_waited:
        last = fact._replace(member=phases.last_to_join)
        yield Disturbance(What.SLOW_JOIN, group.name, began_ms, joined_ms, last, group.life_of(phases.last_to_join))


def _late(group: Group) -> Iterator[Disturbance]:
    """Members that had found a coordinator that was loaded, and joined again much later than the others.

    A consumer looks for its coordinator in the background, or with its last request, and joins when its application polls.
    """
    loaded = [fact.ts_ms for fact in group.facts if fact.kind is Kind.LOADED]
    for began_ms, ended_ms in pairwise((*loaded, None)):
        assert began_ms is not None
        back: list[tuple[int, Life, Fact]] = []
        for life in group.lives:
            fact, before = life.joined, life.previous
            if is_made_by_client(life.member.member_id):
                continue  # members of the new protocol stay members, and need not join again
            if fact is None or fact.activity is None or before is None or not before.began_ms < began_ms <= fact.ts_ms:
                continue
            if before.activity is not None and before.activity.was_there_since(began_ms):
                continue  # it had been there again, and this is another process
            if ended_ms is None or fact.ts_ms < ended_ms:
                found_ms = max(fact.activity.opened_ms, began_ms)
                back.append((found_ms, life, fact))
        for found_ms, life, fact in back:
            others = [other.ts_ms - at_ms for at_ms, it, other in back if it is not life]
            if fact.ts_ms - found_ms > _UNUSUAL * max(HEARTBEAT_MS, median(others) if others else 0):
                yield Disturbance(What.SLOW_JOIN, group.name, found_ms, fact.ts_ms, fact, life)


def _refused(group: Group, known: Known) -> Iterator[Disturbance]:
    """Requests for the instance id of a member that was heard of after them. Who asks for that of a dead one is its successor."""
    for life in group.lives:
        session_ms = known.session_ms(life.member.member_id)
        heard_ms = known.end_ms - session_ms if life.gone is None else life.silent_ms(known)
        for part in _runs((fact for fact in life.refused if fact.ts_ms < heard_ms), session_ms):
            yield Disturbance(What.REFUSED, group.name, part[0].ts_ms, part[-1].ts_ms, part[0], life)


def _not_admitted(group: Group) -> Iterator[Disturbance]:
    """Requests of clients that may not join, until nothing was heard of one for a minute."""
    of_clients: dict[str, list[Fact]] = {}
    for fact in group.facts:
        if fact.kind is Kind.NOT_ADMITTED and fact.member is not None:
            of_clients.setdefault(fact.member.name, []).append(fact)
    for facts in of_clients.values():
        for part in _runs(facts, RETURN_MS):
            yield Disturbance(What.NOT_ADMITTED, group.name, part[0].ts_ms, part[-1].ts_ms, part[0])


def _runs(facts: Iterable[Fact], most_ms: int) -> list[list[Fact]]:
    """Parts of facts, which are in order of time, without a longer pause than that."""
    parts: list[list[Fact]] = []
    for fact in facts:
        if not parts or fact.ts_ms - parts[-1][-1].ts_ms > most_ms:
            parts.append([])
        parts[-1].append(fact)
    return parts


def _of_records(group: Group, known: Known) -> Iterator[Disturbance]:
    """Deliveries that failed, but for those that a member took along when it was gone."""
    for fact in group.facts:
        records = fact.records
        if records is None:
            continue
        life = group.life_of(fact.member)
        match fact.kind:
            case Kind.ARCHIVED:
                what = What.GIVEN_UP
            case Kind.HELD:
                what = What.HELD
            case _ if records.ended_by == DeliveryEnd.LOCK_TIMEOUT and not _was_silent(life, fact, known):
                what = What.LOCKS_ENDED
            case _ if records.ended_by == DeliveryEnd.RELEASED and _has_had(group, fact):
                what = What.GIVEN_BACK  # once is what a release is for
            case _:
                continue
        yield Disturbance(what, group.name, fact.ts_ms - records.held_ms, fact.ts_ms, fact, life)


def _has_had(group: Group, fact: Fact) -> bool:
    """Whether the same member had given back some of these records before."""
    return any(
        each.records is not None
        and fact.records is not None
        and each.ts_ms < fact.ts_ms
        and each.member == fact.member
        and each.records.ended_by == DeliveryEnd.RELEASED
        and each.records.shares_any(fact.records)
        for each in group.deliveries_near(fact)
    )


def _was_silent(life: Life | None, fact: Fact, known: Known) -> bool:
    """Whether nothing was heard of a member any more when its locks ended."""
    if life is None or life.gone is None or life.gone.kind not in (Kind.EXPIRED, Kind.LEFT):
        return False
    return life.silent_ms(known) <= fact.ts_ms


def _loads(group: Group) -> Iterator[Disturbance]:
    for before, fact in pairwise((None, *group.facts)):
        if fact is not None and fact.kind is Kind.LOADED:
            began_ms = before.ts_ms if before is not None and before.kind is Kind.STOPPING else fact.ts_ms
            yield Disturbance(What.LOADED, group.name, began_ms, fact.ts_ms, fact)
