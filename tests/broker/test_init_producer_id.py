"""InitProducerId without transactions."""

from __future__ import annotations

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.harness import a_node


def init(transactional_id: str | None = None, producer_id: int = -1, producer_epoch: int = -1) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


@pytest.mark.parametrize("version", range(6))
def test_each_producer_gets_an_id_of_its_own_and_epoch_zero(version: int) -> None:
    node = a_node()
    replies = [node.client().ask(init(), version) for _ in range(3)]
    assert [(reply.error_code, reply.producer_epoch) for reply in replies] == [(ErrorCode.NONE, 0)] * 3
    assert len({reply.producer_id for reply in replies}) == 3


def test_a_producer_that_had_an_id_gets_a_fresh_one() -> None:
    client = a_node().client()
    first = client.ask(init())
    second = client.ask(init(producer_id=first.producer_id, producer_epoch=first.producer_epoch))
    assert (second.error_code, second.producer_epoch) == (ErrorCode.NONE, 0)
    assert second.producer_id != first.producer_id


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (init(producer_id=5), ErrorCode.INVALID_REQUEST),
        (init(producer_epoch=5), ErrorCode.INVALID_REQUEST),
        (init(transactional_id=""), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_gets_an_error_and_no_id(request_: InitProducerIdRequest, error: ErrorCode) -> None:
    reply = a_node().client().ask(request_)
    assert reply == InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
