"""IncrementalAlterConfigs: change single entries of configurations (KIP-339)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.alter_configs.alter_configs import alter
from kshim.broker.alter_configs.changes import changed
from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(IncrementalAlterConfigsRequest)
def incremental_alter_configs(
    node: Node, request: IncrementalAlterConfigsRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """Alter topics, brokers, groups and client metrics, each wholly or not at all, in the order of the request.

    Kafka answers an unknown operation with UNKNOWN_SERVER_ERROR; here it is INVALID_REQUEST.
    """

    return alter(node, request, ticket, lambda row, key_of, before: changed(before, row.configs, key_of))
