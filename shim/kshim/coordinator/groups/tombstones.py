"""How groups and offsets disappear: the tombstones to write, and what follows once they are in the log."""

from __future__ import annotations

from collections.abc import Iterable

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import Cause, OffsetsRemoved, Trigger
from kshim.coordinator.groups.shard import Pair, Shard
from kshim.coordinator.step import Now, Step
from kshim_protocol.internal.records import build_group_metadata_key, build_offset_commit_key


def offsets_of_group(shard: Shard, group_id: str) -> list[tuple[str, int]]:
    """(topic, partition) of every offset of a group, committed or pending."""
    partitions = [
        (topic, partition) for topic, offsets in shard.offsets.of_group(group_id).items() for partition in offsets
    ]
    return list(dict.fromkeys((*partitions, *shard.offsets.pending_partitions(group_id))))


class Tombstones:
    """Offsets and groups of one shard that are to go, in the order in which their tombstones are written."""

    __slots__ = ("_cause", "_group_ids", "_offsets", "_pairs", "_shard")

    def __init__(self, shard: Shard, cause: Cause) -> None:
        self._shard = shard
        self._cause = cause
        self._pairs: list[Pair] = []
        self._offsets: list[tuple[str, str, int]] = []
        self._group_ids: list[str] = []

    @property
    def pairs(self) -> list[Pair]:
        """The records."""
        return self._pairs

    def add_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Let these offsets go."""
        for topic, partition in partitions:
            self._pairs.append((build_offset_commit_key(group_id, topic, partition), None))
            self._offsets.append((group_id, topic, partition))

    def add_group(self, group_id: str) -> None:
        """Let an Empty group go. Its offsets have tombstones of their own."""
        self._pairs.append((build_group_metadata_key(group_id), None))
        self._group_ids.append(group_id)

    def apply(self, now: Now, step: Step) -> None:
        """The tombstones are in the log."""
        shard = self._shard
        for offset in self._offsets:
            shard.forget_offset(*offset)
        for group_id in self._group_ids:
            trigger = Trigger(cause=self._cause, detail=str(self._cause))
            shard.groups[group_id].move_to(GroupState.DEAD, trigger=trigger, now=now, step=step)
            shard.forget_group(group_id)
        if self._offsets:
            step.events.append(
                OffsetsRemoved(
                    partition=shard.partition,
                    now=now,
                    cause=self._cause,
                    group_count=len({group_id for group_id, _, _ in self._offsets}),
                    offset_count=len(self._offsets),
                )
            )
