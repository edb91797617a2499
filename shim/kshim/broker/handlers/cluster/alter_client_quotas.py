"""AlterClientQuotas: refused, as nothing here would keep to a quota (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.handlers.cluster.describe_client_quotas import ENTITY_TYPES
from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryDataResult,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(AlterClientQuotasRequest)
def alter_client_quotas(node: Node, request: AlterClientQuotasRequest, context: RequestContext, ticket: Ticket) -> Step:
    """POLICY_VIOLATION for each entity of which a quota is to be set; to remove what is not there succeeds, as in Kafka.

    Kafka takes quotas and throttles by them. To take them and not throttle would be worse than to refuse.
    """
    return answered(ticket, AlterClientQuotasResponse(entries=tuple(_outcome(entry) for entry in request.entries)))


def _outcome(entry: EntryData) -> EntryDataResult:
    try:
        _check(entry)
    except KafkaError as error:
        return EntryDataResult(error_code=error.code, error_message=error.message, entity=entry.entity)
    return EntryDataResult(error_code=ErrorCode.NONE, error_message=None, entity=entry.entity)


def _check(entry: EntryData) -> None:
    """Raises KafkaError."""
    types = [part.entity_type for part in entry.entity]
    if not types or len(set(types)) < len(types) or not ENTITY_TYPES.issuperset(types):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "an entity must be a user, a client id, both of them, or an IP address"
        )
    if "ip" in types and len(types) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an IP address cannot be combined with other entities")
    if any(not op.remove for op in entry.ops):
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "quotas are not supported")
