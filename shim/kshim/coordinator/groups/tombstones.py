"""How groups and offsets disappear: the tombstones to write, and what follows once they are in the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kshim.coordinator.groups.events import Cause, OffsetsRemoved, Trigger
from kshim.coordinator.groups.kinds import Pair
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, Step
from kshim_protocol.internal.records import build_offset_commit_key


def offsets_of_group(shard: Shard, group_id: str) -> list[tuple[str, int]]:
    """(topic, partition) of every offset of a group, committed or pending."""
    partitions = [
        (topic, partition) for topic, offsets in shard.offsets.of_group(group_id).items() for partition in offsets
    ]
    return list(dict.fromkeys((*partitions, *shard.offsets.pending_partitions(group_id))))


class _Entry(NamedTuple):
    """What is to go: an offset, by its `place`, or a group."""

    group_id: str
    place: tuple[str, int] | None
    pairs: tuple[Pair, ...]


class Tombstones:
    """Offsets and groups of one shard that are to go, in the order in which their tombstones are written."""

    def __init__(self, shard: Shard, cause: Cause) -> None:
        self._shard = shard
        self._cause = cause
        self._entries: list[_Entry] = []

    @property
    def pairs(self) -> list[Pair]:
        """The records."""
        return [pair for entry in self._entries for pair in entry.pairs]

    def add_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Let these offsets go."""
        for place in partitions:
            self._entries.append(_Entry(group_id, place, ((build_offset_commit_key(group_id, *place), None),)))

    def add_group(self, group_id: str) -> None:
        """Let an Empty group go. Its offsets have tombstones of their own."""
        self._entries.append(_Entry(group_id, None, tuple(self._shard.groups[group_id].tombstones())))

    def halves(self) -> tuple[Tombstones, Tombstones]:
        """The same, to be written in two batches, one of which may fail: a group stays together with its offsets.

        Where one group alone is too large, its offsets are cut in two and the group stays; without offsets, it goes
        with the next check.
        """
        entries = self._entries
        middle = len(entries) // 2
        ends = [at for at in range(1, len(entries)) if entries[at].group_id != entries[at - 1].group_id]
        if ends:
            middle = min(ends, key=lambda end: abs(end - middle))
        offsets_only = not ends
        found = Tombstones(self._shard, self._cause), Tombstones(self._shard, self._cause)
        for half, part in zip(found, (slice(middle), slice(middle, None)), strict=True):
            half._entries += [entry for entry in entries[part] if not (offsets_only and entry.place is None)]
        return found

    def apply(self, now: Now, step: Step) -> None:
        """The tombstones are in the log."""
        shard = self._shard
        offset_count, group_ids = 0, set()
        for group_id, place, _ in self._entries:
            if place is not None:
                shard.forget_offset(group_id, *place)
                offset_count += 1
                group_ids.add(group_id)
                continue
            trigger = Trigger(cause=self._cause, detail=str(self._cause))
            shard.groups[group_id].has_ended(trigger, now, step)
            shard.end_group(group_id)
        if offset_count:
            step.events.append(
                OffsetsRemoved(
                    partition=shard.partition,
                    now=now,
                    cause=self._cause,
                    group_count=len(group_ids),
                    offset_count=offset_count,
                )
            )
