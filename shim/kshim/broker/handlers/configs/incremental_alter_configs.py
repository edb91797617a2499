"""IncrementalAlterConfigs: change single entries of configurations (KIP-339)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kshim.broker.alter_configs.alter_configs import alter
from kshim.broker.alter_configs.changes import Resource, changed
from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(IncrementalAlterConfigsRequest)
def incremental_alter_configs(
    node: Node, request: IncrementalAlterConfigsRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """Alter topics, brokers, groups and client metrics, each wholly or not at all, in the order of the request.

    Kafka answers an unknown operation with UNKNOWN_SERVER_ERROR; here it is INVALID_REQUEST.
    """

    def configure(row: AlterConfigsResource, resource: Resource, before: Mapping[str, str]) -> Mapping[str, str]:
        return changed(before, row.configs, resource.key)

    outcomes = alter(node, request, request.resources, configure, validate_only=request.validate_only)
    rows = tuple(
        AlterConfigsResourceResponse(
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message,
            resource_type=row.resource_type,
            resource_name=row.resource_name,
        )
        for row, error in zip(request.resources, outcomes, strict=True)
    )
    return answered(ticket, IncrementalAlterConfigsResponse(responses=rows))
