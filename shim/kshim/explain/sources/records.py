"""Records of `__consumer_offsets` to profiles of members, and to facts where no other source has them.

A record of key type 2 is written when a rebalance is over, and holds the members that then were. What happened between
two of them is inferred from their difference and from commits: a consumer commits before it joins again and when it is
closed, so its last commit is the last sign of life. Commits do not say whose they are: the owner of the partition's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from statistics import median
from typing import NamedTuple

from kshim.explain.facts import (
    HEARTBEAT_MS,
    NOTHING_CHANGED,
    POLL_MS,
    UNSEEN,
    Committed,
    Fact,
    Kind,
    Member,
    Phases,
    Profile,
    Subscription,
)
from kshim.explain.sources.samples import Noticed, Presence
from kshim_protocol.codec import codec
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kshim_protocol.internal.group_metadata import GroupMetadataValue, MemberMetadata

TopicPartition = tuple[str, int]
Commits = Mapping[TopicPartition, Sequence[int]]
"""Times of commits of a group's partitions, in order."""

_SILENT = 0.62
"""Who has committed nothing for this share of its session timeout failed: others commit when they learn of a rebalance,
within a third of it, and rejoin."""


_KNOWN = 20
"""So many commits of a partition, the newest, tell how much time there usually is between two."""
_ENOUGH = 3
_SPARSE = 0.25
"""Who leaves out so many of the partitions that it could commit has often nothing new."""
_MISSED = 3
"""Who has missed so many of the usual commits has stopped committing."""
EARLY = 0.99
"""A timer is as late as the client is busy, but not that early."""
_LONG_JOIN_MS = 3 * HEARTBEAT_MS
"""In so long a phase JOIN all have joined but the one for which they wait; in a shorter one several may not have committed by chance."""
_NEVER = -1
"""Before all times."""
_AT_ONCE_MS = 200
"""Commits that follow each other faster are one: of several partitions, or a last one of a consumer that closes."""


class Seat(NamedTuple):
    """A member in a record. `partitions`: what it was assigned, or of each topic the last of them."""

    profile: Profile
    partitions: tuple[TopicPartition, ...]
    last_commit_ms: int | None = None
    """Of its partitions before the next record, where it is known with the record; else `LastCommit` finds it."""

    @property
    def member_id(self) -> str:
        """Its id."""
        return self.profile.member.member_id


LastCommit = Callable[[Seat, int], int | None]
"""When a member committed last until a time."""


UsualPause = Callable[[Seat, int], int | None]
"""How much time there was between two commits of a member's partitions until a time; None: there were too few."""


class Snapshot(NamedTuple):
    """A record of a group. `seats`: its members; none if it was empty or deleted."""

    ts_ms: int
    group: str
    source: str
    seats: tuple[Seat, ...] = ()
    generation_id: int | None = None
    """None: the group was deleted."""
    protocol: str | None = None
    leader_id: str | None = None
    joined_ms: int = -1
    """When the JOIN phase ended; not above 0: unknown."""
    assigned: Mapping[str, int] | None = None
    """How many partitions each topic has, where the seats do not tell."""


def snapshot_of(ts_ms: int, group: str, source: str, value: GroupMetadataValue | None) -> Snapshot:
    """A record with this value; None: a tombstone."""
    if value is None:
        return Snapshot(ts_ms, group, source)
    seats = tuple(Seat(_profile(each), _partitions(each)) for each in value.members)
    return Snapshot(
        ts_ms, group, source, seats, value.generation, value.protocol, value.leader, value.current_state_timestamp
    )


def last_commit_in(commits: Commits) -> LastCommit:
    """Looks for the last commit of any partition that a member owned."""

    def last(seat: Seat, until_ms: int) -> int | None:
        found = (last_before(commits.get(part, ()), until_ms) for part in seat.partitions)
        return max((ts_ms for ts_ms in found if ts_ms is not None), default=None)

    return last


def usual_pause_in(commits: Commits) -> UsualPause:
    """Looks for the time between two commits of the partitions of a member, whoever they belonged to."""

    def usual(seat: Seat, until_ms: int) -> int | None:
        return usual_gap_ms(seat.partitions, commits, until_ms)

    return usual


def profiles(values: Iterable[GroupMetadataValue]) -> dict[str, Profile]:
    """Timeouts and subscriptions of all members, by member id."""
    return {each.member_id: _profile(each) for value in values for each in value.members}


def _profile(row: MemberMetadata) -> Profile:
    return Profile(member_of(row), row.session_timeout, row.rebalance_timeout, _topics(row.subscription))


def partitions(snapshot: Snapshot) -> dict[str, int]:
    """How many partitions each topic has, as far as they are assigned: one more than the highest of them."""
    found: dict[str, int] = dict(snapshot.assigned or {})
    for seat in snapshot.seats:
        for topic, number in seat.partitions:
            found[topic] = max(found.get(topic, 0), number + 1)
    return found


def with_partitions(fact: Fact, record_of: Callable[[str, int], Snapshot | None]) -> Fact:
    """Adds to the end of a rebalance what was assigned; `record_of` looks for the record of a group's generation."""
    phases = fact.phases
    if phases is None or phases.generation_id is None or phases.partitions is not None:
        return fact
    if (found := record_of(fact.group, phases.generation_id)) is None:
        return fact
    return fact._replace(phases=phases._replace(partitions=partitions(found)))


def committed(newest: Iterable[Snapshot], member_id: str, commits: Commits, at_ms: int) -> Committed | None:
    """What commits tell of a member until a time, since it has had its partitions; None: nothing.

    `newest`: the records of its group until then, the newest first.
    """
    since: dict[TopicPartition, int] = {}
    for snapshot in newest:
        mine = next((seat for seat in snapshot.seats if seat.member_id == member_id), None)
        if mine is None and not since and at_ms - snapshot.ts_ms <= _AT_ONCE_MS:
            continue  # the record of its replacement
        if mine is None or (since and not since.keys() & set(mine.partitions)):
            break
        since |= {part: snapshot.ts_ms for part in mine.partitions if part in since or not since}
    if not since:
        return None
    own = [_within(commits.get(part, ()), ts_ms, at_ms) for part, ts_ms in since.items()]
    times = sorted({at for each in own for at in each})
    usual_ms = _usual_of_member_ms(times[-_KNOWN:], since, commits, at_ms)
    if not times:
        return None if usual_ms is None else Committed(min(since.values()), usual_ms, is_none=True)
    before = [at for at in times if times[-1] - at >= _AT_ONCE_MS]
    is_early = _ends_early(own, times[-1], commits)
    is_sparse = _leaves_out(own, times[-_KNOWN:])
    return Committed(times[-1], usual_ms, before[-1] if before else None, is_early=is_early, is_sparse=is_sparse)


def _leaves_out(own: Sequence[Sequence[int]], times: Sequence[int]) -> bool:
    """Whether a member's commits, at these times, were often not of all of its partitions. `own`: those of each.

    Java and kafka-python commit all that they have, librdkafka and franz-go what has changed.
    """
    moments = [at for before, at in pairwise((0, *times)) if at - before >= _AT_ONCE_MS]
    expected = made = 0
    for each in own:
        expected += len(moments)
        made += sum(bool(_within(each, at, at + _AT_ONCE_MS)) for at in moments)
    return expected - made >= _SPARSE * expected


def _ends_early(own: Iterable[Sequence[int]], end_ms: int, commits: Commits) -> bool:
    """Whether the last of a member's commits, at `end_ms`, came sooner than a timer would have sent it. `own`: those of each partition.

    As far as the pauses between others differ, of the partition or, where there were too few, of its group, a shorter one tells
    nothing. `kshim_pipeline.diagnosis.members` has the same rule.
    """
    last = [times for times in own if len(times) > 1 and times[-1] == end_ms]
    own_ms = [_least_ms(_pauses([times], end_ms - 1)) for times in last]
    of_group_ms = _least_ms(_pauses(commits.values(), end_ms - 1)) if None in own_ms else None
    least_ms = [of_group_ms if each is None else each for each in own_ms]
    return any(least is not None and times[-1] - times[-2] < least for times, least in zip(last, least_ms, strict=True))


def _least_ms(pauses: list[int]) -> int | None:
    """A timer hardly makes a pause shorter than this, as others show; None: there are too few."""
    if len(pauses) < _ENOUGH:
        return None
    pauses.sort()
    least, usual = pauses[0], pauses[3 * len(pauses) // 4]
    return int(EARLY * least - (usual - least) / 2)


def _pauses(partitions: Iterable[Sequence[int]], until_ms: int) -> list[int]:
    """Between the newest commits of each partition until a time."""
    found: list[int] = []
    for times in partitions:
        end = bisect_right(times, until_ms)
        found += (after - before for before, after in pairwise(times[max(end - _KNOWN, 0) : end]))
    return found


def _usual_of_member_ms(
    mine: Sequence[int], partitions: Iterable[TopicPartition], commits: Commits, until_ms: int
) -> int | None:
    """The time between two commits of a member, `mine`, whichever of its partitions they are of: three of four are no longer.

    Where it has committed too rarely, the time between those of its partitions or, as members of a group are mostly of one
    application, of all.
    """
    gaps = sorted(after - before for before, after in pairwise(mine) if after - before >= _AT_ONCE_MS)
    if len(gaps) >= _ENOUGH:
        return gaps[3 * len(gaps) // 4]
    usual_ms = usual_gap_ms(partitions, commits, until_ms)
    return usual_gap_ms(commits, commits, until_ms) if usual_ms is None else usual_ms


def usual_gap_ms(partitions: Iterable[TopicPartition], commits: Commits, until_ms: int) -> int | None:
    """The time between two commits of partitions, whoever they belonged to; a few at once, as when it closes, are one."""
    pauses = _pauses((commits.get(part, ()) for part in partitions), until_ms)
    gaps = [gap for gap in pauses if gap >= _AT_ONCE_MS]
    return int(median(gaps)) if len(gaps) >= _ENOUGH else None


def last_to_join(snapshot: Snapshot, commits: Commits, began_ms: int, joined_ms: int) -> Member | None:
    """Whom the members of a record waited for in a phase JOIN, as commits tell; None: they do not.

    Who processes records for long commits nothing meanwhile. The others commit as usual until they learn of the rebalance, and
    most clients once more as they join. So the only one of several that has not committed since it began is the last, also where
    it has nothing to commit.
    """
    quiet = [seat for seat in snapshot.seats if not any(_lasts(seat, commits, began_ms, joined_ms))]
    if len(quiet) == 1 and len(snapshot.seats) > 2 and joined_ms - began_ms > _LONG_JOIN_MS:
        return quiet[0].profile.member
    joining = [seat for seat in snapshot.seats if _commits_as_it_joins(seat, commits, joined_ms)]
    if len(joining) == 1:
        return joining[0].profile.member
    silences: list[tuple[int, Seat]] = []
    for seat in snapshot.seats:
        times = sorted(
            {at for part in seat.partitions for at in _within(commits.get(part, ()), snapshot.ts_ms, joined_ms)}
        )
        if not times:
            if seat.partitions:
                return None  # it commits nothing, so that it may be the one
            continue
        ends = [*times[1:], joined_ms]
        silences.append((max(end - at for at, end in zip(times, ends, strict=True) if end >= began_ms), seat))
    if len(silences) < 2:
        return None
    silences.sort(key=lambda row: row[0])
    (other_ms, _), (longest_ms, last) = silences[-2:]
    usual_ms = usual_gap_ms(last.partitions, commits, began_ms)
    return last.profile.member if usual_ms is not None and longest_ms - other_ms > max(usual_ms, _AT_ONCE_MS) else None


def _commits_as_it_joins(seat: Seat, commits: Commits, joined_ms: int) -> bool:
    """Whether a member committed just when a phase JOIN ended, after a pause much longer than its usual one: it had worked on records."""
    last = last_commit_in(commits)
    last_ms, before_ms = last(seat, joined_ms), last(seat, joined_ms - _AT_ONCE_MS)
    if before_ms is None or last_ms == before_ms:
        return False
    newest = [_within(commits.get(part, ()), 0, before_ms)[-_KNOWN:] for part in seat.partitions]
    usual_ms = _usual_of_member_ms(sorted(chain(*newest))[-_KNOWN:], seat.partitions, commits, before_ms)
    return usual_ms is not None and joined_ms - before_ms > _MISSED * usual_ms


def quiet_since_ms(snapshot: Snapshot, commits: Commits, joined_ms: int) -> int | None:
    """Since when no member of a record has committed until a phase JOIN ended, much later than usual: they waited in it.

    None: they have not, or never commit often.
    """
    seen = {seat: max(_lasts(seat, commits, snapshot.ts_ms, joined_ms), default=None) for seat in snapshot.seats}
    last_ms = max((ts_ms for ts_ms in seen.values() if ts_ms is not None), default=None)
    parts = [part for seat in snapshot.seats for part in seat.partitions]
    usual_ms = None if last_ms is None else usual_gap_ms(parts, commits, last_ms)
    if last_ms is None or usual_ms is None or joined_ms - last_ms <= 3 * usual_ms:
        return None
    return last_ms


def _lasts(seat: Seat, commits: Commits, from_ms: int, to_ms: int) -> Iterator[int]:
    for part in seat.partitions:
        if found := _within(commits.get(part, ()), from_ms, to_ms - _AT_ONCE_MS):
            yield found[-1]


def _within(times: Sequence[int], from_ms: int, to_ms: int) -> Sequence[int]:
    return times[bisect_left(times, from_ms) : bisect_right(times, to_ms)]


def facts_of_records(
    snapshots: Iterable[Snapshot],
    last_commit: LastCommit,
    presence: Presence | None = None,
    usual_pause: UsualPause | None = None,
) -> Iterator[Fact]:
    """What happened to one group between its records, in order of time; `presence`: what samples show of it."""
    for before, after in pairwise(chain((None,), snapshots)):
        assert after is not None
        if before is None:
            yield from (_fact(after, Kind.JOINED, seat) for seat in after.seats)
        else:
            found = list(_between(before, after, last_commit, presence, usual_pause))
            yield from sorted(found, key=lambda fact: fact.ts_ms)


def _between(
    before: Snapshot,
    after: Snapshot,
    last_commit: LastCommit,
    presence: Presence | None,
    usual_pause: UsualPause | None,
) -> Iterator[Fact]:
    old = {seat.member_id: seat for seat in before.seats}
    new = {seat.member_id: seat for seat in after.seats}
    instances = {name: seat for seat in before.seats if (name := seat.profile.member.instance_id) is not None}
    gone = [seat for member_id, seat in old.items() if member_id not in new]
    is_rebalance = before.generation_id != after.generation_id
    seen = _Seen(before, after, presence)
    for seat in new.values():
        if seat.member_id in old:
            continue
        came = seen.came(seat)
        replaced = instances.get(seat.profile.member.instance_id or "")
        is_overdue = replaced is not None and is_rebalance and _is_overdue(replaced, after, last_commit)
        fact = _fact(after, Kind.JOINED, seat)
        if came is not None:
            fact = fact._replace(ts_ms=came.ts_ms, late_ms=came.late_ms, is_observed=True)
            is_overdue = replaced is not None and (seen.gone(replaced) or came).ts_ms < came.ts_ms
        if replaced is not None and replaced.member_id not in new and not is_overdue:
            gone.remove(replaced)
            # There is a record of it at once, if there is no rebalance for it.
            is_known = not is_rebalance or fact.is_observed
            yield fact._replace(kind=Kind.REPLACED, other_id=replaced.member_id, is_observed=is_known)
        else:
            yield fact
    for seat in gone:
        usual_ms = None if usual_pause is None else usual_pause(seat, before.ts_ms)
        yield _departure(before, after, seat, last_commit, seen, usual_ms)
    if not after.seats:
        yield Fact(after.ts_ms, after.group, Kind.EMPTIED, after.source, is_observed=False)
        return
    if set(old) == set(new) and before.generation_id is not None and is_rebalance:
        changed = [seat for seat in new.values() if seat.profile.topics != old[seat.member_id].profile.topics]
        for seat in changed:
            subscription = changed_subscription(old[seat.member_id].profile, seat.profile)
            yield _fact(after, Kind.REQUESTED, seat)._replace(reason="metadata_changed", subscription=subscription)
        if not changed:
            is_same = partitions(before) == partitions(after) != {}
            asked = _fact(after, Kind.REQUESTED, new.get(after.leader_id or "", after.seats[0]))
            yield asked._replace(reason=NOTHING_CHANGED) if is_same else asked
    if not is_rebalance:
        return  # a static member was replaced, for which there is no rebalance
    sync_ms = after.ts_ms - after.joined_ms if 0 < after.joined_ms <= after.ts_ms else None
    join_ms = None if seen.began_ms is None else _joined_ms(after) - seen.began_ms
    phases = Phases(join_ms, sync_ms, after.protocol, after.leader_id, None, None, partitions=partitions(after))
    phases = phases._replace(generation_id=after.generation_id)
    yield Fact(after.ts_ms, after.group, Kind.COMPLETED, after.source, is_observed=False, phases=phases)


class _Seen:
    """What samples show of the time between two records of a group."""

    def __init__(self, before: Snapshot, after: Snapshot, presence: Presence | None) -> None:
        self._before, self._after, self._presence = before, after, presence
        self.began_ms: int | None = None
        """When its members had to join again; None: no sample shows that."""
        if presence is not None and 0 < after.joined_ms <= after.ts_ms:
            self.began_ms = presence.began_ms(before.ts_ms, after.joined_ms)

    def came(self, seat: Seat) -> Noticed | None:
        """When a new member was there."""
        if self._presence is None:
            return None
        return self._presence.came(seat.member_id, self._before.ts_ms, _joined_ms(self._after))

    def gone(self, seat: Seat) -> Noticed | None:
        """When a member was no longer there."""
        if self._presence is None:
            return None
        return self._presence.gone(seat.member_id, self._before.ts_ms, _joined_ms(self._after))


def changed_subscription(before: Profile, after: Profile) -> Subscription:
    """What a member subscribes to, and what it has added and removed."""
    added, removed = set(after.topics) - set(before.topics), set(before.topics) - set(after.topics)
    return Subscription(after.topics, tuple(sorted(added)), tuple(sorted(removed)))


def with_subscription(fact: Fact, profiles: Iterable[tuple[int, Profile]]) -> Fact:
    """A request of a member with how its subscription differs in the records before and after it; `profiles`: its, with their times."""
    if fact.kind is not Kind.REQUESTED or fact.subscription is not None:
        return fact
    before = after = None
    for ts_ms, profile in profiles:
        if ts_ms > fact.ts_ms:
            after = profile
            break
        before = profile
    if before is None or after is None:
        return fact
    return fact._replace(subscription=changed_subscription(before, after))


def with_arrivals(facts: Sequence[Fact]) -> list[Fact]:
    """Moves the arrival of a member to the begin of the phase JOIN that it began, where commits tell when that was.

    It has begun it where it is the only new one in the record, and nobody left; if two are gone, one of them may have.
    """
    began: dict[str, int] = {}
    for before, fact in pairwise((None, *(fact for fact in facts if fact.kind is Kind.COMPLETED))):
        phases = None if fact is None else fact.phases
        if fact is not None and phases is not None and phases.join_ms is not None:
            began_ms = fact.ts_ms - (phases.sync_ms or 0) - phases.join_ms
            began[fact.source] = max(began_ms, 0 if before is None else before.ts_ms)
    came = Counter(fact.source for fact in facts if fact.kind is Kind.JOINED)
    gone = Counter(fact.source for fact in facts if fact.kind in (Kind.LEFT, Kind.EXPIRED))
    left = {fact.source for fact in facts if fact.kind is Kind.LEFT or gone[fact.source] > 1}
    moved = [
        fact._replace(ts_ms=began[fact.source])
        if fact.kind is Kind.JOINED and fact.source in began and came[fact.source] == 1 and fact.source not in left
        else fact
        for fact in facts
    ]
    return sorted(moved, key=lambda fact: fact.ts_ms)


def with_loads(
    facts: Sequence[Fact],
    elections: Iterable[tuple[int, int]],
    heard_ms: Callable[[int], int | None] = lambda _: None,
    as_seen: Callable[[int, int], tuple[int, int]] = lambda *gap: gap,
) -> list[Fact]:
    """Adds when a coordinator read the group: between the last record of a leader epoch of its partition and the first of the next.

    A group without members has nothing to be read for. Who committed until the stop, and is gone from the first record after it, was
    not silent for all that time: nothing is known of how it was gone. `heard_ms`: when the last commit of any group was, until a time: a
    broker that is being stopped goes on writing for a while; None: there was none. `as_seen`: when it did not answer between two times.
    """
    found: list[Fact] = []
    for last_ms, first_ms in elections:
        stopped_ms, began_ms = as_seen(last_ms, first_ms)
        ends = [fact for fact in facts if fact.kind in (Kind.COMPLETED, Kind.EMPTIED)]
        before = [fact for fact in ends if fact.ts_ms <= stopped_ms]
        if before and before[-1].kind is Kind.COMPLETED:
            group, source = before[-1].group, f"records of a new leader at {began_ms}"
            found.append(Fact(stopped_ms, group, Kind.STOPPING, source, is_observed=False))
            found.append(Fact(began_ms, group, Kind.LOADED, source, is_observed=False))
            first = next((fact.source for fact in ends if fact.ts_ms >= began_ms), None)
            heard_until_ms = heard_ms(last_ms) or last_ms
            facts = [
                fact._replace(ts_ms=began_ms, kind=Kind.LEFT, reason=UNSEEN, client_reason=None)
                if fact.source == first and _committed_until(fact, heard_until_ms)
                else fact
                for fact in facts
            ]
    return sorted([*found, *facts], key=lambda fact: fact.ts_ms)


def _committed_until(fact: Fact, stopped_ms: int) -> bool:
    """Whether a member of which no sample tells when it was gone had committed as usual when the coordinator was stopped, and not since."""
    last = fact.committed
    if fact.is_observed or fact.kind not in (Kind.LEFT, Kind.EXPIRED):
        return False
    if last is None or last.is_none or last.usual_ms is None:
        return False
    return 0 <= stopped_ms - last.last_ms <= _MISSED * last.usual_ms


def with_stops(
    facts: Sequence[Fact], elections: Iterable[tuple[int, int]], heard_ms: Callable[[int], int | None] = lambda _: None
) -> list[Fact]:
    """Adds to the facts of a log when a broker was stopped of which the log says only that it read the group again.

    After its last record of a leader epoch. A Kafka that was killed, and is back before it is fenced, goes on in the same epoch: then after
    the last commit of any group. `heard_ms`: when that was, until a time; None: there was none.
    """
    loads = [fact for fact in facts if fact.kind is Kind.LOADED]
    stops_ms = [fact.ts_ms for fact in facts if fact.kind is Kind.STOPPING]
    elections = sorted(elections)
    found: list[Fact] = []
    for before, load in pairwise((None, *loads)):
        assert load is not None
        since_ms = 0 if before is None else before.ts_ms
        if any(since_ms <= ts_ms <= load.ts_ms for ts_ms in stops_ms):
            continue
        of_epochs = (
            stopped_ms for stopped_ms, began_ms in elections if since_ms <= stopped_ms < load.ts_ms <= began_ms
        )
        stopped_ms = next(of_epochs, None) or heard_ms(load.ts_ms)
        if stopped_ms is not None and stopped_ms >= since_ms:
            found.append(load._replace(ts_ms=stopped_ms, kind=Kind.STOPPING, is_observed=False, reason=""))
    return sorted([*found, *facts], key=lambda fact: fact.ts_ms)


def _is_overdue(seat: Seat, after: Snapshot, last_commit: LastCommit) -> bool:
    """Whether the session of a static member had expired before another process joined with its instance id, in a rebalance."""
    last_ms = last_commit(seat, after.ts_ms)
    return last_ms is not None and after.ts_ms - last_ms > seat.profile.session_ms + HEARTBEAT_MS + POLL_MS


def _departure(
    before: Snapshot, after: Snapshot, seat: Seat, last_commit: LastCommit, seen: _Seen, usual_ms: int | None
) -> Fact:
    """It is known when a member was gone if a sample shows it; else it was when the next record was written.

    `usual_ms`: the time between two commits of its partitions before they were its.
    """
    noticed = seen.gone(seat)
    gone_ms, late_ms = noticed or (after.ts_ms, 0)
    left = _fact(after, Kind.LEFT, seat)._replace(ts_ms=gone_ms, late_ms=late_ms)
    expired = left._replace(kind=Kind.EXPIRED, is_observed=noticed is not None)
    session_ms = seat.profile.session_ms
    rebalance_ms = max(seat.profile.rebalance_ms, session_ms)
    waited_ms = 0 if noticed is None or seen.began_ms is None else gone_ms - seen.began_ms
    last_ms = last_commit(seat, gone_ms)
    awaited_ms = _awaited_since_ms(before, after, last_commit)
    if noticed is None and awaited_ms is not None and seat.member_id == before.leader_id:
        return expired._replace(ts_ms=_joined_ms(after), state="CompletingRebalance")
    is_silent = waited_ms > HEARTBEAT_MS and (last_ms is None or gone_ms - last_ms > HEARTBEAT_MS)
    if last_ms is None or last_ms < before.ts_ms:
        if is_silent and waited_ms <= session_ms + POLL_MS:
            return expired  # it was still a member when the others joined again
        if usual_ms is None or _joined_ms(after) - _joined_ms(before) < max(session_ms, _MISSED * usual_ms):
            return left._replace(reason=UNSEEN)
        last_ms = before.ts_ms  # others had committed what it was assigned: it has never gone on with that
    silent_ms = gone_ms - last_ms if noticed is not None else (awaited_ms or _joined_ms(after)) - last_ms
    if silent_ms < _SILENT * session_ms and not is_silent:
        return left if noticed is not None else left._replace(ts_ms=max(last_ms, before.ts_ms))
    is_dynamic = seat.profile.member.instance_id is None
    if is_dynamic and rebalance_ms > 1.2 * session_ms and silent_ms > (session_ms + rebalance_ms) / 2:
        return left._replace(client_reason="consumer poll timeout has expired (inferred)")
    if noticed is not None:
        return expired
    return expired._replace(ts_ms=max(min(last_ms + session_ms, gone_ms), before.ts_ms))


def _awaited_since_ms(before: Snapshot, after: Snapshot, last_commit: LastCommit) -> int | None:
    """When a leader was heard of last that is gone, if one generation has no record, and the next one began a session later: its assignment never came.

    A leader that goes on as a member is that of the next generation, too. None: it did not happen.
    """
    if before.generation_id is None or after.generation_id != before.generation_id + 2:
        return None
    leader = next((seat for seat in before.seats if seat.member_id == before.leader_id), None)
    if leader is None or any(seat.member_id == leader.member_id for seat in after.seats):
        return None
    last_ms = last_commit(leader, after.ts_ms)
    is_long = last_ms is not None and _joined_ms(after) - last_ms >= _SILENT * leader.profile.session_ms
    return last_ms if is_long else None


def _joined_ms(snapshot: Snapshot) -> int:
    """When its phase JOIN ended: sessions begin anew then, and one that has expired ends it."""
    return snapshot.joined_ms if snapshot.joined_ms > 0 else snapshot.ts_ms


def last_before(times: Sequence[int], ts_ms: int) -> int | None:
    """The last of these times that is not later."""
    place = bisect_right(times, ts_ms)
    return times[place - 1] if place else None


class LastOfAll:
    """When any partition was committed last until a time; None: none was. `commits`: times of each partition, in order.

    A coordinator reads its groups one after the other, with hardly a commit between: what is found is kept until the next one.
    """

    def __init__(self, commits: Iterable[Sequence[int]]) -> None:
        self._commits = tuple(commits)
        self._pauses: list[tuple[int, float]] = []
        """Between two commits of which no other one comes, without the second."""

    def __call__(self, until_ms: int) -> int | None:
        """See above."""
        found = next((pause for pause in self._pauses if pause[0] <= until_ms < pause[1]), None)
        if found is None:
            places = [(times, bisect_right(times, until_ms)) for times in self._commits]
            last_ms = max((times[place - 1] for times, place in places if place), default=_NEVER)
            next_ms = min((times[place] for times, place in places if place < len(times)), default=float("inf"))
            found = (last_ms, next_ms)
            self._pauses.append(found)
        return None if found[0] == _NEVER else found[0]


def _fact(snapshot: Snapshot, kind: Kind, seat: Seat) -> Fact:
    member = seat.profile.member
    return Fact(snapshot.ts_ms, snapshot.group, kind, snapshot.source, member, is_observed=False)


def member_of(row: MemberMetadata) -> Member:
    """A member of a record."""
    return Member(row.member_id, row.group_instance_id, row.client_id, row.client_host.removeprefix("/"))


def _topics(subscription: bytes) -> tuple[str, ...]:
    try:
        found, _ = codec(ConsumerProtocolSubscription, 0).parse(subscription, 2)
    except ProtocolError:
        return ()
    return tuple(sorted(found.topics))


def _partitions(member: MemberMetadata) -> tuple[TopicPartition, ...]:
    try:
        found, _ = codec(ConsumerProtocolAssignment, 0).parse(member.assignment, 2)
    except ProtocolError:
        return ()
    return tuple((each.topic, number) for each in found.assigned_partitions for number in each.partitions)
