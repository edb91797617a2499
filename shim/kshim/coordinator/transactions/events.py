"""What the transaction coordinator reports: every transition with its cause."""

from __future__ import annotations

from enum import Enum

from kshim.coordinator.events import Event
from kshim.coordinator.transactions.state import TransactionState

__all__ = ["TransactionCause", "TransactionTransition"]


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


class TransactionTransition(Event):
    """A transactional id went from `previous` to `new`. `partition` is that of `__transaction_state`.

    Producer id and epoch are those after the transition, `partition_count` is how many the transaction has then.
    """

    transactional_id: str
    previous: TransactionState
    new: TransactionState
    cause: TransactionCause
    producer_id: int
    producer_epoch: int
    partition_count: int
