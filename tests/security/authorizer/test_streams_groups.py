"""Streams groups under access rules. What each API answers is compared with a live Kafka in integration/security."""

from __future__ import annotations

from typing import Any

from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_acls import AclCreation
from kshim_protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kshim_protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from tests.broker.harness import Client, NodeUnderTest
from tests.coordinator.groups.streams.world import stateful
from tests.security.authorizer.test_guards import a_ruled_node, allow, named, rule

NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
READER = (
    rule(Operation.READ, "g", ResourceType.GROUP),
    rule(Operation.DESCRIBE, "t"),
    rule(Operation.DESCRIBE, "store"),
)


def a_node_of_alice(*rules: AclCreation) -> tuple[NodeUnderTest, Client]:
    node = a_ruled_node(*rules, topics=("t",))
    return node, named(node, "alice")


def beat(client: Client, epoch: int, topology: Topology | None = None) -> StreamsGroupHeartbeatResponse:
    said: dict[str, Any] = {"active_tasks": (), "standby_tasks": (), "warmup_tasks": ()} if topology else {}
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=60_000,
        process_id="p",
        topology=topology,
        **said,
    )
    return client.ask(request, 1)


def details(response: StreamsGroupHeartbeatResponse) -> list[str]:
    return [status.status_detail for status in response.status or ()]


def test_without_a_rule_for_the_group_nobody_joins() -> None:
    _, alice = a_node_of_alice(*READER[1:])
    assert beat(alice, 0, stateful("t")).error_code == NO_GROUP


def test_a_member_may_only_name_topics_that_it_may_describe_internal_ones_too() -> None:
    for missing in (1, 2):
        _, alice = a_node_of_alice(*(each for at, each in enumerate(READER) if at != missing))
        reply = beat(alice, 0, stateful("t"))
        assert (reply.error_code, reply.error_message) == (NO_TOPIC, None)


def test_a_topology_that_cannot_be_is_refused_before_its_topics() -> None:
    _, alice = a_node_of_alice(READER[0])
    assert beat(alice, 0, stateful("__consumer_offsets")).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_internal_topics_are_made_with_the_rights_of_the_member() -> None:
    node, alice = a_node_of_alice(*READER)
    refused = "Internal topics are missing: store; Unauthorized to CREATE on topics store."
    assert refused in details(beat(alice, 0, stateful("t")))
    assert refused in details(beat(alice, 1))
    assert "store" not in node.cluster.topics
    allow(node, rule(Operation.CREATE, "store"))
    assert "Internal topics are missing: store" in details(beat(alice, 1))
    assert "store" in node.cluster.topics
    assert details(beat(alice, 1)) == ["Assignment delayed due to the configured initial rebalance delay."]


def test_who_may_create_topics_in_the_cluster_needs_no_rule_for_each() -> None:
    node, alice = a_node_of_alice(*READER, rule(Operation.CREATE, "kafka-cluster", ResourceType.CLUSTER))
    beat(alice, 0, stateful("t"))
    assert "store" in node.cluster.topics


def test_a_group_with_topics_that_may_not_be_seen_is_not_described() -> None:
    node, alice = a_node_of_alice(*READER, rule(Operation.CREATE, "store"))
    beat(alice, 0, stateful("t"))
    request = StreamsGroupDescribeRequest(group_ids=("g",), include_authorized_operations=True)
    (seen,) = alice.ask(request).groups
    assert (seen.error_code, seen.group_state, len(seen.members)) == (ErrorCode.NONE, "NotReady", 1)
    assert seen.authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    bob = named(node, "bob")
    (hidden,) = bob.ask(request).groups
    assert hidden.error_code == NO_GROUP
    other = rule(Operation.DESCRIBE, "g", ResourceType.GROUP)
    allow(
        node, AclCreation(**{row.name: getattr(other, row.name) for row in other.info.rows} | {"principal": "User:bob"})
    )
    (hidden,) = bob.ask(request).groups
    assert (hidden.error_code, hidden.topology, hidden.members) == (NO_TOPIC, None, ())
    assert hidden.error_message == "The described group uses topics that the client is not authorized to describe."
