"""Clients of the simulated coordinator, and groups brought into a state by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupResponse
from kshim_protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
)
from kshim_protocol.messages.sync_group import SyncGroupResponse
from tests.coordinator.harness import Call, Sim

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH = 9, 5, 4, 5, 9, 9
"""Versions that peers speak unless told otherwise: the newest for classic groups with topic names."""


def subscription(*topics: str, version: int = 1) -> bytes:
    """A consumer's metadata."""
    value = ConsumerProtocolSubscription(topics=topics)
    return version.to_bytes(2, "big") + codec(ConsumerProtocolSubscription, version).build(value)


class Peer:
    """One client of a group. It remembers its member id and generation as real clients do; options are its settings."""

    def __init__(
        self,
        sim: Sim,
        name: str,
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        protocol_type: str = "consumer",
        protocols: Mapping[str, bytes] | None = None,
        version: int = JOIN,
        reason: str | None = None,
    ) -> None:
        self.sim = sim
        self.name = name
        self.group_id = group_id
        self.instance_id = instance_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = dict(protocols if protocols is not None else {"range": subscription("orders")})
        self.version = version
        self.reason = reason
        self.member_id = ""
        self.generation_id = -1

    # Joining

    def send_join(self) -> Call[JoinGroupResponse]:
        """One JoinGroup, with the member id known so far."""
        request = GroupMember(self.group_id, self.member_id, group_instance_id=self.instance_id).join(
            9,
            [(name, metadata) for (name, metadata) in self.protocols.items()],
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocol_type=self.protocol_type,
            reason=self.reason,
        )
        return self.sim.send(request, self.version, client_id=self.name)

    def join(self) -> Call[JoinGroupResponse]:
        """Join as clients do: again at once when an id is handed out."""
        call = self.send_join()
        if not call.is_parked and call.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = call.reply.member_id
            call = self.send_join()
        return call

    def take(self, call: Call[JoinGroupResponse]) -> JoinGroupResponse:
        """Remember what a successful Join says."""
        assert call.error is ErrorCode.NONE, call.reply
        self.member_id = call.reply.member_id
        self.generation_id = call.reply.generation_id
        return call.reply

    # The other requests

    def send_sync(
        self,
        assignments: Mapping[str, bytes] | None = None,
        *,
        version: int = SYNC,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Call[SyncGroupResponse]:
        """One SyncGroup; leaders give assignments by member id."""
        request = GroupMember(
            self.group_id, self.member_id, self.generation_id, group_instance_id=self.instance_id
        ).sync(
            5,
            [(member_id, assignment) for (member_id, assignment) in (assignments or {}).items()],
            protocol_type=protocol_type if version >= 5 else None,
            protocol_name=protocol_name if version >= 5 else None,
        )
        return self.sim.send(request, version, client_id=self.name)

    def heartbeat(self, *, generation_id: int | None = None) -> ErrorCode:
        """The answer to one Heartbeat."""
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id if generation_id is None else generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return self.sim.send(request, HEARTBEAT).error

    def leave(self, *, reason: str | None = None, version: int = LEAVE) -> LeaveGroupResponse:
        """The answer to one LeaveGroup for this member alone."""
        if version >= 3:
            entry = MemberIdentity(
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                reason=reason if version >= 5 else None,
            )
            request = LeaveGroupRequest(group_id=self.group_id, members=(entry,))
        else:
            request = LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
        return self.sim.send(request, version).reply

    def send_commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        *,
        metadata: str | None = "",
        leader_epoch: int = -1,
        retention_ms: int = -1,
        version: int = COMMIT,
    ) -> Call[OffsetCommitResponse]:
        """One OffsetCommit with this member's id and generation."""
        names = list(dict.fromkeys(name for name, _ in offsets))
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id if version >= 7 else None,
            retention_time_ms=retention_ms,
            topics=tuple(
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=tuple(
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch if version >= 6 else -1,
                            committed_metadata=metadata,
                        )
                        for (topic, partition), offset in offsets.items()
                        if topic == name
                    ),
                )
                for name in names
            ),
        )
        return self.sim.send(request, version)

    def commit(self, offsets: Mapping[tuple[str, int], int], **options: Any) -> dict[tuple[str, int], ErrorCode]:
        """The errors of one OffsetCommit by (topic, partition)."""
        return commit_errors(self.send_commit(offsets, **options).reply)


def commit_errors(reply: OffsetCommitResponse) -> dict[tuple[str, int], ErrorCode]:
    """The errors of a commit by (topic, partition)."""
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in reply.topics
        for partition in topic.partitions
    }


def fetched(
    sim: Sim, *partitions: tuple[str, int], group_id: str = "g", require_stable: bool = False
) -> dict[tuple[str, int], OffsetFetchResponsePartitions]:
    """What OffsetFetch says of these partitions; of all with an offset when none are given."""
    topics: tuple[OffsetFetchRequestTopics, ...] | None = None
    if partitions:
        topics = tuple(
            OffsetFetchRequestTopics(
                name=name, partition_indexes=tuple(index for topic, index in partitions if topic == name)
            )
            for name in dict.fromkeys(name for name, _ in partitions)
        )
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    reply = sim.ask(OffsetFetchRequest(groups=(group,), require_stable=require_stable), FETCH)
    assert reply.groups[0].error_code == ErrorCode.NONE
    return {
        (topic.name, partition.partition_index): partition
        for topic in reply.groups[0].topics
        for partition in topic.partitions
    }


class GroupSim(Sim):
    """A Sim with a group `g` whose members have names: `sim["a"]`."""

    def __init__(self, topics: Mapping[str, int] | None = None, **config: int) -> None:
        super().__init__(topics, **config)
        self.peers: dict[str, Peer] = {}

    def __getitem__(self, name: str) -> Peer:
        return self.peers[name]

    def peer(self, name: str, **options: Any) -> Peer:
        """A further client, which has not sent anything yet."""
        self.peers[name] = Peer(self, name, **options)
        return self.peers[name]

    def completing(self, *names: str, static: Iterable[str] = (), **options: Any) -> GroupSim:
        """These members in CompletingRebalance; the first leads, those in `static` have instance ids.

        It is generation 1 with one member, 2 with several: the first one is alone until it joins again with the others.
        """
        static = frozenset(static)
        peers = [
            self.peer(name, **{"instance_id": f"{name}-instance" if name in static else None, **options})
            for name in names
        ]
        first, *others = peers
        first.take(first.join())
        calls = [(peer, peer.join()) for peer in others]
        if others:
            calls.insert(0, (first, first.join()))
            for peer, call in calls:
                peer.take(call)
        return self

    def stable(self, *names: str, static: Iterable[str] = (), **options: Any) -> GroupSim:
        """The same, Stable. Everybody is assigned its own name."""
        self.completing(*names, static=static, **options)
        self.settle()
        return self

    def settle(self) -> None:
        """All peers sync, the leader last; each is assigned its own name."""
        leader_id = self.group.leader_id
        chosen: dict[str, Any] = {"protocol_type": self.group.protocol_type, "protocol_name": self.group.protocol_name}
        peers = [peer for peer in self.peers.values() if peer.member_id in self.group.members]
        calls = [peer.send_sync(**chosen) for peer in peers if peer.member_id != leader_id]
        leader = next(peer for peer in peers if peer.member_id == leader_id)
        calls.append(leader.send_sync({peer.member_id: peer.name.encode() for peer in peers}, **chosen))
        for call in calls:
            assert call.error is ErrorCode.NONE, call.reply

    def preparing(self, *names: str, **options: Any) -> GroupSim:
        """Stable, and then the leader's rejoin is parked: PreparingRebalance, waiting for the others."""
        self.stable(*names, **options)
        assert self[names[0]].join().is_parked
        return self

    def empty(self, **options: Any) -> GroupSim:
        """A consumer group whose one member has left: generation 2, Empty."""
        self.stable("gone", **options)
        self["gone"].leave()
        return self


def a_group(topics: Mapping[str, int] | None = None, **config: int) -> GroupSim:
    """A group `g` to be brought into a state. `config` has the names of GroupConfig."""
    return GroupSim(topics, **config)
