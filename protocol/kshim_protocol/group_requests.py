"""Requests about groups in any version of their API: what a version cannot carry is left out, as clients do.

Values are plain: protocols are (name, metadata), assignments (member id, assignment), partitions are grouped by the name
of their topic. Where a version names topics by id (OffsetCommit and OffsetFetch from v10), `topic_id(name)` gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeVar

from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
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
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kshim_protocol.schema import ZERO_UUID, Struct, row_is_in

S = TypeVar("S", bound=Struct)
TopicId = Callable[[str], bytes]
Partitions = Collection[tuple[str, Collection[int]]]
"""Indexes of partitions by the name of their topic; `dict.items()` is one."""


def no_topic_id(_name: str) -> bytes:
    """For versions that name topics by name."""
    return ZERO_UUID


def for_version(message: S, version: int) -> S:
    """A copy of `message` in which every row that `version` does not carry has its default."""
    values = {}
    for row in message.info.rows:
        if row_is_in(row, version):
            value = getattr(message, row.name)
            if isinstance(value, Struct):
                value = for_version(value, version)
            elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
                value = tuple(for_version(element, version) for element in value)
            values[row.name] = value
    return type(message)(**values)


class Committed(NamedTuple):
    """One position to commit. `leader_epoch` -1: unknown."""

    partition: int
    offset: int
    metadata: str | None = ""
    leader_epoch: int = -1


class GroupMember(NamedTuple):
    """The sender of a request. A member that has not joined yet has no member id and generation -1."""

    group_id: str
    member_id: str = ""
    generation_id: int = -1
    group_instance_id: str | None = None

    def join(
        self,
        version: int,
        protocols: Iterable[tuple[str, bytes]],
        *,
        session_timeout_ms: int = 30_000,
        rebalance_timeout_ms: int = 60_000,
        protocol_type: str = "consumer",
        reason: str | None = None,
    ) -> JoinGroupRequest:
        """Join, in the order of preference of `protocols`."""
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=protocol_type,
            protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols),
            reason=reason,
        )
        return for_version(request, version)

    def sync(
        self,
        version: int,
        assignments: Iterable[tuple[str, bytes]] = (),
        *,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> SyncGroupRequest:
        """Ask for the own assignment; the leader brings those of all."""
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments
            ),
        )
        return for_version(request, version)

    def heartbeat(self, version: int) -> HeartbeatRequest:
        """Keep the session alive."""
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
        )
        return for_version(request, version)

    def leave(self, version: int, reason: str | None = None) -> LeaveGroupRequest:
        """Leave alone."""
        own = MemberIdentity(member_id=self.member_id, group_instance_id=self.group_instance_id, reason=reason)
        return leave_group(version, self.group_id, (own,))

    def commit(
        self,
        version: int,
        offsets: Iterable[tuple[str, Iterable[Committed]]],
        *,
        topic_id: TopicId = no_topic_id,
        retention_time_ms: int = -1,
    ) -> OffsetCommitRequest:
        """Commit positions."""
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            retention_time_ms=retention_time_ms,
            topics=tuple(
                OffsetCommitRequestTopic(
                    name=name,
                    topic_id=topic_id(name),
                    partitions=tuple(
                        OffsetCommitRequestPartition(
                            partition_index=each.partition,
                            committed_offset=each.offset,
                            committed_leader_epoch=each.leader_epoch,
                            committed_metadata=each.metadata,
                        )
                        for each in positions
                    ),
                )
                for name, positions in offsets
            ),
        )
        return for_version(request, version)


def leave_group(version: int, group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupRequest:
    """Take members out of a group. Versions 0-2 take the first one only."""
    first = members[0].member_id if members else ""
    return for_version(LeaveGroupRequest(group_id=group_id, member_id=first, members=tuple(members)), version)


class OffsetsOf(NamedTuple):
    """Whose committed offsets are asked for: of `partitions`, None: of all that have one."""

    group_id: str
    partitions: Partitions | None
    member_id: str | None = None
    member_epoch: int = -1


def offset_fetch(
    version: int, groups: Sequence[OffsetsOf], *, topic_id: TopicId = no_topic_id, require_stable: bool = False
) -> OffsetFetchRequest:
    """Ask for committed offsets. Versions 1-7 ask for the first group only; version 1 cannot ask for all partitions."""
    first = groups[0]
    request = OffsetFetchRequest(
        group_id=first.group_id,
        topics=(None if version >= 2 else ())
        if first.partitions is None
        else tuple(
            OffsetFetchRequestTopic(name=name, partition_indexes=tuple(indexes)) for name, indexes in first.partitions
        ),
        groups=tuple(
            OffsetFetchRequestGroup(
                group_id=group.group_id,
                member_id=group.member_id,
                member_epoch=group.member_epoch,
                topics=None
                if group.partitions is None
                else tuple(
                    OffsetFetchRequestTopics(name=name, topic_id=topic_id(name), partition_indexes=tuple(indexes))
                    for name, indexes in group.partitions
                ),
            )
            for group in groups
        ),
        require_stable=require_stable,
    )
    return for_version(request, version)


def offset_delete(group_id: str, partitions: Partitions) -> OffsetDeleteRequest:
    """Forget committed offsets."""
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=name, partitions=tuple(OffsetDeleteRequestPartition(partition_index=index) for index in indexes)
            )
            for name, indexes in partitions
        ),
    )


def find_coordinator(version: int, keys: Sequence[str], key_type: int = 0) -> FindCoordinatorRequest:
    """Ask which node coordinates `keys`. Versions 0-3 ask for the first one only."""
    request = FindCoordinatorRequest(key=keys[0] if keys else "", key_type=key_type, coordinator_keys=tuple(keys))
    return for_version(request, version)
