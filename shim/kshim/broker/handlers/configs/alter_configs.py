"""AlterConfigs: put whole configurations in the place of others (KIP-133)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kshim.broker.alter_configs.alter_configs import alter
from kshim.broker.alter_configs.changes import replaced
from kshim.broker.alter_configs.kinds import BROKER_LOGGER
from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(AlterConfigsRequest)
def alter_configs(node: Node, request: AlterConfigsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """As IncrementalAlterConfigs, but that entries which are not named go; loggers cannot be altered in this way.

    Kafka never answers a request that names a resource twice; here it is INVALID_REQUEST.
    """

    def configure(row: AlterConfigsResource, key_of: object, before: Mapping[str, str]) -> Mapping[str, str]:
        if row.resource_type == BROKER_LOGGER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "loggers can only be altered with IncrementalAlterConfigs")
        return replaced([(config.name, config.value) for config in row.configs])

    return alter(node, request, ticket, configure)
