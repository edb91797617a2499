"""Log lines for the events of the transaction coordinator, worded as in Kafka's log where it has the same line."""

from __future__ import annotations

from kshim.coordinator.step import Event
from kshim.coordinator.transactions.events import (
    TransactionAdvanced,
    TransactionCause,
    TransactionRecordsSkipped,
    TransactionTransition,
)
from kshim.history.coordinator_lines import Line


def transaction_line_of(event: Event) -> Line:
    """The line for an event."""
    match event:
        case TransactionRecordsSkipped():
            return Line("WARN", f"Skipped {event.count} records of key type {event.key_type}, which is unknown")
        case TransactionAdvanced():
            return Line("DEBUG", _transition(event))
        case TransactionTransition():
            return Line("INFO", _transition(event))
        case _:
            return Line("INFO", repr(event))


def _transition(event: TransactionTransition) -> str:
    who = f"transactionalId {event.transactional_id}"
    producer = f"producerId {event.producer_id} and producer epoch {event.producer_epoch}"
    match event.cause:
        case TransactionCause.INITIALIZED:
            return f"Initialized {who} with {producer} on partition {event.topic}-{event.partition}"
        case TransactionCause.TIMED_OUT:
            return (
                f"Rolling back the ongoing transaction for {who} due to timeout; its producer is fenced by {producer}"
            )
        case TransactionCause.FENCED:
            return f"Rolling back the ongoing transaction for {who} because of a new producer"
        case TransactionCause.EXPIRED:
            return f"Removed expired {who}"
        case _:
            return (
                f"Moved {who} with {producer} from {event.previous} to {event.new} with {event.partition_count} "
                f"partitions ({event.cause})"
            )
