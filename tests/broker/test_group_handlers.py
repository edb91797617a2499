"""The group APIs by frames, in every version: request in, coordinator, log, decoded answer out.

What each API decides is tested at the coordinator; here each handler is shown to reach it in all versions.
"""

from __future__ import annotations

from typing import Any

import pytest

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.apis import api_named
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kshim_protocol.schema import ZERO_UUID
from tests.broker.harness import Client, NodeUnderTest, a_node


def versions(name: str) -> range:
    api = api_named(name)
    return range(api.min_version, api.max_version + 1)


def a_join(member_id: str = "", version: int = 9) -> JoinGroupRequest:
    return GroupMember("g", member_id).join(
        9, [("range", b"meta")], session_timeout_ms=10_000, rebalance_timeout_ms=-1 if version == 0 else 20000
    )


def join(client: Client, version: int = 9) -> JoinGroupResponse:
    """The answer to a join of a new member that ends up in the group, alone."""
    reply = client.ask(a_join(version=version), version)
    if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        reply = client.ask(a_join(reply.member_id, version), version)
    assert reply.error_code == ErrorCode.NONE
    return reply


def sync(client: Client, member_id: str, version: int = 5) -> Any:
    return client.ask(
        GroupMember("g", member_id, 1).sync(
            5,
            [(member_id, b"mine")],
            protocol_type="consumer" if version >= 5 else None,
            protocol_name="range" if version >= 5 else None,
        ),
        version,
    )


def commit(node: NodeUnderTest, offset: int, version: int = 9) -> list[int]:
    """Error codes of a commit of a group without members."""
    topic_id = node.cluster.topics.topic_id("orders")
    assert topic_id is not None
    request = OffsetCommitRequest(
        group_id="simple",
        member_id="",
        topics=(
            OffsetCommitRequestTopic(
                name="orders" if version < 10 else "",
                topic_id=topic_id if version >= 10 else ZERO_UUID,
                partitions=(
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="note"),
                ),
            ),
        ),
    )
    reply = node.client().ask(request, version)
    return [partition.error_code for topic in reply.topics for partition in topic.partitions]


def committed(node: NodeUnderTest, version: int) -> list[tuple[int, str | None]]:
    topic_id = node.cluster.topics.topic_id("orders")
    assert topic_id is not None
    if version < 8:
        old = OffsetFetchRequest(
            group_id="simple", topics=(OffsetFetchRequestTopic(name="orders", partition_indexes=(0,)),)
        )
        return [
            (partition.committed_offset, partition.metadata)
            for topic in node.client().ask(old, version).topics
            for partition in topic.partitions
        ]
    topic = OffsetFetchRequestTopics(
        name="orders" if version < 10 else "",
        topic_id=topic_id if version >= 10 else ZERO_UUID,
        partition_indexes=(0,),
    )
    group = OffsetFetchRequestGroup(group_id="simple", topics=(topic,))
    return [
        (partition.committed_offset, partition.metadata)
        for found in node.client().ask(OffsetFetchRequest(groups=(group,)), version).groups
        for found_topic in found.topics
        for partition in found_topic.partitions
    ]


@pytest.fixture
def node() -> NodeUnderTest:
    return a_node(topics={"orders": 1})


@pytest.mark.parametrize("version", versions("JoinGroup"))
def test_a_member_joins_in_every_version(node: NodeUnderTest, version: int) -> None:
    reply = join(node.client(), version)
    assert (reply.generation_id, reply.protocol_name, reply.leader) == (1, "range", reply.member_id)
    assert [member.metadata for member in reply.members] == [b"meta"]


@pytest.mark.parametrize("version", versions("SyncGroup"))
def test_a_member_gets_its_assignment_in_every_version(node: NodeUnderTest, version: int) -> None:
    client = node.client()
    reply = sync(client, join(client).member_id, version)
    assert (reply.error_code, reply.assignment) == (ErrorCode.NONE, b"mine")


def test_the_group_is_in_the_log_when_the_assignment_is_answered(node: NodeUnderTest) -> None:
    client = node.client()
    sync(client, join(client).member_id)
    partition = node.cluster.groups.coordinator.partition_for("g")
    assert node.log(OFFSETS_TOPIC, partition).end_offset > 0


@pytest.mark.parametrize("version", versions("Heartbeat"))
def test_a_member_is_heard_in_every_version(node: NodeUnderTest, version: int) -> None:
    client = node.client()
    member_id = join(client).member_id
    sync(client, member_id)
    good = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert client.ask(good, version).error_code == ErrorCode.NONE
    stranger = HeartbeatRequest(group_id="g", generation_id=1, member_id="stranger")
    assert client.ask(stranger, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", versions("LeaveGroup"))
def test_a_member_leaves_in_every_version(node: NodeUnderTest, version: int) -> None:
    client = node.client()
    member_id = join(client).member_id
    sync(client, member_id)
    if version < 3:
        request = LeaveGroupRequest(group_id="g", member_id=member_id)
    else:
        request = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=member_id),))
    reply = client.ask(request, version)
    assert reply.error_code == ErrorCode.NONE
    assert [member.error_code for member in reply.members] == ([] if version < 3 else [ErrorCode.NONE])
    (group,) = client.ask(DescribeGroupsRequest(groups=("g",))).groups
    assert (group.group_state, group.members) == ("Empty", ())


@pytest.mark.parametrize("version", versions("OffsetCommit"))
def test_offsets_are_kept_in_every_version(node: NodeUnderTest, version: int) -> None:
    assert commit(node, 7, version) == [ErrorCode.NONE]
    assert committed(node, 9) == [(7, "note")]


@pytest.mark.parametrize("version", versions("OffsetFetch"))
def test_offsets_are_told_in_every_version(node: NodeUnderTest, version: int) -> None:
    commit(node, 7)
    assert committed(node, version) == [(7, "note")]


def test_offsets_are_forgotten_one_by_one(node: NodeUnderTest) -> None:
    commit(node, 7)
    topic = OffsetDeleteRequestTopic(name="orders", partitions=(OffsetDeleteRequestPartition(partition_index=0),))
    reply = node.client().ask(OffsetDeleteRequest(group_id="simple", topics=(topic,)))
    assert (reply.error_code, reply.topics[0].partitions[0].error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert committed(node, 9) == [(-1, "")]


@pytest.mark.parametrize("version", versions("DescribeGroups"))
def test_a_group_is_described_in_every_version(node: NodeUnderTest, version: int) -> None:
    client = node.client()
    member_id = join(client).member_id
    sync(client, member_id)
    (group,) = client.ask(DescribeGroupsRequest(groups=("g",)), version).groups
    assert (group.error_code, group.group_state, group.protocol_data) == (ErrorCode.NONE, "Stable", "range")
    assert [(member.member_id, member.client_id, member.client_host) for member in group.members] == [
        (member_id, "tester", "/127.0.0.1")
    ]


@pytest.mark.parametrize("version", versions("ListGroups"))
def test_groups_are_listed_in_every_version(node: NodeUnderTest, version: int) -> None:
    client = node.client()
    sync(client, join(client).member_id)
    commit(node, 7)
    reply = client.ask(ListGroupsRequest(), version)
    assert reply.error_code == ErrorCode.NONE
    assert sorted((group.group_id, group.protocol_type) for group in reply.groups) == [
        ("g", "consumer"),
        ("simple", ""),
    ]


@pytest.mark.parametrize("version", versions("DeleteGroups"))
def test_groups_are_deleted_in_every_version(node: NodeUnderTest, version: int) -> None:
    commit(node, 7)
    reply = node.client().ask(DeleteGroupsRequest(groups_names=("simple", "nope")), version)
    assert {result.group_id: result.error_code for result in reply.results} == {
        "simple": ErrorCode.NONE,
        "nope": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert committed(node, 9) == [(-1, "")]


def test_deleting_a_topic_forgets_the_offsets_committed_for_it(node: NodeUnderTest) -> None:
    commit(node, 7)
    topic = node.cluster.topics.named("orders")
    assert topic is not None
    node.cluster.delete_topic(topic, node.now)
    node.run_background_tasks()  # as in Kafka whoever deletes the topic does not wait for it
    node.topic("orders")
    assert committed(node, 9) == [(-1, "")]
