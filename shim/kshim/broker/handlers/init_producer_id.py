"""InitProducerId: an id for a producer that numbers its batches."""

from __future__ import annotations

from kshim.broker.node import Node
from kshim.broker.router import PendingReply, answered, handles
from kshim.coordinator.step import RequestContext, Step
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["init_producer_id"]


@handles(InitProducerIdRequest)
def init_producer_id(node: Node, request: InitProducerIdRequest, context: RequestContext, ticket: PendingReply) -> Step:
    """Answer with a fresh producer id and epoch 0, also when the client had one (KIP-360 asks so; checked on 4.4).

    There are no transactions yet: a transactional id gets UNSUPPORTED_VERSION, which every client takes as final and
    shows, where a retriable error would leave it waiting. Raises KafkaError: INVALID_REQUEST, UNSUPPORTED_VERSION.
    """
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "producer id and epoch go together")
    if request.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "empty transactional id")
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "transactions are not supported")
    return answered(
        ticket,
        InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=node.cluster.next_producer_id(), producer_epoch=0
        ),
    )
