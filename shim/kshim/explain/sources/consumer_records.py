"""Records of `__consumer_offsets` of groups of the new protocol (key types 3 to 8 and 16, KIP-848) to profiles and facts.

Unlike a classic group's, they are written when something happens, not when a rebalance is over: a member's when it joins, changes what
it wants and is gone (5), the group's with each epoch (3), the target's when it is computed (7, 6), and a member's own with each step
towards it (8). So who came and went, and how long each took to give up its partitions, is read; how a member was gone is
not: whether it left or its session expired follows from its commits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median_high, median_low
from typing import NamedTuple

from kshim.explain.causes import DOWNGRADED, UPGRADED
from kshim.explain.facts import (
    DEFAULT_REBALANCE_MS,
    DEFAULT_SESSION_MS,
    UNSEEN,
    Committed,
    Fact,
    Kind,
    Member,
    Phases,
    Profile,
    Subscription,
)
from kshim.explain.sources.records import Commits, TopicPartition, last_before, usual_gap_ms
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    TopicPartitions,
)
from kshim_protocol.internal.versioned import parse_versioned

GROUP, MEMBER, TARGET, CURRENT, EXPRESSION = 3, 5, 6, 8, 16
KEY_TYPES = frozenset({GROUP, MEMBER, TARGET, CURRENT, EXPRESSION})
"""Those that are read. What the target of each member is (7) follows from its steps."""

_LEFT_FOR_NOW = -2
_UNREVOKED = 1
_STABLE = 0
_AT_ONCE_MS = 50
"""How much time there is at most between the records of one operation."""
_VIEW_MS = 5_000
"""How long after a member has come with other topics the broker may learn of them: they may have been made for it."""
_HEARTBEAT = "ConsumerGroupHeartbeat"
_LEAST_SESSION_MS = 5_000
"""Sessions are longer than the interval of heartbeats, which is 5 s unless somebody changes it."""
_MISSED = 3
"""Who has missed so many of its usual commits has stopped committing."""
_NUMBER = struct.Struct(">h")

TopicNames = Mapping[bytes, str]
"""Names of topics by their ids."""


class EpochRecord(NamedTuple):
    """A record. `subject`: the member's id, or the expression; `value` None: a tombstone. It is decoded when it is read."""

    ts_ms: int
    offset: int
    key_type: int
    subject: str
    value: bytes | None

    @property
    def source(self) -> str:
        """What facts name as their source."""
        return f"record {self.offset}"


def subject_of(key: bytes, at: int) -> str:
    """The second text of a key, which begins at `at`; empty if there is none."""
    if at >= len(key):
        return ""
    (size,) = _NUMBER.unpack_from(key, at)
    return key[at + 2 : at + 2 + size].decode(errors="backslashreplace")


def profiles_of_epochs(records: Iterable[EpochRecord], session_ms: int | None) -> dict[str, Profile]:
    """Members by id, as their newest records say; the session timeout is a setting of the broker, None: Kafka's default."""
    found: dict[str, Profile] = {}
    for record in records:
        if record.key_type == MEMBER and record.value is not None and (wanted := _wanted(record.value)) is not None:
            found[record.subject] = _profile(record.subject, wanted, session_ms)
    return found


def _wanted(value: bytes) -> ConsumerGroupMemberMetadataValue | None:
    try:
        return parse_versioned(ConsumerGroupMemberMetadataValue, value)[1]
    except ProtocolError:
        return None


def _profile(member_id: str, wanted: ConsumerGroupMemberMetadataValue, session_ms: int | None) -> Profile:
    classic = wanted.classic_member_metadata
    own_ms = classic.session_timeout_ms if classic is not None and classic.session_timeout_ms > 0 else None
    member = Member(member_id, wanted.instance_id, wanted.client_id, wanted.client_host.removeprefix("/"))
    rebalance_ms = wanted.rebalance_timeout_ms if wanted.rebalance_timeout_ms > 0 else DEFAULT_REBALANCE_MS
    topics = tuple(sorted(wanted.subscribed_topic_names)) or _expression(wanted)
    return Profile(member, own_ms or session_ms or DEFAULT_SESSION_MS, rebalance_ms, topics)


def _expression(wanted: ConsumerGroupMemberMetadataValue) -> tuple[str, ...]:
    return (wanted.subscribed_topic_regex,) if wanted.subscribed_topic_regex else ()


class _Seat:
    """A member of the group, and where it is on its way."""

    def __init__(self, profile: Profile, joined_ms: int) -> None:
        self.profile = profile
        self.epoch = 0
        self.state = _STABLE
        self.assigned: dict[TopicPartition, int] = {}
        """Since when it has had each partition."""
        self.told_ms: int | None = None
        """When it was told to give up partitions, until it has."""
        self.step_ms = joined_ms
        """When it did its last step."""
        self.is_new = True
        """Whether no rebalance has been completed since it joined."""


def with_log(of_records: Sequence[Fact], of_log: Sequence[Fact]) -> list[Fact]:
    """Facts of one group from its records, with what the broker's log says of how members were gone; and what only the log has.

    Records may begin later than the log, for they are compacted.
    """
    since_ms = of_records[0].ts_ms if of_records else None
    told: dict[str, list[Fact]] = {}
    for fact in of_log:
        if fact.member is not None and fact.kind in _DEPARTURES:
            told.setdefault(fact.member.member_id, []).append(fact)
    if since_ms is None:
        return list(of_log)
    until_ms = of_records[-1].ts_ms
    found = [
        fact
        for fact in of_log
        if not since_ms - _LINE_MS <= fact.ts_ms <= until_ms + _LINE_MS or fact.kind in _ONLY_IN_LOGS
    ]
    for fact in of_records:
        if fact.kind in (Kind.LOADED, Kind.STOPPING) and of_log and fact.ts_ms >= of_log[0].ts_ms:
            continue  # the log has its own
        if fact.kind in _DEPARTURES and fact.member is not None:
            lines = told.get(fact.member.member_id, ())
            line = next((each for each in lines if abs(each.ts_ms - fact.ts_ms) <= _LINE_MS), None)
            if line is not None:
                own = line._replace(ts_ms=fact.ts_ms, member=fact.member)
                found.append(own._replace(committed=fact.committed, told_ms=fact.told_ms))
                continue
        found.append(fact)
    return sorted(found, key=lambda fact: fact.ts_ms)


def session_of_events(facts: Iterable[Fact]) -> int | None:
    """How long sessions are, as the last requests of members show whose sessions expired; None: none has."""
    expired = [(fact.ts_ms, fact.activity) for fact in facts if fact.kind is Kind.EXPIRED and fact.activity is not None]
    # Other requests on the same connection may have come later than the last heartbeat.
    exact_ms = [ts_ms - seen.last_request_ms for ts_ms, seen in expired if seen.last_api == _HEARTBEAT]
    least_ms = max((ts_ms - seen.last_request_ms for ts_ms, seen in expired), default=None)
    if exact_ms:
        least_ms = median_high(exact_ms)
    return None if least_ms is None else round(least_ms / 1_000) * 1_000


def session_of_records(facts: Iterable[Fact]) -> int | None:
    """The same, as the last commits show; None: too few members have fallen silent to tell."""
    silent_ms = [
        fact.ts_ms - fact.committed.last_ms
        for fact in facts
        if fact.kind is Kind.EXPIRED and fact.committed is not None and not fact.is_observed
    ]
    if len(silent_ms) < _ENOUGH:
        return None
    # A last commit may have been up to an interval of heartbeats before the last heartbeat.
    return round(median_low(silent_ms) / _LEAST_SESSION_MS) * _LEAST_SESSION_MS


def converted(classic: Sequence[Fact], of_epochs: Sequence[Fact]) -> list[Fact]:
    """Facts of one group that was a classic one before, or after: who was a member then has not left or joined by that.

    With one for each time that it went over to the other protocol.
    """
    if not classic or not of_epochs:
        return [*classic, *of_epochs]
    times = [fact.ts_ms for fact in of_epochs]
    changed = [fact.ts_ms for fact in classic if any(abs(fact.ts_ms - ts_ms) <= _AT_ONCE_MS for ts_ms in times)]
    ids = {
        fact.member.member_id for fact in (*classic, *of_epochs) if fact.member is not None and fact.kind is Kind.JOINED
    }
    both = {each for each in ids if _is_in(each, classic) and _is_in(each, of_epochs)}

    def is_conversion(fact: Fact) -> bool:
        is_then = any(abs(fact.ts_ms - ts_ms) <= _AT_ONCE_MS for ts_ms in changed)
        if not is_then:
            return False
        return fact.kind is Kind.EMPTIED or (fact.member is not None and fact.member.member_id in both)

    kept = [fact for fact in (*classic, *of_epochs) if not is_conversion(fact)]
    return sorted([*kept, *_conversions(classic, changed)], key=lambda fact: fact.ts_ms)


def _conversions(classic: Sequence[Fact], changed: Iterable[int]) -> Iterator[Fact]:
    """Those at these times, of which several may be of one: the record of the classic group is then deleted, or written."""
    last_ms = -_AT_ONCE_MS
    for ts_ms in sorted(set(changed)):
        if ts_ms - last_ms > _AT_ONCE_MS:
            then = [fact for fact in classic if abs(fact.ts_ms - ts_ms) <= _AT_ONCE_MS]
            reason = UPGRADED if any(fact.kind is Kind.EMPTIED for fact in then) else DOWNGRADED
            source = then[0].source
            yield Fact(ts_ms, then[0].group, Kind.REQUESTED, source, is_observed=False, reason=reason)
        last_ms = ts_ms


def _is_in(member_id: str, facts: Sequence[Fact]) -> bool:
    return any(fact.member is not None and fact.member.member_id == member_id for fact in facts)


def with_records(of_events: Iterable[Fact], of_records: Iterable[Fact]) -> Iterator[Fact]:
    """Facts of events, with what only records tell: who was gone before it had given up partitions, and waits since an epoch before."""
    told: dict[tuple[str, str, int], int] = {}
    phases: dict[tuple[str, int], Phases] = {}
    for fact in of_records:
        if fact.told_ms is not None and fact.member is not None:
            told[fact.group, fact.member.member_id, fact.ts_ms] = fact.told_ms
        if fact.phases is not None:
            phases[fact.group, fact.ts_ms] = fact.phases
    for fact in of_events:
        key = (fact.group, "" if fact.member is None else fact.member.member_id, fact.ts_ms)
        longer = phases.get((fact.group, fact.ts_ms))
        if fact.kind in _DEPARTURES and key in told:
            yield fact._replace(told_ms=told[key])
        elif fact.phases is not None and longer is not None:
            last, wait_ms, other_ms = longer.last_to_join, longer.last_wait_ms, longer.other_wait_ms
            waits = fact.phases._replace(last_to_join=last, last_wait_ms=wait_ms, other_wait_ms=other_ms)
            yield fact._replace(phases=waits)
        else:
            yield fact


_ENOUGH = 3
_DEPARTURES = (Kind.LEFT, Kind.EXPIRED, Kind.REMOVED)
_ONLY_IN_LOGS = (Kind.LOADED, Kind.STOPPING, Kind.REFUSED)
_LINE_MS = 1_000
"""How far apart a line and the record of the same thing may be: the broker may collect writes."""


class _Wait(NamedTuple):
    member: Member
    wait_ms: int


class EpochReader:
    """Replays the records of one group. Iterate over `facts` once."""

    def __init__(
        self,
        group: str,
        records: Sequence[EpochRecord],
        commits: Commits,
        names: TopicNames,
        session_ms: int | None,
    ) -> None:
        self._group = group
        self._records = records
        self._commits = commits
        self._names = names
        self._session_ms = session_ms
        self._seats: dict[str, _Seat] = {}
        self._left_for_now: set[str] = set()
        self._expressions: dict[str, tuple[str, ...]] = {}
        """What each stands for."""
        self._topics: set[str] = set()
        """All that was ever subscribed to."""
        self._widened_ms = -_VIEW_MS
        """When a member came that subscribes to more."""
        self._freed: dict[TopicPartition, int] = {}
        self._epoch = self._target_epoch = 0
        self._hash: int | None = None
        self._began_ms: int | None = None
        self._target_ms: int | None = None
        self._revoked_ms: int | None = None
        self._waits: list[_Wait] = []
        self._unowned_ms: int | None = None
        self._explained_ms = -_AT_ONCE_MS
        """When something was last read that raises the epoch by itself."""
        self._last_gone: Fact | None = None

    def facts(self) -> Iterator[Fact]:
        """What happened, in order of time."""
        held: Fact | None = None
        for record in self._records:
            for fact in self._read(record):
                # Who takes over an instance id comes with the records of the member that is gone.
                if held is not None and not _is_taken(held, fact):
                    yield held
                    held = None
                if fact.kind in (Kind.LEFT, Kind.EXPIRED) and fact.member is not None and fact.member.instance_id:
                    held = fact
                elif held is not None:
                    assert held.member is not None
                    yield fact._replace(kind=Kind.REPLACED, other_id=held.member.member_id, committed=held.committed)
                    held = None
                else:
                    yield fact
        if held is not None:
            yield held

    def _read(self, record: EpochRecord) -> Iterator[Fact]:
        try:
            match record.key_type:
                case 3:
                    yield from self._read_group(record)
                case 5:
                    yield from self._read_member(record)
                case 6:
                    self._read_target(record)
                case 8:
                    yield from self._read_step(record)
                case _:
                    yield from self._read_expression(record)
        except ProtocolError:
            return  # of a newer Kafka, or damaged: dump-offsets reports it

    def _read_group(self, record: EpochRecord) -> Iterator[Fact]:
        if record.value is None:
            return  # deleted, or a classic group from now on
        _, value = parse_versioned(ConsumerGroupMetadataValue, record.value)
        is_other = self._hash is not None and value.metadata_hash != self._hash
        is_explained = record.ts_ms - self._explained_ms <= _AT_ONCE_MS or record.ts_ms - self._widened_ms <= _VIEW_MS
        if value.epoch > self._epoch and is_other and not is_explained and self._seats:
            yield self._fact(record, Kind.REQUESTED, None)._replace(reason="topics_changed")
        self._epoch, self._hash = value.epoch, value.metadata_hash
        if self._began_ms is None:
            self._began_ms = record.ts_ms

    def _read_member(self, record: EpochRecord) -> Iterator[Fact]:
        self._explained_ms = record.ts_ms
        if record.value is None:
            yield from self._gone(record)
            return
        wanted = _wanted(record.value)
        if wanted is None:
            return
        profile = _profile(record.subject, wanted, self._session_ms)
        assignors = (wanted.server_assignor,) if wanted.server_assignor else ()
        seat = self._seats.get(record.subject)
        if seat is None or seat.profile is _UNKNOWN:
            known = self._seats[record.subject] = seat or _Seat(profile, record.ts_ms)
            known.profile = profile
            if not self._topics >= set(profile.topics):
                self._widened_ms = record.ts_ms
            self._topics |= set(profile.topics)
            fact = self._fact(record, Kind.JOINED, profile.member)
            yield fact._replace(subscription=Subscription(profile.topics, assignors=assignors))
            return
        before, after = set(seat.profile.topics), set(profile.topics)
        seat.profile = profile
        if before != after:
            added, removed = tuple(sorted(after - before)), tuple(sorted(before - after))
            fact = self._fact(record, Kind.REQUESTED, profile.member)
            subscription = Subscription(profile.topics, added, removed, assignors)
            yield fact._replace(reason="subscription_changed", subscription=subscription)

    def _gone(self, record: EpochRecord) -> Iterator[Fact]:
        seat = self._seats.pop(record.subject, None)
        if seat is None:
            return
        for partition in seat.assigned:
            self._freed[partition] = record.ts_ms
        if seat.told_ms is not None:
            self._waits.append(_Wait(seat.profile.member, record.ts_ms - seat.told_ms))
        kind, reason, client_reason, committed = self._how(record, seat)
        fact = self._fact(record, kind, seat.profile.member)._replace(
            is_observed=record.subject in self._left_for_now,
            reason=reason,
            client_reason=client_reason,
            committed=committed,
            told_ms=seat.told_ms,
        )
        yield fact
        self._left_for_now.discard(record.subject)
        if not self._seats:
            self._began_ms = None
            yield self._fact(record, Kind.EMPTIED, None)
        else:
            yield from self._completed(record)

    def _how(self, record: EpochRecord, seat: _Seat) -> tuple[Kind, str, str | None, Committed | None]:
        """How a member was gone: kind, reason, what it said as far as it follows, and its commits."""
        if record.subject in self._left_for_now:
            return Kind.EXPIRED, "", None, None
        how = self._how_by_commits(record, seat)
        if seat.profile.member.instance_id is not None and how[2] is None:
            return Kind.EXPIRED, "", None, how[3]  # a static member does not leave for good, unless it is made to
        return how

    def _how_by_commits(self, record: EpochRecord, seat: _Seat) -> tuple[Kind, str, str | None, Committed | None]:
        heard_ms = [
            at for part, since_ms in seat.assigned.items() if (at := self._last_commit(part, record.ts_ms)) >= since_ms
        ]
        if not heard_ms:
            return Kind.LEFT, UNSEEN, None, None
        last_ms = max(heard_ms)
        committed = Committed(last_ms, usual_gap_ms(seat.assigned, self._commits, last_ms))
        usual = committed.usual_ms
        if usual is None:
            return Kind.LEFT, UNSEEN, None, committed
        silent_ms = record.ts_ms - max(last_ms, seat.step_ms)
        missed_ms = _MISSED * usual
        poll_ms, session_ms = seat.profile.rebalance_ms, seat.profile.session_ms
        if silent_ms <= missed_ms or silent_ms < _LEAST_SESSION_MS:
            return Kind.LEFT, "", None, committed
        is_session = abs(silent_ms - session_ms) <= max(missed_ms, session_ms / 3)
        is_poll = abs(silent_ms - poll_ms) <= max(missed_ms, session_ms / 3)
        if is_poll and (not is_session or abs(silent_ms - poll_ms) < abs(silent_ms - session_ms)):
            return Kind.LEFT, "", "consumer poll timeout has expired (inferred)", committed
        if is_session or self._session_ms is None:
            return Kind.EXPIRED, "", None, committed
        return Kind.LEFT, UNSEEN, None, committed

    def _last_commit(self, partition: TopicPartition, until_ms: int) -> int:
        return last_before(self._commits.get(partition, ()), until_ms) or 0

    def _read_target(self, record: EpochRecord) -> None:
        if record.value is not None:
            self._target_epoch, self._target_ms = self._epoch, record.ts_ms

    def _read_step(self, record: EpochRecord) -> Iterator[Fact]:
        if record.value is None:
            return  # with the member's own tombstone
        _, value = parse_versioned(ConsumerGroupCurrentMemberAssignmentValue, record.value)
        seat = self._seats.get(record.subject)
        if seat is None:  # its own record is older than what was read
            seat = self._seats[record.subject] = _Seat(_UNKNOWN, record.ts_ms)
        if value.member_epoch == _LEFT_FOR_NOW:
            self._left_for_now.add(record.subject)
            yield self._fact(record, Kind.STOPPED, seat.profile.member)
            return
        self._left_for_now.discard(record.subject)
        now = set(self._named(value.assigned_partitions, seat.profile.topics))
        for partition in [each for each in seat.assigned if each not in now]:
            del seat.assigned[partition]
            self._freed[partition] = record.ts_ms
        for partition in now - seat.assigned.keys():
            seat.assigned[partition] = record.ts_ms
            freed_ms = self._freed.pop(partition, None)
            if freed_ms is not None:
                self._unowned_ms = max(self._unowned_ms or 0, record.ts_ms - freed_ms)
        if value.state == _UNREVOKED:
            seat.told_ms = seat.told_ms or record.ts_ms
        elif seat.told_ms is not None:
            self._revoked_ms = record.ts_ms
            self._waits.append(_Wait(seat.profile.member, record.ts_ms - seat.told_ms))
            seat.told_ms = None
        seat.epoch, seat.state, seat.step_ms = value.member_epoch, value.state, record.ts_ms
        yield from self._completed(record)

    def _named(self, topics: Sequence[TopicPartitions], wanted: Sequence[str]) -> Iterator[TopicPartition]:
        for topic in topics:
            unnamed = wanted[0] if len(wanted) == 1 else topic.topic_id.hex()
            name = self._names.get(topic.topic_id, unnamed)
            for number in topic.partitions:
                yield name, number

    def _read_expression(self, record: EpochRecord) -> Iterator[Fact]:
        self._explained_ms = record.ts_ms
        if record.value is None:
            self._expressions.pop(record.subject, None)
            return
        _, value = parse_versioned(ConsumerGroupRegularExpressionValue, record.value)
        topics = tuple(sorted(value.topics))
        if self._expressions.get(record.subject, topics) != topics:  # what a new one stands for is no change
            yield self._fact(record, Kind.REQUESTED, None)._replace(reason="expression_resolved")
        self._expressions[record.subject] = topics

    def _completed(self, record: EpochRecord) -> Iterator[Fact]:
        """The end of the rebalance, if every member is at the target of the newest epoch."""
        if self._began_ms is None or self._target_epoch < self._epoch:
            return
        if any(
            (seat.epoch != self._epoch or seat.state != _STABLE)
            for member_id, seat in self._seats.items()
            if member_id not in self._left_for_now
        ):
            return
        target_ms = self._target_ms or self._began_ms
        old = sorted(self._waits, key=lambda wait: -wait.wait_ms)
        phases = Phases(
            join_ms=max((self._revoked_ms or target_ms) - target_ms, 0),
            sync_ms=None,
            protocol=None,
            leader_id=None,
            last_to_join=old[0].member if old else None,
            last_wait_ms=old[0].wait_ms if old else None,
            other_wait_ms=old[1].wait_ms if len(old) > 1 else None,
            has_epochs=True,
            unowned_ms=self._unowned_ms,
            generation_id=self._epoch,
        )
        yield self._fact(record, Kind.COMPLETED, None)._replace(phases=phases)
        for seat in self._seats.values():
            seat.is_new = False
        self._began_ms = self._revoked_ms = self._unowned_ms = None
        self._waits = []

    def _fact(self, record: EpochRecord, kind: Kind, member: Member | None) -> Fact:
        return Fact(record.ts_ms, self._group, kind, record.source, member)


_UNKNOWN = Profile(Member("", None, None, None), DEFAULT_SESSION_MS, DEFAULT_REBALANCE_MS, ())
"""Of a member whose own record is older than what was read."""


def _is_taken(gone: Fact, fact: Fact) -> bool:
    """Whether a process takes over the instance id of a member that is gone, in one operation."""
    return (
        fact.kind is Kind.JOINED
        and gone.member is not None
        and fact.member is not None
        and fact.member.instance_id == gone.member.instance_id
        and fact.ts_ms - gone.ts_ms <= _AT_ONCE_MS
    )
