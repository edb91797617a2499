"""EndTxn: the outcome of a transaction is decided when its Prepare record is durable.

Source: Kafka's TransactionCoordinator.endTransaction; KIP-98, KIP-890.
"""

from __future__ import annotations

from collections.abc import Callable

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim.coordinator.transactions.events import TransactionCause
from kshim.coordinator.transactions.markers import end_decided
from kshim.coordinator.transactions.shard import TransactionShard
from kshim.coordinator.transactions.state import TransactionState
from kshim.coordinator.transactions.transaction import LAST_EPOCH, NO_EPOCH, NO_PRODUCER_ID, Facts, Transaction
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


BUMPS_SINCE = 5
"""Version of EndTxn from which on each transaction ends with the epoch of the next one (KIP-890)."""
_OUTCOMES = {
    True: (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT),
    False: (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT),
}


def end_txn(
    shard: TransactionShard, request: EndTxnRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Decide the outcome; answered when it is in the log. Asked again for the same outcome it is still that.

    Raises KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS (markers are being written),
    INVALID_TXN_STATE (no transaction is open, or it had the other outcome); from version 5 on as `_end_and_bump`.
    """
    if context.api_version >= BUMPS_SINCE:
        _end_and_bump(shard, request, context, ticket, step)
        return
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
        client_version=0,
    )

    def ended(step: Step) -> None:
        step.reply(ticket, response)

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(append_error(error), context.api_version))

    _decide(shard, transaction, decided, TransactionCause.END_REQUESTED, context.now, step, ended=ended, failed=failed)


def _end_and_bump(
    shard: TransactionShard, request: EndTxnRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """The same with an answer that has the producer id and epoch of the next transaction.

    The epoch says whether a request is a repetition: that has the epoch before. An abort needs no open transaction.
    Raises KafkaError as `end_txn` does, and UNSUPPORTED_VERSION where transaction.version 0 has no room for it.
    """
    transaction = shard.require(request.transactional_id)
    facts = transaction.facts
    is_repeated = _is_repeated(facts, request)
    if request.producer_id != facts.producer_id and not is_repeated:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"the producer id is {facts.producer_id}, not {request.producer_id}"
        )
    is_current = request.producer_epoch == facts.producer_epoch and not facts.state.is_decided
    if not is_repeated and not is_current:
        raise KafkaError(
            ErrorCode.PRODUCER_FENCED, f"the producer epoch is {facts.producer_epoch}, not {request.producer_epoch}"
        )
    prepare, complete = _OUTCOMES[request.committed]
    if is_repeated:
        if facts.state is prepare:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if facts.state is not complete:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"the transaction is in state {facts.state}")
        step.reply(ticket, _goes_on_with(facts.producer_id, facts.producer_epoch))
        return
    is_open = facts.state is TransactionState.ONGOING
    if request.committed and not is_open:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"the transaction is in state {facts.state}")
    require_room_for_client_version(shard)
    decided = _bumped(shard, facts)._replace(
        state=prepare,
        update_ms=context.now.wall_ms,
        start_ms=facts.start_ms if is_open else context.now.wall_ms,
    )

    def ended(step: Step) -> None:
        if decided.next_producer_id == NO_PRODUCER_ID:
            step.reply(ticket, _goes_on_with(decided.producer_id, decided.producer_epoch))
        else:
            step.reply(ticket, _goes_on_with(decided.next_producer_id, 0))

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(append_error(error), context.api_version))

    _decide(shard, transaction, decided, TransactionCause.END_REQUESTED, context.now, step, ended=ended, failed=failed)


def _is_repeated(facts: Facts, request: EndTxnRequest) -> bool:
    """Whether a client of transaction.version 2 asks again for what was decided: it did not get the answer."""
    if facts.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        return False
    if request.producer_id == facts.producer_id:
        return request.producer_epoch + 1 == facts.producer_epoch
    return (request.producer_id, request.producer_epoch, facts.producer_epoch) == (
        facts.last_producer_id,
        LAST_EPOCH,
        0,
    )


def _goes_on_with(producer_id: int, producer_epoch: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=producer_epoch)


def require_room_for_client_version(shard: TransactionShard) -> None:
    """Raises KafkaError UNSUPPORTED_VERSION at level 0, whose records cannot say that a client has version 2."""
    if shard.transaction_version() == 0:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "transaction.version is 0")


def _bumped(shard: TransactionShard, facts: Facts) -> Facts:
    """With the next epoch, by the rules of transaction.version 2; after the last one comes another producer id."""
    return facts._replace(
        producer_epoch=facts.producer_epoch + 1,
        last_producer_epoch=facts.producer_epoch,
        next_producer_id=shard.new_producer_id() if facts.producer_epoch >= LAST_EPOCH else NO_PRODUCER_ID,
        client_version=2,
    )


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

    Below transaction.version 2 no client is ever given that epoch, so that the last one, which only fences, may be it.
    """
    facts = transaction.facts
    assert facts.producer_epoch <= LAST_EPOCH, "no transaction is ever open with the epoch that only fences"
    if shard.transaction_version() >= 2:
        bumped = _bumped(shard, facts)
    else:
        bumped = facts._replace(producer_epoch=facts.producer_epoch + 1, last_producer_epoch=NO_EPOCH, client_version=0)
    decided = bumped._replace(state=TransactionState.PREPARE_ABORT, update_ms=now.wall_ms)
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
