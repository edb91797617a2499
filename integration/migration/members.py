"""Members of both protocols, each made of bare requests, in a group of its own on any broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from integration.support.broker import Broker, Deadline
from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import Committed, GroupMember
from kshim_protocol.internal.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kshim_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kshim_protocol.messages.sync_group import SyncGroupResponse

Owned = Mapping[str, Sequence[int]]
JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5
INTERVAL_S = 1.2
"""A little longer than group.consumer.assignment.interval.ms."""
_NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class World:
    """One group of one broker, its topics `t` (3 partitions) and `u` (4), and a connection."""

    def __init__(self, broker: Broker) -> None:
        self._bootstrap = broker.bootstrap
        self.client = self.connect()
        self.group_id = f"migration-{uuid.uuid4().hex}"
        self.topics = {name: f"{name}-{self.group_id}" for name in "tu"}
        wanted = tuple(
            CreatableTopic(
                name=self.topics[name], num_partitions=count, replication_factor=1, assignments=(), configs=()
            )
            for name, count in (("t", 3), ("u", 4))
        )
        made = self.client.ask(CreateTopicsRequest(topics=wanted), 7).topics
        self.ids = {name: found.topic_id for name, found in zip("tu", made, strict=True)}
        try:
            self._await_topics()
        except BaseException:
            self.close()
            raise

    def connect(self) -> Client:
        """A further connection."""
        host, _, port = self._bootstrap.rpartition(":")
        return Client(host, int(port), client_id="migration", timeout_s=60)

    def close(self) -> None:
        self.client.close()

    def _await_topics(self) -> None:
        """The coordinator knows the topics when this returns."""
        deadline = Deadline(60)
        for number in range(1_000):
            probe = New(self, "probe", group_id=f"{self.group_id}-{number}")
            if len(probe.join("t", "u")) == 2:
                return
            deadline.check("the coordinator knows the topics")
            time.sleep(0.1)

    def name_of(self, topic: str) -> str:
        """The short name of a topic."""
        return topic[:1]

    def named(self, topics: Any) -> dict[str, list[int]]:
        """Partitions by the short name of their topic."""
        names = {topic_id: name for name, topic_id in self.ids.items()}
        return {names[topic.topic_id]: list(topic.partitions) for topic in topics}

    def described(self) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=(self.group_id,), include_authorized_operations=False)
        group: DescribedGroup = self.client.ask(request, 1).groups[0]
        return group

    def state(self) -> tuple[str, int, int]:
        group = self.described()
        return group.group_state, group.group_epoch, group.assignment_epoch

    def classic_state(self) -> tuple[str, str, int]:
        """State, protocol and number of members, as DescribeGroups has them."""
        group = self.client.ask(DescribeGroupsRequest(groups=(self.group_id,)), 6).groups[0]
        return group.group_state, group.protocol_data, len(group.members)

    def listed_type(self) -> str:
        groups = self.client.ask(ListGroupsRequest(), 5).groups
        return next(str(group.group_type) for group in groups if group.group_id == self.group_id)

    def leave(self, *members: MemberIdentity) -> list[int]:
        """The errors of one LeaveGroup."""
        reply = self.client.ask(LeaveGroupRequest(group_id=self.group_id, members=members), LEAVE)
        return [member.error_code for member in reply.members]

    def offset_of(self, partition: int) -> int:
        topic = OffsetFetchRequestTopics(name=self.topics["t"], partition_indexes=(partition,))
        group = OffsetFetchRequestGroup(group_id=self.group_id, topics=(topic,))
        found = self.client.ask(OffsetFetchRequest(groups=(group,)), 8).groups[0].topics[0]
        return int(found.partitions[0].committed_offset)


class New:
    """A member of the new protocol. It remembers its epoch."""

    def __init__(self, world: World, member_id: str, *, instance_id: str | None = None, group_id: str = "") -> None:
        self.world = world
        self.member_id = member_id
        self.instance_id = instance_id
        self.group_id = group_id or world.group_id
        self.epoch = 0

    def send(
        self, *, owned: Owned | None = None, names: Sequence[str] | None = None, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        world = self.world
        partitions = None
        if owned is not None:
            partitions = tuple(
                TopicPartitions(topic_id=world.ids[name], partitions=tuple(found)) for name, found in owned.items()
            )
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=fields.pop("epoch", self.epoch),
            instance_id=self.instance_id,
            subscribed_topic_names=None if names is None else tuple(world.topics[name] for name in names),
            topic_partitions=partitions,
            **fields,
        )
        response: ConsumerGroupHeartbeatResponse = world.client.ask(request, 1)
        return response

    def join(self, *names: str) -> dict[str, list[int]]:
        """What it gets at once."""
        response = self.try_to_join(*names)
        assert response.error_code == ErrorCode.NONE, response
        self.epoch = response.member_epoch
        assert response.assignment is not None
        return self.world.named(response.assignment.topic_partitions)

    def try_to_join(self, *names: str) -> ConsumerGroupHeartbeatResponse:
        return self.send(epoch=0, owned={}, names=names or ("t",), rebalance_timeout_ms=60_000)

    def heartbeat(self, owned: Owned | None = None) -> dict[str, list[int]] | None:
        """The new assignment; None: the same as before."""
        response = self.send(owned=owned)
        assert response.error_code == ErrorCode.NONE, response
        self.epoch = response.member_epoch
        return None if response.assignment is None else self.world.named(response.assignment.topic_partitions)

    def leave(self, epoch: int = -1) -> None:
        response = self.send(epoch=epoch)
        assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, epoch), response


class Classic:
    """A member of the classic protocol. It remembers its id and generation; `owns` is what its next JoinGroup says."""

    def __init__(
        self,
        world: World,
        *topics: str,
        instance_id: str | None = None,
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 60_000,
        protocol_type: str = "consumer",
        protocols: Sequence[str] = ("range",),
    ) -> None:
        self.world = world
        self.topics = topics or ("t",)
        self.instance_id = instance_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.member_id = ""
        self.generation_id = -1
        self.subscription_version = 1
        self.metadata: bytes | None = None
        self.owned: Owned = {}

    def _member(self) -> GroupMember:
        return GroupMember(self.world.group_id, self.member_id, self.generation_id, self.instance_id)

    def subscription(self) -> bytes:
        if self.metadata is not None:
            return self.metadata
        names, version = self.world.topics, self.subscription_version
        owned = tuple(TopicPartition(topic=names[name], partitions=tuple(found)) for name, found in self.owned.items())
        value = ConsumerProtocolSubscription(topics=tuple(names[name] for name in self.topics), owned_partitions=owned)
        return version.to_bytes(2) + codec(ConsumerProtocolSubscription, version).build(value)

    def join_request(self, version: int = JOIN) -> JoinGroupRequest:
        data = self.subscription()
        return self._member().join(
            version,
            [(name, data) for name in self.protocols],
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocol_type=self.protocol_type,
        )

    def send_join(self, version: int = JOIN) -> JoinGroupResponse:
        """One JoinGroup, which must be answered."""
        response: JoinGroupResponse = self.world.client.ask(self.join_request(version), version)
        return response

    def join(self) -> JoinGroupResponse:
        """Join as clients do, with the id that is handed out."""
        response = self.send_join()
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            response = self.send_join()
        assert response.error_code == ErrorCode.NONE, response
        self.member_id, self.generation_id = response.member_id, response.generation_id
        return response

    def send_sync(
        self, assignment: bytes | None = None, *, protocol: tuple[str, str] | None = None
    ) -> SyncGroupResponse:
        type_, name = protocol or (self.protocol_type, self.protocols[0])
        given = [] if assignment is None else [(self.member_id, assignment)]
        request = self._member().sync(SYNC, given, protocol_type=type_, protocol_name=name)
        response: SyncGroupResponse = self.world.client.ask(request, SYNC)
        return response

    def synced(self) -> tuple[int, dict[str, list[int]]]:
        """Version of the assignment, and the partitions by topic."""
        response = self.send_sync()
        assert response.error_code == ErrorCode.NONE, response
        data = response.assignment
        version = int.from_bytes(data[:2])
        value, end = codec(ConsumerProtocolAssignment, version).parse(data, 2)
        assert end == len(data)
        return version, {self.world.name_of(entry.topic): list(entry.partitions) for entry in value.assigned_partitions}

    def assigned(self, partitions: Owned, *, user_data: bytes | None = None) -> bytes:
        names = self.world.topics
        entries = tuple(
            TopicPartition(topic=names[name], partitions=tuple(found)) for name, found in partitions.items()
        )
        value = ConsumerProtocolAssignment(assigned_partitions=entries, user_data=user_data)
        return (1).to_bytes(2) + codec(ConsumerProtocolAssignment, 1).build(value)

    def heartbeat(self) -> ErrorCode:
        return ErrorCode(self.world.client.ask(self._member().heartbeat(HEARTBEAT), HEARTBEAT).error_code)

    def commit(self, partition: int, offset: int) -> ErrorCode:
        places = [(self.world.topics["t"], [Committed(partition, offset)])]
        reply = self.world.client.ask(self._member().commit(8, places), 8)
        return ErrorCode(reply.topics[0].partitions[0].error_code)


def alone(world: World, *, assignment: Callable[[Classic], bytes] | None = None, **options: Any) -> Classic:
    """A classic group of generation 1, whose one member has `t` with three partitions."""
    member = Classic(world, **options)
    assert member.join().generation_id == 1
    given = assignment or (lambda member: member.assigned({"t": [0, 1, 2]}))
    assert member.send_sync(given(member)).error_code == ErrorCode.NONE
    return member


def mixed(world: World, **options: Any) -> tuple[Classic, New]:
    """A classic member with {0, 1} and one of the new protocol with {2}, at epoch 2."""
    classic, new = alone(world, **options), New(world, "n")
    new.join()
    classic.join()
    classic.synced()
    assert new.heartbeat(owned={}) == {"t": [2]}
    return classic, new
