"""Quotas: none are there, none can be set. Filters are compared with a live Kafka in `test_configs_like_kafka`."""

from __future__ import annotations

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kshim_protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from tests.broker.harness import a_node


def outcome(entity: tuple[tuple[str, str | None], ...], *, remove: bool = False) -> tuple[int, str | None]:
    entry = EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
        ops=(OpData(key="producer_byte_rate", value=1.0, remove=remove),),
    )
    request = AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    (row,) = a_node().client().ask(request).entries
    assert row.entity == entry.entity
    return row.error_code, row.error_message


def test_none_are_there() -> None:
    answer = a_node().client().ask(DescribeClientQuotasRequest(components=(), strict=False))
    assert (answer.error_code, answer.entries) == (ErrorCode.NONE, ())


def test_none_can_be_set_and_the_answer_says_why() -> None:
    error, message = outcome((("user", "u"), ("client-id", None)))
    assert error == ErrorCode.POLICY_VIOLATION
    assert "not supported" in (message or "")


def test_removing_what_is_not_there_succeeds() -> None:
    assert outcome((("user", "u"),), remove=True) == (ErrorCode.NONE, None)


@pytest.mark.parametrize("kinds", [(), ("user", "user"), ("ip", "user"), ("nothing",)])
def test_what_cannot_be_an_entity_is_refused(kinds: tuple[str, ...]) -> None:
    assert outcome(tuple((kind, "x") for kind in kinds))[0] == ErrorCode.INVALID_REQUEST
