"""Deliveries that did not end with an acknowledgement, or do not end: put together for a second before they are told.

Nothing here is touched by records that members are done with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kshim.coordinator.groups.events import DeliveryFailed, MemberRef, RecordRange
from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.step import Now
from kshim.share_partitions.acquisition import Limits
from kshim.share_partitions.in_flight import Run

LOCK_TIMEOUT: Final = "lock_timeout"
RELEASED: Final = "released"
SESSION_ENDED: Final = "session_ended"
REJECTED: Final = "rejected"
DELIVERY_LIMIT: Final = "delivery_limit"
RENEWED: Final = "renewed"
REASONS: Final = frozenset({LOCK_TIMEOUT, RELEASED, SESSION_ENDED, REJECTED, DELIVERY_LIMIT, RENEWED})
"""As the history says them."""

GATHER_MS: Final = 1_000
RANGES_MAX: Final = 50
HELD_LOCKS: Final = 3
"""Who has held records for longer than so many lock durations, by renewing their locks, holds them for long."""


class Trouble(NamedTuple):
    """Records next to each other that a member had for `held_ms`. `ended_by` None: it has them still."""

    member_id: str
    reason: str
    ended_by: str | None
    first_offset: int
    last_offset: int
    delivery_count: int
    held_ms: int


def trouble_of(run: Run, ended_by: str, limits: Limits, now_ms: int) -> Trouble:
    """Records that are still a member's, whose delivery ends so."""
    reason = ended_by
    if ended_by != REJECTED and run.delivery_count >= limits.delivery_count_limit:
        reason = DELIVERY_LIMIT
    return _trouble(run, reason, ended_by, now_ms)


def renewed_again(run: Run, limits: Limits, now_ms: int) -> Trouble | None:
    """A member renews the lock of its records: None as long as that is nothing to tell."""
    if now_ms - run.since_ms <= HELD_LOCKS * limits.lock_ms:
        return None
    return _trouble(run, RENEWED, None, now_ms)


def _trouble(run: Run, reason: str, ended_by: str | None, now_ms: int) -> Trouble:
    held_ms = now_ms - run.since_ms
    return Trouble(run.member_id, reason, ended_by, run.first, run.last, run.delivery_count, held_ms)


class _Sum:
    """Troubles of one member with one reason and end."""

    def __init__(self, first: Trouble, member: MemberRef) -> None:
        self.first = first
        self.member = member
        self.last_offset = self.first_offset = first.first_offset
        self.record_count = self.times = self.delivery_count = self.held_ms = self.omitted_count = 0
        self.ranges: list[RecordRange] = []
        self._counted_ms = -1

    def add(self, trouble: Trouble, now_ms: int) -> None:
        """One more."""
        _, _, _, first, last, delivery_count, held_ms = trouble
        self.first_offset, self.last_offset = min(self.first_offset, first), max(self.last_offset, last)
        self.record_count += last - first + 1
        self.times += now_ms != self._counted_ms
        self._counted_ms = now_ms
        self.delivery_count = max(self.delivery_count, delivery_count)
        self.held_ms = max(self.held_ms, held_ms)
        before = self.ranges[-1] if self.ranges else None
        if before is not None and (before.last_offset + 1, before.delivery_count) == (first, delivery_count):
            self.ranges[-1] = before._replace(last_offset=last)
        elif len(self.ranges) < RANGES_MAX:
            self.ranges.append(RecordRange(first, last, delivery_count))
        else:
            self.omitted_count += 1


class TroublesOfPartition:
    """What is gathered of one share partition."""

    def __init__(self, topic_name: str, partition_index: int) -> None:
        self._topic_name = topic_name
        self._partition_index = partition_index
        self._sums: dict[tuple[str, str, str | None], _Sum] = {}

    def add(self, troubles: Iterable[Trouble], group: ShareGroup | None, now_ms: int) -> None:
        """What went wrong at one moment. Members are named as the group knows them now."""
        for trouble in troubles:
            key = trouble[:3]
            found = self._sums.get(key)
            if found is None:
                member = None if group is None else group.members.get(trouble.member_id)
                ref = MemberRef(member_id=trouble.member_id) if member is None else member.ref()
                found = self._sums[key] = _Sum(trouble, ref)
            found.add(trouble, now_ms)

    def events(self, group: ShareGroup, limits: Limits, now: Now) -> Iterator[DeliveryFailed]:
        """All of it."""
        for each in self._sums.values():
            yield DeliveryFailed(
                **group.event(now),
                state=group.state,
                member=each.member,
                reason=each.first.reason,
                ended_by=each.first.ended_by,
                topic_name=self._topic_name,
                topic_partition=self._partition_index,
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                record_count=each.record_count,
                times=each.times,
                delivery_count=each.delivery_count,
                held_ms=each.held_ms,
                lock_ms=limits.lock_ms,
                delivery_count_limit=limits.delivery_count_limit,
                ranges=tuple(each.ranges),
                omitted_count=each.omitted_count,
            )
