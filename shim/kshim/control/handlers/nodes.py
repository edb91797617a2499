"""The brokers themselves over HTTP: stop, start, kill, and who leads what."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from msgspec import Meta

from kshim.control.context import ControlContext
from kshim.control.documents import MoveInput, NodeDocument, NodeId, NodeList, PartitionView, TopicName
from kshim.control.http import ProblemError
from kshim.control.routing import Table

TABLE = Table()

PartitionIndex = Annotated[int, Meta(ge=0, le=2_147_483_647, description="The number of a partition.")]


@TABLE.get("/v1/nodes")
def list_nodes(context: ControlContext) -> NodeList:
    """List the brokers: where they are, whether they are live, how much they lead."""
    leads = Counter(partition.leader.leader_id for topic in context.cluster.topics for partition in topic.partitions)
    return NodeList(
        nodes=[_document(context, node_id, leads[node_id]) for node_id in context.cluster.leadership.node_ids]
    )


@TABLE.post("/v1/nodes/{node}/stop", problems=(404,))
def stop_node(context: ControlContext, node: NodeId) -> NodeList:
    """Stop a broker: its partitions and groups move to others, and its clients are disconnected. Stopped already: nothing."""
    existing(context, node)
    context.cluster.leader_election.stop_node(node)
    return list_nodes(context)


@TABLE.post("/v1/nodes/{node}/kill", problems=(404,))
def kill_node(context: ControlContext, node: NodeId) -> NodeList:
    """Kill a broker: as stop, but its clients are cut off without an answer to what they have sent."""
    existing(context, node)
    context.cluster.leader_election.kill_node(node)
    return list_nodes(context)


@TABLE.post("/v1/nodes/{node}/start", problems=(404, 409))
def start_node(context: ControlContext, node: NodeId) -> NodeList:
    """Start a broker that was stopped or killed, at the address that it had. Live already: nothing."""
    existing(context, node)
    try:
        context.cluster.leader_election.start_node(node)
    except OSError as error:
        raise ProblemError(409, f"broker {node} cannot listen on its address: {error.strerror or error}") from None
    return list_nodes(context)


@TABLE.post("/v1/nodes/{node}/restart", problems=(404, 409))
def restart_node(context: ControlContext, node: NodeId) -> NodeList:
    """Stop a broker and start it at once: its clients are disconnected, and what it led is led by others."""
    stop_node(context, node)
    return start_node(context, node)


@TABLE.post("/v1/topics/{topic}/partitions/{partition}/leader", problems=(404, 409))
def move_leader(context: ControlContext, topic: TopicName, partition: PartitionIndex, body: MoveInput) -> PartitionView:
    """Have another broker lead a partition."""
    return moved(context, topic, partition, body.node)


def moved(context: ControlContext, topic: str, partition: int, node: int) -> PartitionView:
    """Move a partition and return what it is then. Raises ProblemError: 404, 409."""
    try:
        context.cluster.leader_election.move(topic, partition, node)
    except LookupError as error:
        raise ProblemError(404, str(error)) from None
    except ValueError as error:
        raise ProblemError(409, str(error)) from None
    found = context.cluster.topics.partition(topic, partition)
    assert found is not None
    return PartitionView(
        partition=partition,
        leader=found.leader.leader_id,
        start_offset=found.log.start_offset,
        end_offset=found.log.end_offset,
    )


def existing(context: ControlContext, node: int) -> None:
    """Raises ProblemError: 404."""
    try:
        context.cluster.known_node(node)
    except LookupError as error:
        raise ProblemError(404, str(error)) from None


def _document(context: ControlContext, node_id: int, leads: int) -> NodeDocument:
    host, port = context.cluster.known_node(node_id).address("PLAINTEXT")
    is_live = node_id in context.cluster.leadership.live_ids
    return NodeDocument(node=node_id, host=host, port=port, is_live=is_live, leads=leads)
