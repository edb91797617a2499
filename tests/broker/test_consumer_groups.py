"""Groups of the new protocol over the wire, and as the harness sees them."""

from __future__ import annotations

from kshim.harness.groups import group_view
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kshim_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kshim_protocol.messages.list_groups import ListGroupsRequest
from tests.broker.harness import Client, a_node


def join(client: Client, topic: str) -> ConsumerGroupHeartbeatResponse:
    return client.ask(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=(topic,),
            topic_partitions=(),
        ),
        1,
    )


def test_a_member_joins_and_the_group_is_listed_and_described() -> None:
    node = a_node()
    node.cluster.create_topic("orders", 2)
    client = node.client()
    assert join(client, "orders").member_epoch == 2
    (group,) = client.ask(ConsumerGroupDescribeRequest(group_ids=("g",)), 1).groups
    assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
    assert group.members[0].assignment.topic_partitions[0].topic_name == "orders"
    (listed,) = client.ask(ListGroupsRequest(types_filter=("Consumer",)), 5).groups
    assert (listed.group_id, listed.group_type, listed.protocol_type) == ("g", "consumer", "consumer")
    assert client.ask(ListGroupsRequest(types_filter=("classic",)), 5).groups == ()


def test_the_harness_sees_members_and_what_they_own() -> None:
    node = a_node()
    node.cluster.create_topic("orders", 2)
    join(node.client(), "orders")
    view = group_view(node.cluster, "g")
    assert (view.state, view.generation, view.protocol, view.is_synced) == ("Stable", 2, "uniform", True)
    assert view.assignment == {"m": (("orders", 0), ("orders", 1))}
    assert view.members[0].session_timeout_ms == 45_000


def test_a_topic_that_is_made_or_grows_is_assigned_with_the_next_heartbeat_that_is_due() -> None:
    node = a_node(config={"group.consumer.assignment.interval.ms": "0"})
    client = node.client()
    assert join(client, "later").member_epoch == 2
    node.cluster.create_topic("later", 2)
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2)
    reply = client.ask(heartbeat, 1)
    assert reply.member_epoch == 3
    assert reply.assignment is not None
    assert reply.assignment.topic_partitions[0].partitions == (0, 1)
