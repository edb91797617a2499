"""The state of one share partition, and how it changes. Pure values.

Source: Kafka's ShareGroupOffset and PersisterStateBatchCombiner.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from kshim_protocol.internal.share_state import ShareSnapshotValue, ShareUpdateValue, StateBatch

NO_START_OFFSET: Final = -1
NO_COUNT: Final = -1


_FIRST_OFFSET: Final = itemgetter(0)
_LAST_OFFSET: Final = itemgetter(1)


class Batch(NamedTuple):
    """The state of the records from `first_offset` to `last_offset`, both included."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class ShareState(NamedTuple):
    """One share partition. `batches` are in order, do not overlap, and begin at the start offset at the earliest.

    `create_ms` and `write_ms` are those of the snapshot: they differ where it was written because the one before was old.
    `snapshot_offset`: where it stands in the log. `update_count`: how many updates count for the next one.
    `fencing_epoch`: the newest leader epoch ever heard of; a state that begins again has leader epoch 0, and still refuses
    older leaders.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_ms: int
    write_ms: int
    batches: tuple[Batch, ...] = ()
    update_count: int = 0
    fencing_epoch: int = 0
    snapshot_offset: int = -1

    def after(self, update: ShareUpdateValue) -> ShareState:
        """With an update applied."""
        batches = combined(map(_batch, update.state_batches), update.start_offset, over=self.batches)
        return self._replace(
            leader_epoch=update.leader_epoch,
            start_offset=update.start_offset,
            delivery_complete_count=update.delivery_complete_count,
            batches=batches,
            update_count=self.update_count + 1,
            fencing_epoch=max(self.fencing_epoch, update.leader_epoch),
        )

    def snapshot(self) -> ShareSnapshotValue:
        """As the value of a record."""
        return ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.create_ms,
            write_timestamp=self.write_ms,
            state_batches=records_of(self.batches),
        )


def state_of(value: ShareSnapshotValue, offset: int, before: ShareState | None, *, max_updates: int) -> ShareState:
    """What a snapshot says, which follows on a state, or begins one. It is due after `max_updates`; as in Kafka, one that
    comes earlier does not put off the next."""
    newest_epoch = 0 if before is None else before.fencing_epoch
    update_count = 0 if before is None or before.update_count >= max_updates else before.update_count
    return ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        value.create_timestamp,
        value.write_timestamp,
        tuple(map(_batch, value.state_batches)),
        update_count=update_count,
        fencing_epoch=max(newest_epoch, value.leader_epoch),
        snapshot_offset=offset,
    )


def records_of(batches: Iterable[Batch]) -> tuple[StateBatch, ...]:
    """As they stand in records."""
    return tuple(
        StateBatch(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.delivery_state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    )


def _batch(value: StateBatch) -> Batch:
    return Batch(value.first_offset, value.last_offset, value.delivery_state, value.delivery_count)


def combined(batches: Iterable[Batch], start_offset: int, *, over: Sequence[Batch] = ()) -> tuple[Batch, ...]:
    """Batches that may overlap as ones that do not: the higher delivery count holds, then the higher state.

    Equal neighbours are one; what is before the start offset is left out. `over` is what this has made of others, over which
    they are laid.
    """
    found = list(over)
    for batch in batches:
        if batch.last_offset < batch.first_offset:
            continue
        if not found or found[-1].last_offset < batch.first_offset:
            found.append(batch)
            continue
        begin = bisect_left(found, batch.first_offset, key=_LAST_OFFSET)
        end = bisect_right(found, batch.last_offset, lo=begin, key=_FIRST_OFFSET)
        found[begin:end] = _over(found[begin:end], batch)
    joined: list[Batch] = []
    for batch in found:
        if batch.last_offset < start_offset:
            continue
        if batch.first_offset < start_offset:
            batch = Batch(start_offset, *batch[1:])
        last = joined[-1] if joined else None
        if last is not None and last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
            joined[-1] = Batch(last.first_offset, *batch[1:])
        else:
            joined.append(batch)
    return tuple(joined)


def _over(before: list[Batch], batch: Batch) -> list[Batch]:
    """One batch laid over those that overlap with it."""
    found = []
    at, end = batch.first_offset, batch.last_offset
    for other in before:
        if other.first_offset < batch.first_offset:
            found.append(Batch(other.first_offset, batch.first_offset - 1, *other[2:]))
        elif at < other.first_offset:
            found.append(Batch(at, other.first_offset - 1, *batch[2:]))
        first, last = max(other.first_offset, batch.first_offset), min(other.last_offset, end)
        is_higher = (other.delivery_count, other.delivery_state) >= (batch.delivery_count, batch.delivery_state)
        found.append(Batch(first, last, *(other if is_higher else batch)[2:]))
        if other.last_offset > end:
            found.append(Batch(end + 1, *other[1:]))
        at = last + 1
    if at <= end:
        found.append(Batch(at, *batch[1:]))
    return found
