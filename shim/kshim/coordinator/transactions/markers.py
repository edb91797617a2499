"""What follows once the outcome of a transaction is durable: a marker for every partition, then the Complete record.

Source: Kafka's TransactionMarkerChannelManager. There a marker is sent to the leader of the partition; here it is handed
to whoever applies the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kshim.coordinator.step import TRANSACTIONS_TOPIC, Now, Step
from kshim.coordinator.transactions.events import TransactionCause
from kshim.coordinator.transactions.state import TransactionState
from kshim_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kshim.coordinator.transactions.shard import TransactionShard
    from kshim.coordinator.transactions.transaction import Facts, Transaction, TransactionPartition


MARKER_PAUSE_MS = 200
"""How long a partition is left alone that could not take its marker."""


class Marker:
    """One marker to be written to a partition, and what follows from its fate.

    `settle(error)` is called exactly once: with NONE when the marker is durable, as the policy has it, or when there is
    no such partition any more; with any other error when the marker may not be there. What it returns is to be applied.
    """

    __slots__ = (
        "coordinator_epoch",
        "is_commit",
        "now",
        "partition",
        "producer_epoch",
        "producer_id",
        "settle",
        "topic",
    )

    def __init__(
        self,
        where: TransactionPartition,
        facts: Facts,
        *,
        coordinator_epoch: int,
        now: Now,
        settle: Callable[[ErrorCode], Step | None],
    ) -> None:
        self.topic, self.partition = where
        self.producer_id = facts.producer_id
        self.producer_epoch = facts.producer_epoch
        self.is_commit = facts.state is TransactionState.PREPARE_COMMIT
        self.coordinator_epoch = coordinator_epoch
        self.now = now
        self.settle = settle

    def __repr__(self) -> str:
        outcome = "commit" if self.is_commit else "abort"
        return (
            f"<{outcome} of producer {self.producer_id} epoch {self.producer_epoch} in {self.topic}-{self.partition}>"
        )


class TransactionStep(Step):
    """A step of the transaction coordinator. `markers` are written after its appends.

    Each of `once_durable` is called once what the logs of its partitions hold by then is as durable as was promised, and
    not at all when that is lost; what it returns is to be applied.
    """

    __slots__ = ("markers", "once_durable")

    topic = TRANSACTIONS_TOPIC

    def __init__(self) -> None:
        super().__init__()
        self.markers: list[Marker] = []
        self.once_durable: list[Callable[[], Step | None]] = []


class _Round:
    """Markers on their way: how many are not settled yet, and whether one of them failed."""

    __slots__ = ("has_failed", "waiting")

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting
        self.has_failed = False


def write_markers(shard: TransactionShard, transaction: Transaction, now: Now, step: TransactionStep) -> None:
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
            return None  # given up meanwhile: whoever loads it begins anew
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
        after = TransactionStep()
        after.partitions = shard.alone
        _complete(shard, transaction, now, after)
        return after

    for where in sorted(transaction.unmarked):
        step.markers.append(
            Marker(
                where,
                facts,
                coordinator_epoch=shard.coordinator_epoch,
                now=now,
                settle=lambda error, where=where: settled(where, error),  # type: ignore[misc]
            )
        )


def end_decided(shard: TransactionShard, transaction: Transaction, now: Now, step: TransactionStep) -> None:
    """Have the transaction ended, whose outcome is in the log by now, once that is durable."""
    facts = transaction.facts

    def durable() -> Step | None:
        if not shard.holds(transaction, facts):
            return None
        after = TransactionStep()
        after.partitions = shard.alone
        write_markers(shard, transaction, now, after)
        return after

    step.once_durable.append(durable)


def _complete(shard: TransactionShard, transaction: Transaction, now: Now, step: Step) -> None:
    facts = transaction.facts
    complete = facts._replace(
        state=TransactionState.COMPLETE_COMMIT
        if facts.state is TransactionState.PREPARE_COMMIT
        else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        update_ms=now.wall_ms,
    )

    def written(_base_offset: int, step: Step) -> None:
        shard.change(transaction, complete, TransactionCause.MARKERS_WRITTEN, now, step)

    def failed(_error: ErrorCode, _step: Step) -> None:
        shard.deadlines.set(shard.key_of(transaction), now.mono_ms + MARKER_PAUSE_MS)

    shard.append(step, transaction.transactional_id, complete, now, written=written, failed=failed)
