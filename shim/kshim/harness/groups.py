"""What a group is at this moment, as values that a test may keep and compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kshim.coordinator.groups.classic.state import GroupState
from kshim_protocol.frame import ProtocolError

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.groups.classic.group import Group
    from kshim.coordinator.groups.classic.member import Member
    from kshim.coordinator.groups.consumer.group import ConsumerGroup
    from kshim.coordinator.groups.consumer.group import Member as ConsumerMember
    from kshim.coordinator.groups.shard import Shard
    from kshim.coordinator.groups.share.group import ShareGroup
    from kshim.coordinator.groups.streams.group import StreamsGroup

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
    while its coordinator is loading; Assigning, Reconciling and NotReady are further ones of newer protocols, whose groups have an
    epoch for `generation`, an assignor for `protocol`, and no leader. `is_synced`: every member has its assignment.
    `unassigned`: see `unassigned_of`."""

    group_id: str
    state: str
    generation: int
    protocol: str | None
    members: tuple[MemberView, ...]
    is_synced: bool
    unassigned: Partitions = ()

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
    group = None if shard is None else shard.classic_groups.get(group_id)
    if group is None:
        if shard is not None and group_id in shard.groups:
            return _newer_group_view(cluster, shard, group_id)
        state = UNKNOWN if shard is None and _is_loading(cluster, group_id) else GroupState.DEAD.value
        return GroupView(group_id, state, 0, None, (), is_synced=False)
    is_synced = group.state is GroupState.STABLE and not group.pending_syncs
    return GroupView(
        group_id,
        group.state.value,
        group.generation_id,
        group.protocol_name,
        tuple(_member_view(group, member) for member in group.members.values()),
        is_synced=is_synced,
        unassigned=_unassigned(cluster, group) if is_synced else (),
    )


def _newer_group_view(cluster: Cluster, shard: Shard, group_id: str) -> GroupView:
    """Of a group that is not classic."""
    from kshim.coordinator.groups.kinds import GroupKind

    match shard.groups[group_id].kind:
        case GroupKind.SHARE:
            return _share_group_view(cluster, shard, shard.share_group(group_id))
        case GroupKind.STREAMS:
            return _streams_group_view(cluster, shard, shard.streams_group(group_id))
        case _:
            return _consumer_group_view(cluster, shard, shard.consumer_group(group_id))


def _share_group_view(cluster: Cluster, shard: Shard, group: ShareGroup) -> GroupView:
    """Partitions of a share group may have several readers, so that none is left over."""
    from kshim.coordinator.groups.share.simple_assignor import SIMPLE

    members = tuple(
        MemberView(
            member.member_id,
            member.metadata.client_id,
            member.metadata.client_host.removeprefix("/"),
            None,
            _named(cluster, member.current.assigned),
            is_leader=False,
            is_synced=member.current.epoch == group.target_epoch,
            session_timeout_ms=shard.share_settings_of(group.group_id).session_timeout_ms,
        )
        for member in group.members.values()
    )
    is_synced = all(member.is_synced for member in members) and group.target_epoch == group.group_epoch
    return GroupView(group.group_id, group.state.value, group.group_epoch, SIMPLE, members, is_synced=is_synced)


def _streams_group_view(cluster: Cluster, shard: Shard, group: StreamsGroup) -> GroupView:
    """What a member is said to have is what its active tasks read."""
    from kshim.coordinator.groups.streams.task_assignor import STICKY

    members = tuple(
        MemberView(
            member.member_id,
            member.metadata.client_id,
            member.metadata.client_host.removeprefix("/"),
            member.metadata.instance_id,
            _read_by(cluster, group, member.current.assigned.active),
            is_leader=False,
            is_synced=member.current.is_at(group.target_epoch),
            session_timeout_ms=shard.streams_settings_of(group.group_id).session_timeout_ms,
        )
        for member in group.members.values()
    )
    is_synced = group.state.value == GroupState.STABLE.value
    return GroupView(group.group_id, group.state.value, group.group_epoch, STICKY, members, is_synced=is_synced)


def _read_by(cluster: Cluster, group: StreamsGroup, tasks: Iterable[tuple[str, int]]) -> Partitions:
    """The partitions that tasks read, of topics that have so many."""
    subtopologies = () if group.topology is None else group.topology.subtopologies
    sources = {each.subtopology_id: tuple(each.sources()) for each in subtopologies}
    return tuple(
        sorted(
            {
                (topic, index)
                for subtopology_id, index in tasks
                for topic in sources.get(subtopology_id, ())
                if index < (cluster.topics.partition_count(topic) or 0)
            }
        )
    )


def _consumer_group_view(cluster: Cluster, shard: Shard, group: ConsumerGroup) -> GroupView:
    from kshim.coordinator.groups.consumer.plan import preferred_assignor

    timeout_ms = shard.settings_of(group.group_id).session_timeout_ms
    is_synced = group.state.value == GroupState.STABLE.value
    return GroupView(
        group.group_id,
        group.state.value,
        group.group_epoch,
        preferred_assignor(group, shard.config.default_assignor),
        tuple(_consumer_member_view(cluster, group, member, timeout_ms) for member in group.members.values()),
        is_synced=is_synced,
        unassigned=_not_yet_assigned(cluster, group) if is_synced else (),
    )


def _consumer_member_view(
    cluster: Cluster, group: ConsumerGroup, member: ConsumerMember, session_timeout_ms: int
) -> MemberView:
    return MemberView(
        member.member_id,
        member.metadata.client_id,
        member.metadata.client_host.removeprefix("/"),
        member.metadata.instance_id,
        _named(cluster, member.current.assigned),
        is_leader=False,
        is_synced=member.current.is_at(group.target_epoch),
        session_timeout_ms=session_timeout_ms,
    )


def _named(cluster: Cluster, partitions: Iterable[tuple[bytes, int]]) -> Partitions:
    """With the names of topics, of those that exist."""
    names = [(cluster.topics.topic_name(topic_id), index) for topic_id, index in partitions]
    return tuple(sorted((name, index) for name, index in names if name is not None))


def _not_yet_assigned(cluster: Cluster, group: ConsumerGroup) -> Partitions:
    """Partitions that are subscribed to and not in a target yet: no heartbeat has come since they were made."""
    from kshim.coordinator.groups.consumer.subscriptions import subscribed_names

    topics = cluster.topics
    found = [(name, topics.topic_id(name), topics.partition_count(name) or 0) for name in subscribed_names(group)]
    return tuple(
        sorted(
            (name, index)
            for name, topic_id, count in found
            for index in range(count)
            if topic_id is not None and group.is_free((topic_id, index))
        )
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
    view = group_view(cluster, group_id)
    return lag_of(cluster, group_id, [place for member in view.members for place in member.assignment])


def lag_of(cluster: Cluster, group_id: str, assigned: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """See `lag`; `assigned` are the partitions of its members."""
    positions: dict[tuple[str, int], int | None] = dict.fromkeys(assigned)
    positions |= committed(cluster, group_id)
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
    return (read_assignment(assignment) or ()) if group.is_consumer_group else ()


def read_assignment(assignment: bytes) -> Partitions | None:
    """The partitions of a ConsumerProtocolAssignment, or None when it cannot be read."""
    if not assignment:
        return ()
    from kshim_protocol.codec import codec
    from kshim_protocol.internal.consumer import ConsumerProtocolAssignment

    try:
        read, _ = codec(ConsumerProtocolAssignment, 0).parse(assignment, 2)
    except ProtocolError:
        return None
    return tuple(sorted((each.topic, index) for each in read.assigned_partitions for index in each.partitions))


def _unassigned(cluster: Cluster, group: Group) -> Partitions:
    if not group.is_consumer_group:
        return ()
    members = group.members.values()
    return unassigned_of(
        [group.chosen_metadata(member) for member in members],
        [member.assignment for member in members],
        lambda topic: cluster.topics.partition_count(topic) or 0,
    )


def unassigned_of(
    subscriptions: Iterable[bytes], assignments: Iterable[bytes], partition_count: Callable[[str], int]
) -> Partitions:
    """What the members of a consumer group will be given by a further rebalance, which has not begun.

    All partitions of a topic to which they subscribe and which exists, but of which nobody has a partition, because the leader
    did not know it yet; and partitions that a member has given up for another one that is to have it next (KIP-429).
    Nothing where a subscription or an assignment cannot be read. `partition_count` is 0 for a topic that does not exist.
    """
    from kshim_protocol.codec import codec
    from kshim_protocol.internal.consumer import ConsumerProtocolSubscription

    assigned: set[tuple[str, int]] = set()
    for assignment in assignments:
        partitions = read_assignment(assignment)
        if partitions is None:
            return ()
        assigned.update(partitions)
    topics: set[str] = set()
    owned: set[tuple[str, int]] = set()
    for data in subscriptions:
        version = 0 if data[:2] == bytes(2) else 1  # the first that says what a member owns
        try:
            subscription, _ = codec(ConsumerProtocolSubscription, version).parse(data, 2)
        except ProtocolError:
            return ()
        topics.update(subscription.topics)
        owned.update((each.topic, index) for each in subscription.owned_partitions for index in each.partitions)
    unknown = {
        (topic, index) for topic in topics - {topic for topic, _ in assigned} for index in range(partition_count(topic))
    }
    moving = {(topic, index) for topic, index in owned - assigned if topic in topics and index < partition_count(topic)}
    return tuple(sorted(unknown | moving))
