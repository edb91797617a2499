"""DescribeClientQuotas: the quotas that AlterClientQuotas has set (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.config.client_quotas import ENTITY_TYPES, IP, Filter
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node

_EXACT, _DEFAULT, _ANY = range(3)
_NAMES = {_EXACT: "MATCH_TYPE_EXACT", _DEFAULT: "MATCH_TYPE_DEFAULT", _ANY: "MATCH_TYPE_SPECIFIED"}


@handles(DescribeClientQuotasRequest)
def describe_client_quotas(
    node: Node, request: DescribeClientQuotasRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """The entities that match all parts of the filter. Raises KafkaError for one that cannot be. Kafka: ClientQuotasImage."""
    wanted = _filter(request)
    try:
        found = node.cluster.client_quotas.matching(wanted)
    except LogError as problem:
        node.cluster.report(problem, request)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from None
    entries = tuple(
        EntryData(
            entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
            values=tuple(ValueData(key=key, value=value) for key, value in values.items()),
        )
        for entity, values in found
    )
    return answered(ticket, DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message="", entries=entries))


def _filter(request: DescribeClientQuotasRequest) -> Filter:
    names: dict[str, str | None] = {}
    types: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in names or kind in types:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."
            )
        _check(component)
        if component.match_type == _ANY:
            types.add(kind)
        else:
            names[kind] = component.match
    asked = {*names, *types}
    if IP in asked and len(asked) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component.",
        )
    return Filter(names, frozenset(types), request.strict)


def _check(component: ComponentData) -> None:
    """Raises KafkaError."""
    if component.entity_type not in ENTITY_TYPES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}")
    if component.match_type not in _NAMES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    if (component.match_type == _EXACT) != (component.match is not None):
        what = "set match string to null" if component.match_type == _EXACT else "also specified a match string"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Request specified {_NAMES[component.match_type]}, but {what}.")
