"""Records of `__consumer_offsets` to profiles of members, and to facts where no other source has them.

A record of key type 2 is written when a rebalance is over, and holds the members that then were. What happened between
two of them is inferred from their difference and from commits: a consumer commits before it joins again and when it is
closed, so its last commit is the last sign of life. Commits do not say whose they are: the owner of the partition's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from kshim.explain.facts import UNSEEN, Fact, Kind, Member, Phases, Profile
from kshim.explain.sources.samples import Presence
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


class Snapshot(NamedTuple):
    """A record of a group. `value` None: the group was deleted."""

    ts_ms: int
    group: str
    source: str
    value: GroupMetadataValue | None

    @property
    def members(self) -> tuple[MemberMetadata, ...]:
        """None of a group that is empty or deleted."""
        return () if self.value is None else self.value.members


def profiles(snapshots: Iterable[Snapshot]) -> dict[str, Profile]:
    """Timeouts and subscriptions of all members, by member id."""
    return {
        each.member_id: Profile(
            member_of(each), each.session_timeout, each.rebalance_timeout, _topics(each.subscription)
        )
        for snapshot in snapshots
        for each in snapshot.members
    }


def partitions(snapshot: Snapshot) -> dict[str, int]:
    """How many partitions each topic has, as far as they are assigned: one more than the highest of them."""
    found: dict[str, int] = {}
    for each in snapshot.members:
        for topic, number in _partitions(each):
            found[topic] = max(found.get(topic, 0), number + 1)
    return found


def facts_of_records(
    snapshots: Sequence[Snapshot], commits: Commits, presence: Presence | None = None
) -> Iterator[Fact]:
    """What happened to one group between its records, in order of time; `presence`: what samples show of it."""
    if snapshots and snapshots[0].members:
        first = snapshots[0]
        yield from (_fact(first, Kind.JOINED, each) for each in first.members)
    for before, after in pairwise(snapshots):
        found = list(_between(before, after, commits, presence))
        yield from sorted(found, key=lambda fact: fact.ts_ms)


def _between(before: Snapshot, after: Snapshot, commits: Commits, presence: Presence | None) -> Iterator[Fact]:
    old = {each.member_id: each for each in before.members}
    new = {each.member_id: each for each in after.members}
    instances = {each.group_instance_id: each for each in before.members if each.group_instance_id is not None}
    gone = [each for member_id, each in old.items() if member_id not in new]
    for each in new.values():
        if each.member_id in old:
            continue
        replaced = None if each.group_instance_id is None else instances.get(each.group_instance_id)
        if replaced is not None and replaced.member_id not in new:
            gone.remove(replaced)
            yield _fact(after, Kind.REPLACED, each)._replace(other_id=replaced.member_id)
        else:
            yield _fact(after, Kind.JOINED, each)
    for each in gone:
        seen_ms = None if presence is None else presence.gone_ms(each.member_id, before.ts_ms, after.ts_ms)
        yield _departure(before, after, each, commits, seen_ms)
    if after.value is None or not after.members:
        yield Fact(after.ts_ms, after.group, Kind.EMPTIED, after.source, is_observed=False)
        return
    if set(old) == set(new) and before.value is not None and before.value.generation != after.value.generation:
        changed = [
            each for each in new.values() if _topics(each.subscription) != _topics(old[each.member_id].subscription)
        ]
        asking = changed[0] if changed else new.get(after.value.leader or "", after.members[0])
        yield _fact(after, Kind.REQUESTED, asking)._replace(
            reason="metadata_changed" if changed else "",
            client_reason="subscription has changed" if changed else None,
        )
    began_ms = after.value.current_state_timestamp
    sync_ms = after.ts_ms - began_ms if 0 < began_ms <= after.ts_ms else None
    join_ms = None if presence is None or sync_ms is None else presence.join_ms(before.ts_ms, began_ms)
    phases = Phases(
        join_ms, sync_ms, after.value.protocol, after.value.leader, None, None, partitions=partitions(after)
    )
    yield Fact(after.ts_ms, after.group, Kind.COMPLETED, after.source, is_observed=False, phases=phases)


def _departure(
    before: Snapshot, after: Snapshot, member: MemberMetadata, commits: Commits, seen_ms: int | None
) -> Fact:
    """`seen_ms`: when a sample showed that it was gone; else that is known when the next record is written."""
    if seen_ms is not None:
        after = after._replace(ts_ms=seen_ms)
    session_ms = member.session_timeout
    rebalance_ms = max(member.rebalance_timeout, session_ms)
    seen = [at for part in _partitions(member) if (at := _last_before(commits.get(part, ()), after.ts_ms)) is not None]
    last_ms = max(seen, default=None)
    if last_ms is None or last_ms < before.ts_ms:
        return _fact(after, Kind.LEFT, member)._replace(reason=UNSEEN)
    if after.ts_ms - last_ms < _SILENT * session_ms:
        return _fact(after, Kind.LEFT, member)
    silent_ms = after.ts_ms - last_ms
    is_dynamic = member.group_instance_id is None
    if is_dynamic and rebalance_ms > 1.2 * session_ms and silent_ms > (session_ms + rebalance_ms) / 2:
        return _fact(after, Kind.LEFT, member)._replace(client_reason="consumer poll timeout has expired (inferred)")
    return _fact(after, Kind.EXPIRED, member)._replace(ts_ms=max(min(last_ms + session_ms, after.ts_ms), before.ts_ms))


def _last_before(times: Sequence[int], ts_ms: int) -> int | None:
    place = bisect_right(times, ts_ms)
    return times[place - 1] if place else None


def _fact(snapshot: Snapshot, kind: Kind, member: MemberMetadata) -> Fact:
    return Fact(snapshot.ts_ms, snapshot.group, kind, snapshot.source, member_of(member), is_observed=False)


def member_of(row: MemberMetadata) -> Member:
    """A member of a record."""
    return Member(row.member_id, row.group_instance_id, row.client_id, row.client_host.removeprefix("/"))


def _topics(subscription: bytes) -> tuple[str, ...]:
    try:
        found, _ = codec(ConsumerProtocolSubscription, 0).parse(subscription, 2)
    except ProtocolError:
        return ()
    return tuple(sorted(found.topics))


def _partitions(member: MemberMetadata) -> list[TopicPartition]:
    try:
        found, _ = codec(ConsumerProtocolAssignment, 0).parse(member.assignment, 2)
    except ProtocolError:
        return []
    return [(each.topic, number) for each in found.assigned_partitions for number in each.partitions]
