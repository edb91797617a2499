"""Groups with members go over to the other protocol, and their members stay in them.

A classic group becomes one of the new protocol when a member of that joins it (upgrade). It becomes classic again when the
last such member goes, or when a static member comes back that speaks the classic protocol (downgrade).

Source: Kafka's GroupMetadataManager (validateOnlineUpgrade, convertToConsumerGroup, validateOnlineDowngradeWithFencedMembers,
convertToClassicGroup), ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Final

from kshim.coordinator.groups.classic.group import Group, vote
from kshim.coordinator.groups.classic.rebalance import restart_session, start_rebalance
from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.embedded_protocol import (
    build_assignment,
    parse_assignment,
    parse_subscription,
    partitions_of,
)
from kshim.coordinator.groups.consumer.group import ConsumerGroup, Member
from kshim.coordinator.groups.consumer.reconciliation import Current
from kshim.coordinator.groups.consumer.updates import (
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    TargetEpoch,
    Update,
)
from kshim.coordinator.groups.events import AppendFailed, Trigger
from kshim.coordinator.groups.kinds import CONSUMER_PROTOCOL_TYPE, GroupKind, Pair, converted
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kshim_protocol.internal.group_metadata import GroupMetadataValue
from kshim_protocol.internal.group_metadata import MemberMetadata as ClassicMember
from kshim_protocol.internal.records import build_group_metadata_key, build_group_metadata_value

if TYPE_CHECKING:
    from kshim.coordinator.catalog import TopicCatalog
    from kshim.coordinator.groups.classic.member import Member as MemberOfClassicGroup
    from kshim.coordinator.groups.shard import Shard
    from kshim.coordinator.step import Event, Now, Step

_UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
_DOWNGRADES: Final = frozenset({"downgrade", "bidirectional"})
_DISABLED: Final = "disabled"


def _policy(shard: Shard) -> str:
    return shard.config.group_consumer_migration_policy.lower()


def require_migration(shard: Shard, group_id: str) -> None:
    """Raises KafkaError: INCONSISTENT_GROUP_PROTOCOL, where members of both protocols may not be in one group."""
    if _policy(shard) == _DISABLED:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group_id} with the classic protocol because the group migration is disabled.",
        )


# From classic to the new protocol


def upgraded(shard: Shard, classic: Group) -> tuple[ConsumerGroup, list[Update]]:
    """The group of the new protocol that a classic group with members becomes, and its updates in the order of records.

    Its epoch is the generation, and its members are at it. Raises KafkaError: GROUP_ID_NOT_FOUND; UNKNOWN_SERVER_ERROR as in
    Kafka, for a group that is in its first rebalance, or one partition of two members.
    """
    _require_upgradable(shard, classic)
    generation = classic.generation_id
    metadata: list[Update] = []
    targets: list[Update] = []
    currents: list[Update] = []
    names: set[str] = set()
    count = 0
    for member in classic.members.values():
        found, partitions = _from_classic(classic, member, shard.topics)
        names.update(found.subscribed_topic_names)
        count += len(partitions)
        metadata.append(MemberMetadata(member.member_id, found))
        targets.append(MemberTarget(member.member_id, partitions))
        assigned = dict.fromkeys(sorted(partitions), generation)
        currents.append(MemberCurrent(member.member_id, Current(generation, generation, assigned=assigned)))
    topics_hash = shard.hash_of_topics(frozenset(names))
    epoch = GroupEpoch(ConsumerGroupMetadataValue(epoch=generation, metadata_hash=topics_hash))
    target_epoch = TargetEpoch(ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=generation))
    group = ConsumerGroup(classic.group_id, shard.partition)
    updates = [*metadata, epoch, *targets, target_epoch, *currents]
    for update in updates:
        group.apply(update)
    if len(group.holders) < count:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return group, updates


def _require_upgradable(shard: Shard, classic: Group) -> None:
    if _policy(shard) not in _UPGRADES:
        raise _cannot_upgrade(classic, "online upgrade is disabled.")
    if not classic.is_consumer_group:
        raise _cannot_upgrade(classic, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > shard.config.group_consumer_max_size:
        raise _cannot_upgrade(classic, "the group size exceeds the consumer group maximum size.")


def _cannot_upgrade(classic: Group, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}",
    )


def _from_classic(
    classic: Group, member: MemberOfClassicGroup, topics: TopicCatalog
) -> tuple[ConsumerGroupMemberMetadataValue, frozenset[TopicPartition]]:
    """What a member wants and owns."""
    if classic.protocol_name not in member.protocols:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        partitions: frozenset[TopicPartition] = frozenset()
        if member.assignment:
            assignment = parse_assignment(member.assignment)
            if assignment.user_data:
                raise _cannot_upgrade(
                    classic,
                    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                    "assignor before re-attempting the upgrade.",
                )
            partitions = frozenset(partitions_of(assignment.assigned_partitions, topics))
        subscription = parse_subscription(classic.chosen_metadata(member))
    except ProtocolError:
        raise _cannot_upgrade(classic, "the embedded consumer protocol is malformed.") from None
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=classic_metadata(member.session_timeout_ms, list(member.protocols.items())),
    )
    return metadata, partitions


def classic_metadata(session_timeout_ms: int, protocols: Sequence[tuple[str, bytes]]) -> ClassicMemberMetadata:
    """What is kept of a JoinGroup beside what members of the new protocol say, too."""
    supported = tuple(ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols)
    return ClassicMemberMetadata(session_timeout_ms=session_timeout_ms, supported_protocols=supported)


# From the new protocol to classic


def is_downgraded(shard: Shard, group: ConsumerGroup, leaving: Container[str], *, joining_count: int = 0) -> bool:
    """Whether a group becomes classic when these members go and `joining_count` of the classic protocol come instead."""
    if _policy(shard) not in _DOWNGRADES:
        return False
    size = joining_count
    for member_id, member in group.members.items():
        if member_id in leaving:
            continue
        if not member.is_classic:
            return False
        size += 1
    return 0 < size <= shard.config.group_max_size


Staying = Sequence[tuple[Member, frozenset[TopicPartition]]]
"""Members of the classic protocol, each with its target."""


def downgraded(group: ConsumerGroup, staying: Staying, topics: TopicCatalog, now: Now) -> GroupMetadataValue:
    """The record of the classic group that a group becomes. What each member owns there is its target.

    Raises KafkaError: GROUP_ID_NOT_FOUND, as in Kafka, where a member's metadata is malformed.
    """
    protocol = vote(_protocols(member) for member, _ in staying)
    try:
        members = tuple(_to_classic(member, protocol, target, topics) for member, target in staying)
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot downgrade the classic group {group.group_id}: {error.reason}."
        ) from None
    return GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.group_epoch,
        protocol=protocol,
        leader=staying[0][0].member_id,
        current_state_timestamp=now.wall_ms,
        members=members,
    )


def _protocols(member: Member) -> dict[str, bytes]:
    classic = member.metadata.classic_member_metadata
    assert classic is not None, member.member_id
    return {protocol.name: protocol.metadata for protocol in classic.supported_protocols}


def _to_classic(
    member: Member, protocol: str, target: frozenset[TopicPartition], topics: TopicCatalog
) -> ClassicMember:
    metadata, subscription = member.metadata, _protocols(member)[protocol]
    assert metadata.classic_member_metadata is not None
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout=metadata.rebalance_timeout_ms,
        session_timeout=metadata.classic_member_metadata.session_timeout_ms,
        subscription=subscription,
        assignment=build_assignment(target, subscription, topics),
    )


def append_downgrade(
    shard: Shard,
    group: ConsumerGroup,
    staying: Staying,
    ends: list[Pair],
    now: Now,
    step: Step,
    *,
    rebalance: Trigger | None,
    events: Sequence[Event],
    written: Callable[[Step], None],
    failed: Callable[[ErrorCode, Step], None],
) -> None:
    """Write `ends`, which end the group, and the classic group; then the classic group goes on, and rebalances if there is
    a reason. `events` are what has happened to members. Raises as `downgraded`.
    """
    group_id = group.group_id
    value = downgraded(group, staying, shard.topics, now)

    def applied(_base_offset: int, step: Step) -> None:
        step.events += events
        step.events.append(converted(group, GroupKind.CLASSIC, now))
        shard.end_group(group_id)
        shard.put_group(group_id, value)
        classic = shard.classic_groups[group_id]
        for member, _ in staying:
            found = classic.members[member.member_id]
            classic.update_member(
                found,
                protocols=_protocols(member),  # a record has the chosen one only
                session_timeout_ms=found.session_timeout_ms,
                rebalance_timeout_ms=found.rebalance_timeout_ms,
            )
            restart_session(shard, found, now)
        if rebalance is not None:
            start_rebalance(shard, classic, rebalance, now, step)
        written(step)

    def not_written(error: ErrorCode, step: Step) -> None:
        step.events.append(AppendFailed(**group.event(now), error=error, what="the classic group"))
        failed(error, step)

    pairs = [*ends, (build_group_metadata_key(group_id), build_group_metadata_value(value))]
    shard.append(step, pairs, now, written=applied, failed=not_written)
