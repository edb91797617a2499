"""What follows once the outcome of a transaction is durable: a marker for every partition, then the Complete record.

Source: Kafka's TransactionMarkerChannelManager. There a marker is sent to the leader of the partition; here it is handed
to the caller that applies the step.
"""

from __future__ import annotations

from kshim.coordinator.step import Marker, Now, Step
from kshim.coordinator.transactions.events import TransactionCause
from kshim.coordinator.transactions.shard import TransactionShard
from kshim.coordinator.transactions.state import TransactionState
from kshim.coordinator.transactions.transaction import NO_PRODUCER_ID, Transaction, TransactionPartition
from kshim_protocol.errors import ErrorCode

MARKER_PAUSE_MS = 200
"""How long a partition is left alone that could not take its marker."""


class _Round:
    """Markers on their way: how many are not settled yet, and whether one of them failed."""

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting
        self.has_failed = False


def write_markers(shard: TransactionShard, transaction: Transaction, now: Now, step: Step) -> None:
    """Have the markers written that are still missing; the last one that succeeds brings the Complete record.

    The transaction is decided, and none of its markers is on its way.
    """
    if not transaction.unmarked:
        _complete(shard, transaction, now, step)
        return
    facts = transaction.facts
    underway = _Round(len(transaction.unmarked))

    def settled(where: TransactionPartition, error: ErrorCode) -> Step | None:
        if not shard.holds(transaction, facts):
            return None  # unloaded meanwhile: the next load begins again
        underway.waiting -= 1
        if error is ErrorCode.NONE:
            transaction.unmarked.discard(where)
        else:
            underway.has_failed = True
        if underway.waiting:
            return None
        if underway.has_failed:
            shard.deadlines.set(shard.key_of(transaction), now.mono_ms + MARKER_PAUSE_MS)
            return None
        after = shard.new_step()
        _complete(shard, transaction, now, after)
        return after

    markers = [
        Marker(
            *where,
            producer_id=facts.producer_id,
            producer_epoch=facts.producer_epoch,
            is_commit=facts.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=shard.coordinator_epoch,
            now=now,
            settle=lambda error, where=where: settled(where, error),  # type: ignore[misc]
            transaction_version=facts.client_version,
        )
        for where in sorted(transaction.unmarked)
    ]
    step.markers = (*step.markers, *markers)


def end_decided(shard: TransactionShard, transaction: Transaction, now: Now, step: Step) -> None:
    """Have the transaction ended, whose outcome is in the log by now, once that is durable."""
    facts = transaction.facts

    def durable() -> Step | None:
        if not shard.holds(transaction, facts):
            return None
        after = shard.new_step()
        write_markers(shard, transaction, now, after)
        return after

    step.once_durable = (*step.once_durable, durable)


def _complete(shard: TransactionShard, transaction: Transaction, now: Now, step: Step) -> None:
    facts = transaction.facts
    complete = facts._replace(
        state=TransactionState.COMPLETE_COMMIT
        if facts.state is TransactionState.PREPARE_COMMIT
        else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        update_ms=now.wall_ms,
    )
    if facts.next_producer_id != NO_PRODUCER_ID:  # its epochs are used up
        complete = complete._replace(
            producer_id=facts.next_producer_id,
            producer_epoch=0,
            last_producer_id=facts.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )

    def written(_base_offset: int, step: Step) -> None:
        shard.change(transaction, complete, TransactionCause.MARKERS_WRITTEN, now, step)

    def failed(_error: ErrorCode, _step: Step) -> None:
        if shard.holds(transaction, facts):  # the failure may have unloaded the shard
            shard.deadlines.set(shard.key_of(transaction), now.mono_ms + MARKER_PAUSE_MS)

    shard.append(step, transaction.transactional_id, complete, now, written=written, failed=failed)
