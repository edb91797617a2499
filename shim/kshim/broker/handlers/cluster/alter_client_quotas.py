"""AlterClientQuotas: quotas are kept and described; nobody is throttled (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.config.client_quotas import Entity, entity_of, require_valid
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryDataResult,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(AlterClientQuotasRequest)
def alter_client_quotas(node: Node, request: AlterClientQuotasRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Change the entities without a mistake. Errors of one: INVALID_REQUEST. Kafka: ClientQuotaControlManager."""
    errors: dict[Entity, KafkaError | None] = {}
    changes: dict[Entity, dict[str, float | None]] = {}
    for entry in request.entries:
        entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
        try:
            values = _values(entry, entity, is_known=entity in errors)
            require_valid(dict(entity), values)
        except KafkaError as error:
            errors[entity] = error
            continue
        errors[entity] = None
        changes[entity] = values
    if not request.validate_only:
        try:
            node.cluster.client_quotas.change(changes)
        except LogError as problem:
            node.cluster.report(problem, request)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from None
    return answered(
        ticket, AlterClientQuotasResponse(entries=tuple(_result(entity, error) for entity, error in errors.items()))
    )


def _values(entry: EntryData, entity: Entity, *, is_known: bool) -> dict[str, float | None]:
    """Quotas by key, None to remove one. Raises KafkaError: a key or the entity is there twice."""
    values = {op.key: None if op.remove else op.value for op in entry.ops}
    if is_known or len(values) < len(entry.ops):
        shown = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})")
    return values


def _result(entity: Entity, error: KafkaError | None) -> EntryDataResult:
    return EntryDataResult(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
    )
