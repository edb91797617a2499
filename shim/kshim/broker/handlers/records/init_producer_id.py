"""InitProducerId: an id for a producer that numbers its batches, and may write them in transactions."""

from __future__ import annotations

from kshim.broker.node import Node
from kshim.broker.request import PendingReply, answered, handles
from kshim.coordinator.step import RequestContext, Step
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


@handles(InitProducerIdRequest)
def init_producer_id(node: Node, request: InitProducerIdRequest, context: RequestContext, ticket: PendingReply) -> Step:
    """A transactional id is for the transaction coordinator. Without one: a fresh producer id and epoch 0.

    Also when the client had one (KIP-360 asks so; checked on 4.4).
    Raises KafkaError: INVALID_REQUEST, COORDINATOR_NOT_AVAILABLE.
    """
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "producer id and epoch must either both be set or both be -1")
    if request.transactional_id is not None:
        return node.cluster.transactions.coordinator.init_producer_id(request, context, ticket)
    try:
        producer_id = node.cluster.next_producer_id()
    except LogError as error:
        node.cluster.report(error, request)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None
    return answered(
        ticket, InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)
    )
