"""Removal by expiry and with deleted topics: of offsets that were not used for long, groups without members or offsets.

Source: Kafka's GroupCoordinatorShard.cleanupGroupMetadata, OffsetMetadataManager (cleanupExpiredOffsets,
onTopicsDeleted), ClassicGroup.offsetExpirationCondition; KIP-211, KIP-496.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Final

from kshim.coordinator.groups.events import AppendFailed, Cause
from kshim.coordinator.groups.kinds import AnyGroup
from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.tombstones import Tombstones
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode

SLICE: Final = 200
"""Groups and offsets that are checked in one step when topics are deleted: about a millisecond of work."""
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def expire(shard: Shard, now: Now, step: Step) -> None:
    """One check of a shard: tombstones for what has expired, in one batch."""
    tombstones = Tombstones(shard, Cause.EXPIRED)
    for group in shard.groups.values():
        partitions = _expired(shard, group, now)
        tombstones.add_offsets(group.group_id, partitions)
        is_left_bare = len(partitions) == shard.offsets.count(group.group_id)
        has_transaction = shard.offsets.has_open_transaction(group.group_id)
        if group.is_empty and group.may_expire and is_left_bare and not has_transaction:
            tombstones.add_group(group.group_id)
    _write(shard, tombstones, now, step)


def _expired(shard: Shard, group: AnyGroup, now: Now) -> list[tuple[str, int]]:
    """(topic, partition) of the offsets whose time is over."""
    from_ms = group.offsets_expire_from_ms()
    if from_ms is None:
        return []
    return [
        (topic, partition)
        for topic, offsets in shard.offsets.of_group(group.group_id).items()
        if not group.is_subscribed_to(topic)
        for partition, offset in offsets.items()
        if _is_over(offset, from_ms, shard.config.offsets_retention_ms, now)
        and not shard.offsets.has_pending(group.group_id, topic, partition)
    ]


def _is_over(offset: CommittedOffset, from_ms: int, retention_ms: int, now: Now) -> bool:
    """Whether an offset has outlived its own expire time, or else the retention since its base time."""
    commit = offset.commit
    if commit.expire_timestamp_ms != -1:
        return now.wall_ms >= commit.expire_timestamp_ms
    base_ms = commit.commit_timestamp_ms if from_ms == -1 else from_ms
    return now.wall_ms - base_ms >= retention_ms


def forget_topics(shard: Shard, names: Collection[str], now: Now, begin: Callable[[], Step]) -> Iterator[Step]:
    """Topics were deleted: their offsets go in all groups, except what belongs to a newer topic of the same name.

    One walk over what each group has, in Steps (made by `begin`) of at most `SLICE` groups and offsets. Each is to be
    applied before the next is asked for; what else happens to the shard in between is seen.
    """
    walk = _walk(shard, names)
    while seen := list(islice(walk, SLICE)):
        step = begin()
        tombstones = Tombstones(shard, Cause.TOPIC_DELETED)
        for group_id, place in seen:
            if place is not None and _is_of_a_deleted_topic(shard, group_id, *place):
                tombstones.add_offsets(group_id, (place,))
        _write(shard, tombstones, now, step)
        yield step


def _walk(shard: Shard, names: Collection[str]) -> Iterator[tuple[str, tuple[str, int] | None]]:
    """Each group, and then each (topic, partition) of these topics where it has an offset, committed or pending."""
    for group_id in list(shard.groups):
        yield group_id, None
        committed = shard.offsets.of_group(group_id)
        places = [(topic, partition) for topic in committed if topic in names for partition in committed[topic]]
        pending = [place for place in shard.offsets.pending_partitions(group_id) if place[0] in names]
        for place in dict.fromkeys((*places, *pending)):
            yield group_id, place


def _is_of_a_deleted_topic(shard: Shard, group_id: str, topic: str, partition: int) -> bool:
    newer_id = shard.topics.topic_id(topic)
    return newer_id is None or any(
        offset.commit.topic_id != newer_id for offset in shard.offsets.at(group_id, topic, partition)
    )


def _write(shard: Shard, tombstones: Tombstones, now: Now, step: Step) -> None:
    """Write the tombstones. As in Kafka they need not be in one batch, which may be too large."""
    if not tombstones.pairs:
        return

    def written(_base_offset: int, step: Step) -> None:
        tombstones.apply(now, step)

    def failed(error: ErrorCode, step: Step) -> None:
        if error in _TOO_LARGE and len(tombstones.pairs) > 1:
            for half in tombstones.halves():
                _write(shard, half, now, step)
            return
        # What has expired is found again by the next check; offsets of a deleted topic stay, as in Kafka.
        step.events.append(
            AppendFailed(
                partition=shard.partition, now=now, group_id="", generation_id=-1, error=error, what="tombstones"
            )
        )

    shard.append(step, tombstones.pairs, now, written=written, failed=failed)
