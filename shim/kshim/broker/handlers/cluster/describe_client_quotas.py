"""DescribeClientQuotas: none, as none can be set (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


ENTITY_TYPES = frozenset({"user", "client-id", "ip"})
_EXACT, _DEFAULT, _ANY = range(3)


@handles(DescribeClientQuotasRequest)
def describe_client_quotas(
    node: Node, request: DescribeClientQuotasRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """No quota matches a filter that can be. Raises KafkaError for one that cannot be, as Kafka's ClientQuotaCache."""
    seen: set[str] = set()
    for component in request.components:
        _check(component)
        if component.entity_type in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"entity type {component.entity_type} is in the filter twice")
        seen.add(component.entity_type)
    if "ip" in seen and len(seen) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a filter by IP address cannot be combined with others")
    return answered(ticket, DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message="", entries=()))


def _check(component: ComponentData) -> None:
    """Raises KafkaError."""
    if not component.entity_type:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an entity type is required")
    if component.entity_type not in ENTITY_TYPES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"unknown entity type {component.entity_type}")
    if component.match_type not in (_EXACT, _DEFAULT, _ANY):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown match type {component.match_type}")
    if (component.match_type == _EXACT) != (component.match is not None):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a name is required for an exact match, and only then")
