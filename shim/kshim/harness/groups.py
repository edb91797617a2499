"""What a group is at this moment, as values that a test may keep and compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kshim.coordinator.groups.classic.state import GroupState
from kshim_protocol.frame import ProtocolError

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.groups.classic.group import Group
    from kshim.coordinator.groups.classic.member import Member
    from kshim.coordinator.groups.shard import Shard

Partitions = tuple[tuple[str, int], ...]
"""(topic, partition), sorted."""

UNKNOWN: Final = "Unknown"
"""The state of a group while its coordinator is loading (GroupState.UNKNOWN of Kafka's Admin)."""


class MemberView(NamedTuple):
    """One member. `host` is without Java's slash. `is_synced`: it has been given its `assignment` in this generation."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    assignment: Partitions
    is_leader: bool
    is_synced: bool
    session_timeout_ms: int

    def __str__(self) -> str:
        return f"{self.instance_id or self.client_id or self.member_id} ({self.host})"


class GroupView(NamedTuple):
    """One group. `state` is Kafka's word: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead, or Unknown
    while its coordinator is loading. `is_synced`: every member has its assignment."""

    group_id: str
    state: str
    generation: int
    protocol: str | None
    members: tuple[MemberView, ...]
    is_synced: bool

    @property
    def assignment(self) -> dict[str, Partitions]:
        """The partitions of each member, by member id."""
        return {member.member_id: member.assignment for member in self.members}


def shard_of(cluster: Cluster, group_id: str) -> Shard | None:
    """Where a group is, or would be; None while that is not loaded, or was never used."""
    shard = None if cluster.groups.made is None else cluster.groups.made.shard_of(group_id)
    return None if shard is None or shard.is_loading else shard


def group_view(cluster: Cluster, group_id: str) -> GroupView:
    """A group as it is now. One there is not is Dead, as DescribeGroups says."""
    shard = shard_of(cluster, group_id)
    group = None if shard is None else shard.groups.get(group_id)
    if group is None:
        state = UNKNOWN if shard is None and _is_loading(cluster, group_id) else GroupState.DEAD.value
        return GroupView(group_id, state, 0, None, (), is_synced=False)
    return GroupView(
        group_id,
        group.state.value,
        group.generation_id,
        group.protocol_name,
        tuple(_member_view(group, member) for member in group.members.values()),
        is_synced=group.state is GroupState.STABLE and not group.pending_syncs,
    )


def group_ids(cluster: Cluster) -> list[str]:
    """Every group there is, sorted."""
    coordinator = cluster.groups.made
    return [] if coordinator is None else sorted(coordinator.group_ids())


def committed(cluster: Cluster, group_id: str) -> dict[tuple[str, int], int]:
    """The committed offset of each partition."""
    shard = shard_of(cluster, group_id)
    found = {} if shard is None else shard.offsets.of_group(group_id)
    return {
        (topic, index): offset.offset
        for topic, partitions in sorted(found.items())
        for index, offset in sorted(partitions.items())
    }


def lag(cluster: Cluster, group_id: str) -> dict[tuple[str, int], int]:
    """How many offsets behind the end of each partition the group's committed offset is.

    Assigned partitions without one count from the start of their log.
    """
    positions: dict[tuple[str, int], int | None] = dict(committed(cluster, group_id))
    for member in group_view(cluster, group_id).members:
        for place in member.assignment:
            positions.setdefault(place, None)
    found = {}
    for (topic, index), offset in sorted(positions.items()):
        partition = cluster.topics.partition(topic, index)
        if partition is not None:
            start = partition.log.start_offset if offset is None else offset
            found[topic, index] = max(partition.high_watermark - start, 0)
    return found


def _is_loading(cluster: Cluster, group_id: str) -> bool:
    coordinator = cluster.groups.made
    if coordinator is None:
        return False
    return cluster.groups.loader.is_pending(coordinator.partition_for(group_id))


def _member_view(group: Group, member: Member) -> MemberView:
    return MemberView(
        member.member_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        member.group_instance_id,
        assigned_partitions(group, member.assignment),
        is_leader=member.member_id == group.leader_id,
        is_synced=group.state is GroupState.STABLE and member.member_id not in group.pending_syncs,
        session_timeout_ms=member.session_timeout_ms,
    )


def assigned_partitions(group: Group, assignment: bytes) -> Partitions:
    """What a member was given; nothing, where it does not speak the consumer protocol."""
    if not assignment or not group.is_consumer_group:
        return ()
    from kshim_protocol.codec import codec
    from kshim_protocol.internal.consumer import ConsumerProtocolAssignment

    try:
        read, _ = codec(ConsumerProtocolAssignment, 0).parse(assignment, 2)
    except ProtocolError:
        return ()
    return tuple(sorted((each.topic, index) for each in read.assigned_partitions for index in each.partitions))
