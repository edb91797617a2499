"""The transaction coordinator's events in words; those that people grep for in Kafka's log are worded as there."""

from __future__ import annotations

import io

import pytest

from kshim.cli.log import Log
from kshim.coordinator.step import Now
from kshim.coordinator.transactions.events import (
    TransactionCause,
    TransactionRecordsSkipped,
    TransactionTransition,
    transition,
)
from kshim.coordinator.transactions.state import TransactionState
from kshim.history.transaction_lines import transaction_line_of

NOW = Now(5, 1_700_000_000_000)
TEXTS = {
    TransactionCause.INITIALIZED: (
        "Initialized transactionalId x with producerId 7 and producer epoch 2 on partition __transaction_state-3"
    ),
    TransactionCause.TIMED_OUT: (
        "Rolling back the ongoing transaction for transactionalId x due to timeout; its producer is fenced by "
        "producerId 7 and producer epoch 2"
    ),
    TransactionCause.FENCED: "Rolling back the ongoing transaction for transactionalId x because of a new producer",
    TransactionCause.EXPIRED: "Removed expired transactionalId x",
    TransactionCause.END_REQUESTED: (
        "Moved transactionalId x with producerId 7 and producer epoch 2 from Ongoing to PrepareCommit with 4 "
        "partitions (end-requested)"
    ),
}


def event(cause: TransactionCause) -> TransactionTransition:
    return transition(cause)(
        partition=3,
        now=NOW,
        transactional_id="x",
        previous=TransactionState.ONGOING,
        new=TransactionState.PREPARE_COMMIT,
        cause=cause,
        producer_id=7,
        producer_epoch=2,
        partition_count=4,
    )


@pytest.mark.parametrize("cause", TEXTS, ids=str)
def test_each_transition_has_a_line(cause: TransactionCause) -> None:
    line = transaction_line_of(event(cause))
    assert line.text == TEXTS[cause]
    assert line.level == ("DEBUG" if event(cause).is_routine else "INFO")


def test_routine_events_of_transactions_are_logged_with_verbosity_only() -> None:
    for verbosity in (0, 1):
        stream = io.StringIO()
        log = Log(stream, "text", verbosity=verbosity)
        log.node_id = 1
        log.coordinator_event(event(TransactionCause.MARKERS_WRITTEN))
        log.coordinator_event(event(TransactionCause.EXPIRED))
        lines = stream.getvalue().splitlines()
        assert len(lines) == (1 + verbosity)
        assert "[TransactionCoordinator id=1 topic=__transaction_state partition=3] Removed" in lines[-1]


def test_as_json_the_partition_is_that_of_the_transactions() -> None:
    stream = io.StringIO()
    log = Log(stream, "json", verbosity=0)
    log.coordinator_event(event(TransactionCause.TIMED_OUT))
    assert '"transactions_partition": 3' in stream.getvalue()
    assert '"to": "PrepareCommit"' in stream.getvalue()


def test_skipped_records_are_a_warning() -> None:
    line = transaction_line_of(TransactionRecordsSkipped(partition=3, now=NOW, key_type=9, count=2))
    assert line == ("WARN", "Skipped 2 records of key type 9, which is unknown")
