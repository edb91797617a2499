"""InitProducerId with a transactional id: a later producer gets a higher epoch, and an open transaction is aborted.

Source: Kafka's TransactionCoordinator.handleInitProducerId, prepareInitProducerIdTransit; KIP-98, KIP-360, KIP-588.
"""

from __future__ import annotations

from collections.abc import Callable

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.coordinator.transactions.end_txn import abort
from kshim.coordinator.transactions.events import TransactionCause
from kshim.coordinator.transactions.shard import TransactionShard
from kshim.coordinator.transactions.state import TransactionState
from kshim.coordinator.transactions.transaction import LAST_EPOCH, NO_EPOCH, Facts, Transaction
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NOT_GIVEN = -1


def init_producer_id(
    shard: TransactionShard,
    request: InitProducerIdRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """Give the id's next epoch, or a fresh producer id when its epochs are used up.

    An open transaction is aborted first, and CONCURRENT_TRANSACTIONS answered: the client comes again. That it names
    producer id and epoch means it goes on after an error, which only the newest producer may.
    Raises KafkaError: CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
    """
    transactional_id = request.transactional_id
    assert transactional_id
    now = context.now
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        transaction = Transaction(
            transactional_id, Facts(shard.new_producer_id(), NO_EPOCH, request.transaction_timeout_ms)
        )
    facts = transaction.facts
    _require_newest(facts, request)
    if facts.state.is_decided:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(append_error(error), context.api_version))

    if facts.state is TransactionState.ONGOING:

        def aborted(step: Step) -> None:
            step.reply(ticket, request.error_response(ErrorCode.CONCURRENT_TRANSACTIONS, context.api_version))

        abort(shard, transaction, TransactionCause.FENCED, now, step, aborted=aborted, failed=failed)
        return
    after = _next(facts, request, shard.new_producer_id)._replace(
        timeout_ms=request.transaction_timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        start_ms=-1,
        update_ms=now.wall_ms,
    )

    def written(_base_offset: int, step: Step) -> None:
        shard.change(transaction, after, TransactionCause.INITIALIZED, now, step)
        response = InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=after.producer_id, producer_epoch=after.producer_epoch
        )
        step.reply(ticket, response)

    shard.append(step, transactional_id, after, now, written=written, failed=failed)


def _require_newest(facts: Facts, request: InitProducerIdRequest) -> None:
    """Whether a producer that sends its id and epoch is the latest one. Raises KafkaError: PRODUCER_FENCED."""
    if request.producer_id == _NOT_GIVEN or facts.producer_epoch == NO_EPOCH:
        return
    if request.producer_id == facts.producer_id:
        return
    if request.producer_id == facts.last_producer_id and request.producer_epoch >= LAST_EPOCH:
        return  # it did not get the answer that had a new id for it
    raise KafkaError(ErrorCode.PRODUCER_FENCED, f"the producer id is {facts.producer_id} by now")


def _next(facts: Facts, request: InitProducerIdRequest, new_producer_id: Callable[[], int]) -> Facts:
    """The facts with the producer id and epoch to hand out. Raises KafkaError: PRODUCER_FENCED."""
    is_given = request.producer_id != _NOT_GIVEN
    epoch = facts.producer_epoch
    if epoch >= LAST_EPOCH and (not is_given or request.producer_epoch == epoch):
        return facts._replace(
            producer_id=new_producer_id(),
            producer_epoch=0,
            last_producer_id=facts.producer_id,
            last_producer_epoch=epoch if is_given else NO_EPOCH,
        )
    if not is_given:
        last_epoch = NO_EPOCH
    elif epoch in (NO_EPOCH, request.producer_epoch):
        last_epoch = epoch
    elif request.producer_epoch == facts.last_producer_epoch:
        return facts  # it did not get the answer: the same again
    else:
        raise KafkaError(
            ErrorCode.PRODUCER_FENCED, f"the producer epoch is {epoch} by now, not {request.producer_epoch}"
        )
    return facts._replace(producer_epoch=epoch + 1, last_producer_id=facts.producer_id, last_producer_epoch=last_epoch)
