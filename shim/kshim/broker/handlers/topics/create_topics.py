"""CreateTopics: make topics, each with its own result, or only say whether they could be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.new_topics import make_topics
from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.create_topics import CreateTopicsRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(CreateTopicsRequest)
def create_topics(node: Node, request: CreateTopicsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Check all topics against what existed before the request, then make those that passed.

    Results stand in the order of the request; a name given twice has one, after the others. With `validate_only` the
    topic id is zero (Kafka invents one that nothing will ever have). `timeout_ms` has no meaning: all is done before
    the answer. One node leads each partition, the first of those assigned if any were, and no other has a replica:
    whatever the replication factor, all nodes share one log. Checks and their order are those of a live 4.4, but for `__consumer_offsets`, which only this broker
    makes: its partitions are the shards of the coordinator.
    """
    return answered(ticket, make_topics(node.cluster.topic_place(), request))
