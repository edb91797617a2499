"""EndTxn: the outcome of a transaction is decided when its Prepare record is durable.

Source: Kafka's TransactionCoordinator.endTransaction, for clients without transaction.version 2; KIP-98.
"""

from __future__ import annotations

from collections.abc import Callable

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim.coordinator.transactions.events import TransactionCause
from kshim.coordinator.transactions.markers import end_decided
from kshim.coordinator.transactions.shard import TransactionShard
from kshim.coordinator.transactions.state import TransactionState
from kshim.coordinator.transactions.transaction import LAST_EPOCH, NO_EPOCH, Facts, Transaction
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


def require_producer(transaction: Transaction, producer_id: int, producer_epoch: int) -> None:
    """Whether it is the newest producer of the id. Raises KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED."""
    facts = transaction.facts
    if producer_id != facts.producer_id:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"the producer id is {facts.producer_id}, not {producer_id}"
        )
    if producer_epoch != facts.producer_epoch:
        raise KafkaError(
            ErrorCode.PRODUCER_FENCED, f"the producer epoch is {facts.producer_epoch}, not {producer_epoch}"
        )


def end_txn(
    shard: TransactionShard, request: EndTxnRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Decide the outcome; answered when it is in the log. Asked again for the same outcome it is still that.

    Raises KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS (markers are being written),
    INVALID_TXN_STATE (no transaction is open, or it had the other outcome).
    """
    transaction = shard.require(request.transactional_id)
    require_producer(transaction, request.producer_id, request.producer_epoch)
    facts = transaction.facts
    response = EndTxnResponse(error_code=ErrorCode.NONE)
    match facts.state, request.committed:
        case (TransactionState.COMPLETE_COMMIT, True) | (TransactionState.COMPLETE_ABORT, False):
            step.reply(ticket, response)
            return
        case (TransactionState.PREPARE_COMMIT, True) | (TransactionState.PREPARE_ABORT, False):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        case (TransactionState.ONGOING, _):
            pass
        case _:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"the transaction is in state {facts.state}")
    decided = facts._replace(
        state=TransactionState.PREPARE_COMMIT if request.committed else TransactionState.PREPARE_ABORT,
        update_ms=context.now.wall_ms,
    )

    def ended(step: Step) -> None:
        step.reply(ticket, response)

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(append_error(error), context.api_version))

    _decide(shard, transaction, decided, TransactionCause.END_REQUESTED, context.now, step, ended=ended, failed=failed)


def abort(
    shard: TransactionShard,
    transaction: Transaction,
    cause: TransactionCause,
    now: Now,
    step: Step,
    *,
    aborted: Callable[[Step], None],
    failed: Callable[[ErrorCode, Step], None],
) -> None:
    """Abort an open transaction that its producer may not know of: with a higher epoch, so that it is fenced.

    No client is ever given that epoch, so that the last one, which only fences, may be it.
    """
    facts = transaction.facts
    assert facts.producer_epoch <= LAST_EPOCH, "no transaction is ever open with the epoch that only fences"
    decided = facts._replace(
        state=TransactionState.PREPARE_ABORT,
        producer_epoch=facts.producer_epoch + 1,
        last_producer_epoch=NO_EPOCH,
        update_ms=now.wall_ms,
    )
    _decide(shard, transaction, decided, cause, now, step, ended=aborted, failed=failed)


def _decide(
    shard: TransactionShard,
    transaction: Transaction,
    decided: Facts,
    cause: TransactionCause,
    now: Now,
    step: Step,
    *,
    ended: Callable[[Step], None],
    failed: Callable[[ErrorCode, Step], None],
) -> None:
    def written(_base_offset: int, _step: Step) -> None:
        shard.change(transaction, decided, cause, now, step)
        ended(step)
        end_decided(shard, transaction, now, step)

    shard.append(step, transaction.transactional_id, decided, now, written=written, failed=failed)
