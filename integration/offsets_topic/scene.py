"""Groups of every kind, made on any broker by bare requests, and what the broker then answers about them."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, NamedTuple

from integration.support.broker import Deadline
from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
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
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kshim_protocol.schema import Struct

LONG_MS = 300_000
"""Session and rebalance timeout of members nobody heartbeats for: longer than any test."""

DYNAMIC_COMMIT = 8  # the newest that every broker takes by name without a topic id of its own
COMMIT_WITH_RETENTION = 4


_NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # Kafka answers CreateTopics a moment before the broker knows the topic
}


class Member(NamedTuple):
    """A member of a group that has its assignment."""

    group: str
    member_id: str
    generation_id: int
    instance_id: str | None = None


class Scene:
    """One connection to a broker, and the groups made there. Their names begin with `prefix`."""

    def __init__(self, bootstrap: str, prefix: str, topic: str) -> None:
        """`topic` is made, with three partitions, unless it is there."""
        host, _, port = bootstrap.rpartition(":")
        self._client = Client(host, int(port), client_id="scene", timeout_s=30)
        self.prefix = prefix
        self.topic = topic
        self.groups: list[str] = []
        self.create_topic()

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def create_topic(self) -> None:
        """Make the topic unless it is there."""
        wanted = CreatableTopic(name=self.topic, num_partitions=3, replication_factor=1, assignments=(), configs=())
        answer = self._client.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=30_000), 5)
        assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    def play(self) -> None:
        """A group for each way in which a classic group's records are written."""
        self.commit(self.named("simple"), 0, 12_345_678_901, metadata="日本")
        self.commit(self.named("simple"), 1, 5, leader_epoch=3)
        self.commit(self.named("simple"), 2, 6, retention_ms=3_600_000)
        self.members_come_and_go()
        self.static_members_are_replaced()
        self.opaque_members_join()
        self.groups_and_offsets_are_deleted()

    def named(self, name: str) -> str:
        """The full name of a group, which is remembered."""
        group = f"{self.prefix}-{name}"
        if group not in self.groups:
            self.groups.append(group)
        return group

    def members_come_and_go(self) -> None:
        """A group that stays, with a commit of its member; and one that was left."""
        stays = self.join(self.named("stays"))
        self.commit(stays.group, 0, 42, member=stays, metadata="mine")
        left = self.join(self.named("left"))
        self.commit(left.group, 1, 7, member=left)
        self.leave(left)

    def static_members_are_replaced(self) -> None:
        """A static member comes back under its instance id: same generation, another member id."""
        before = self.join(self.named("static"), instance_id="host-1")
        after = self.join(before.group, instance_id="host-1")
        assert after.member_id != before.member_id

    def opaque_members_join(self) -> None:
        """A group of another protocol type, whose bytes mean nothing here."""
        self.join(self.named("connect"), protocol_type="connect", metadata=b"\x00\x01\xfe", assignment=b"\xff\x00")

    def groups_and_offsets_are_deleted(self) -> None:
        """One group is deleted, of another one offset of two."""
        gone = self.named("gone")
        self.commit(gone, 0, 1)
        answer = self._client.ask(DeleteGroupsRequest(groups_names=(gone,)), 2)
        assert answer.results[0].error_code == ErrorCode.NONE
        lighter = self.named("lighter")
        self.commit(lighter, 0, 1)
        self.commit(lighter, 1, 2)
        partition = OffsetDeleteRequestPartition(partition_index=0)
        topic = OffsetDeleteRequestTopic(name=self.topic, partitions=(partition,))
        self._client.ask(OffsetDeleteRequest(group_id=lighter, topics=(topic,)), 0)

    def commit(
        self,
        group: str,
        partition: int,
        offset: int,
        *,
        member: Member | None = None,
        metadata: str = "",
        leader_epoch: int = -1,
        retention_ms: int | None = None,
    ) -> None:
        """Commit, and see that it was taken. `retention_ms` asks in an old version, which alone can say it."""
        wanted = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        )
        request = OffsetCommitRequest(
            group_id=group,
            member_id="" if member is None else member.member_id,
            generation_id_or_member_epoch=-1 if member is None else member.generation_id,
            retention_time_ms=-1 if retention_ms is None else retention_ms,
            topics=(OffsetCommitRequestTopic(name=self.topic, partitions=(wanted,)),),
        )
        deadline = Deadline(30)
        while True:
            answer = self._client.ask(request, DYNAMIC_COMMIT if retention_ms is None else COMMIT_WITH_RETENTION)
            error = answer.topics[0].partitions[0].error_code
            if error == ErrorCode.NONE:
                return
            assert error in _NOT_YET, ErrorCode(error)
            deadline.check(f"{group} takes a commit")
            time.sleep(0.05)

    def join(
        self,
        group: str,
        *,
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        metadata: bytes | None = None,
        assignment: bytes | None = None,
    ) -> Member:
        """Join alone, as the leader, and bring the assignment: all partitions."""
        protocol = JoinGroupRequestProtocol(name="range", metadata=metadata or subscription(self.topic))
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=LONG_MS,
            rebalance_timeout_ms=LONG_MS,
            member_id="",
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=(protocol,),
        )
        answer = self._client.ask(request, 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = answer.member_id  # type: ignore[misc]
            answer = self._client.ask(request, 9)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        member = Member(group, answer.member_id, answer.generation_id, instance_id)
        share = SyncGroupRequestAssignment(member_id=member.member_id, assignment=assignment or all_of(self.topic))
        # A replaced static member is told the leader of before, and gets the assignment of before.
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name="range",
            assignments=(share,) if answer.leader == member.member_id and not answer.skip_assignment else (),
        )
        assert self._client.ask(sync, 5).error_code == ErrorCode.NONE
        return member

    def heartbeat(self, member: Member) -> ErrorCode:
        """What a member is told that says it is alive."""
        request = HeartbeatRequest(
            group_id=member.group,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
        )
        return ErrorCode(self._client.ask(request, 4).error_code)

    def leave(self, member: Member) -> None:
        """Leave the group."""
        identity = MemberIdentity(member_id=member.member_id, group_instance_id=member.instance_id)
        answer = self._client.ask(LeaveGroupRequest(group_id=member.group, members=(identity,)), 5)
        assert answer.error_code == ErrorCode.NONE

    def answers(self, groups: list[str] | None = None) -> dict[str, Any]:
        """What DescribeGroups, ListGroups and OffsetFetch say of these groups, or of all made here."""
        return answers(self._client, self.groups if groups is None else groups)


def answers(client: Client, groups: list[str]) -> dict[str, Any]:
    """What a broker says of these groups, by name; waits while it loads them."""
    deadline = Deadline(60)
    while True:
        described = client.ask(DescribeGroupsRequest(groups=tuple(groups)), 5)
        offsets = {group: client.ask(OffsetFetchRequest(group_id=group, topics=None), 7) for group in groups}
        listed = client.ask(ListGroupsRequest(), 5)
        errors = {one.error_code for one in (*described.groups, *offsets.values(), listed)}
        if errors == {ErrorCode.NONE}:
            break
        assert errors <= {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}, errors
        deadline.check(f"the groups are loaded; so far {errors}")
        time.sleep(0.05)
    return {
        "described": {group.group_id: _sorted(group) for group in described.groups},
        "listed": sorted(str(group) for group in listed.groups if group.group_id in groups),
        "offsets": {group: _committed(offsets[group]) for group in groups},
    }


def _sorted(group: Any) -> tuple[Any, ...]:
    members = sorted(str(member) for member in group.members)
    return group.group_state, group.protocol_type, group.protocol_data, members


def _committed(answer: Any) -> dict[tuple[str, int], tuple[int, int, str]]:
    return {
        (topic.name, partition.partition_index): (
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.metadata,
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


def subscription(topic: str) -> bytes:
    """What a consumer says when it joins: it wants this topic, and has some data of its own."""
    return _versioned(ConsumerProtocolSubscription(topics=(topic,), user_data=b"\x00user", rack_id="rack-1"), 3)


def all_of(topic: str) -> bytes:
    """An assignment of three partitions."""
    return _versioned(
        ConsumerProtocolAssignment(assigned_partitions=(TopicPartition(topic=topic, partitions=(0, 1, 2)),)), 3
    )


def _versioned(message: Struct, version: int) -> bytes:
    return version.to_bytes(2) + codec(type(message), version).build(message)
