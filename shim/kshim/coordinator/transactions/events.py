"""What the transaction coordinator reports: every transition with its cause."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from kshim.coordinator.step import TRANSACTIONS_TOPIC, Event
from kshim.coordinator.transactions.state import TransactionState


class TransactionCause(Enum):
    """Why a transactional id changed. The vocabulary is fixed."""

    INITIALIZED = "initialized"
    PARTITIONS_ADDED = "partitions-added"
    END_REQUESTED = "end-requested"
    FENCED = "fenced"
    TIMED_OUT = "timed-out"
    MARKERS_WRITTEN = "markers-written"
    EXPIRED = "expired"

    def __str__(self) -> str:
        return self.value


_ROUTINE = frozenset(
    {TransactionCause.PARTITIONS_ADDED, TransactionCause.END_REQUESTED, TransactionCause.MARKERS_WRITTEN}
)


class TransactionEvent(Event):
    """Base of the events of this coordinator. `partition` is that of `__transaction_state`."""

    coordinator: ClassVar[str] = "TransactionCoordinator"
    topic: ClassVar[str] = TRANSACTIONS_TOPIC


class TransactionTransition(TransactionEvent):
    """A transactional id went from `previous` to `new`.

    Producer id and epoch are those after the transition, `partition_count` is how many the transaction has then.
    """

    transactional_id: str
    previous: TransactionState
    new: TransactionState
    cause: TransactionCause
    producer_id: int
    producer_epoch: int
    partition_count: int


class TransactionAdvanced(TransactionTransition):
    """The same in the ordinary course of a transaction: it began, grew, was ended by its producer, is over."""

    is_routine: ClassVar[bool] = True


class TransactionRecordsSkipped(TransactionEvent):
    """Loading met records of a key type that is not known here."""

    key_type: int
    count: int


def transition(cause: TransactionCause) -> type[TransactionTransition]:
    """The class for a transition with this cause."""
    return TransactionAdvanced if cause in _ROUTINE else TransactionTransition
