"""What one input changes in a share group: the updates, seen through as if they were applied.

Source: Kafka's GroupMetadataManager.shareGroupHeartbeat and shareGroupFenceMember; the order of records is that of a live 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.consumer.assignors.subscribers import Subscriber, TopicPartition
from kshim.coordinator.groups.consumer.updates import by_topic
from kshim.coordinator.groups.epoch_report import Causes
from kshim.coordinator.groups.events import Cause, Trigger, Wish
from kshim.coordinator.groups.share.group import ShareGroup, ShareMember
from kshim.coordinator.groups.share.simple_assignor import assign_simply
from kshim.coordinator.groups.share.updates import (
    Current,
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    PartitionStates,
    ShareUpdate,
    StatePartitions,
    TargetEpoch,
    TopicState,
)
from kshim.coordinator.hash_order import hash_map_order, hash_set_order
from kshim_protocol.internal.share_group import (
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMetadataValue,
)

_FROM_RESET = -1
"""The start offset of a topic that is new to the group: `share.auto.offset.reset` says where it begins."""
_FROM_BEGINNING = 0
"""That of partitions of a topic of which the group's record speaks: they were added to it, and their records are all new."""


class SharePlan:
    """The updates of one input, in the order of their records; nothing else changes until they are in the log.

    `base` is the group as it is, `group` how it will be, `causes` why.
    """

    def __init__(self, group: ShareGroup, hash_of_topics: Callable[[frozenset[str]], int]) -> None:
        self.base = group
        self.group = group.draft()
        self.updates: list[ShareUpdate] = []
        self.topics_version: int | None = None  # of the topics that the group was compared with
        self.causes = Causes()
        self._hash_of_topics = hash_of_topics

    def _add(self, update: ShareUpdate) -> None:
        self.group.apply(update)
        self.updates.append(update)

    def _raise_epoch(self, trigger: Trigger) -> None:
        """A new group epoch, at most one a plan; the first trigger is the cause."""
        if self.causes.trigger is None:
            self.causes.trigger = trigger
            value = ShareGroupMetadataValue(
                epoch=self.group.group_epoch + 1, metadata_hash=self._hash_of_topics(self.group.subscribed_names())
            )
            self._add(GroupEpoch(value))

    def put_member(self, member_id: str, metadata: ShareGroupMemberMetadataValue) -> None:
        """A member joins, or says what it wants. Only another subscription raises the epoch; a new member always does."""
        before = self.group.members.get(member_id)
        if before is not None and before.metadata == metadata:
            return
        self._add(MemberMetadata(member_id, metadata))
        names, ref = metadata.subscribed_topic_names, self.group.members[member_id].ref()
        if before is None:
            wish = self.causes.wish = Wish(names, None)
            self.causes.joined.append((ref, wish))
            self._raise_epoch(Trigger(cause=Cause.MEMBER_JOINED, detail=f"member {member_id} joined", member=ref))
        elif before.metadata.subscribed_topic_names != names:
            self.causes.wish = Wish(names, None, before.metadata.subscribed_topic_names)
            detail = f"member {member_id} has changed what it subscribes to"
            self._raise_epoch(Trigger(cause=Cause.SUBSCRIPTION_CHANGED, detail=detail, member=ref))

    def look_at_topics(self, version: int) -> None:
        """Topics may have been made, deleted or grown since the group was compared with them. `version`: of all now."""
        if self.base.topics_version != version:
            self.topics_version = version
            if self._hash_of_topics(self.group.subscribed_names()) != self.group.metadata_hash:
                self._raise_epoch(Trigger(cause=Cause.TOPICS_CHANGED, detail="topics of the group have changed"))

    def compute_target(self, topics: TopicCatalog, now_ms: int, interval_ms: int) -> None:
        """A new target, if it is time: the epoch has risen, or partitions can be assigned that were not before."""
        group = self.group
        if now_ms - group.target_ms < interval_ms:
            return
        ids = subscribed_ids(group, topics)
        if group.target_epoch >= group.group_epoch:
            if not _awaits_partitions(group, frozenset(ids.values())):
                return
            detail = "the state of partitions is there, which nobody reads yet"
            self._raise_epoch(Trigger(cause=Cause.STATE_INITIALIZED, detail=detail))
        members = {
            member_id: Subscriber(
                frozenset(
                    ids[name] for name in group.members[member_id].metadata.subscribed_topic_names if name in ids
                ),
                group.targets.get(member_id, frozenset()),
            )
            for member_id in hash_map_order(group.members)  # who is to have one more is decided by this order in Kafka
        }
        initialized = group.states.initialized
        assignable = {
            ids[name]: initialized[ids[name]].partitions for name in hash_set_order(ids) if ids[name] in initialized
        }
        for member_id, partitions in assign_simply(members, assignable).items():
            if group.targets.get(member_id) != partitions:
                self._add(MemberTarget(member_id, partitions))
        self._set_target_epoch(now_ms)

    def _set_target_epoch(self, target_ms: int) -> None:
        value = ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.group.group_epoch, assignment_timestamp=target_ms
        )
        self._add(TargetEpoch(value))

    def reconcile(self, member_id: str, topics: TopicCatalog) -> None:
        """The member takes the target's epoch, and of its target what it subscribes to. Nothing has to be given up first."""
        group = self.group
        member = group.members[member_id]
        current = member.current
        wanted = frozenset(map(topics.topic_id, member.metadata.subscribed_topic_names))
        assigned = frozenset(place for place in group.targets.get(member_id, frozenset()) if place[0] in wanted)
        if current.epoch != group.target_epoch:
            self._add(MemberCurrent(member_id, Current(group.target_epoch, current.epoch, assigned)))
        elif current.assigned != assigned:
            self._add(MemberCurrent(member_id, current._replace(assigned=assigned)))

    def initialize(self, topics: TopicCatalog) -> dict[TopicPartition, int]:
        """Have share state made for partitions of subscribed topics that have none, and of which nobody asked it yet.

        Returns the start offset of each.
        """
        states = self.group.states
        known = states.initialized.keys() | states.initializing.keys()
        asked = states.are_initialized() | self.base.being_initialized
        missing: dict[bytes, TopicState] = {}
        for name, topic_id in subscribed_ids(self.group, topics).items():
            indexes = [index for index in range(topics.partition_count(name) or 0) if (topic_id, index) not in asked]
            if indexes:
                missing[topic_id] = TopicState(name, frozenset(indexes))
        after = with_initializing(states, missing)
        if after != states:
            self._add(PartitionStates(after))
        return {
            (topic_id, index): _FROM_BEGINNING if topic_id in known else _FROM_RESET
            for topic_id, topic in missing.items()
            for index in topic.partitions
        }

    def remove_member(self, member_id: str, cause: Cause, detail: str) -> None:
        """A member leaves, or its session is over."""
        ref = self.group.members[member_id].ref()
        self.causes.removed.append((ref, cause))
        self._add(MemberCurrent(member_id, None))
        self._add(MemberTarget(member_id, None))
        self._add(MemberMetadata(member_id, None))
        self._raise_epoch(Trigger(cause=cause, detail=detail, member=ref))
        if not self.group.members:
            self._set_target_epoch(0)  # who joins next gets a target at once


def subscribed_ids(group: ShareGroup, topics: TopicCatalog) -> dict[str, bytes]:
    """The ids of those topics that exist and to which somebody subscribes, by name in order."""
    found = ((name, topics.topic_id(name)) for name in sorted(group.subscribed_names()))
    return {name: topic_id for name, topic_id in found if topic_id is not None}


def changes_nothing(group: ShareGroup, member: ShareMember, topics: TopicCatalog) -> bool:
    """Whether a member is where it is to be, and nothing is to be computed or made: most heartbeats."""
    return (
        group.topics_version == topics.version
        and group.target_epoch == group.group_epoch == member.current.epoch
        and not _awaits_partitions(group, frozenset(subscribed_ids(group, topics).values()))
    )


def _awaits_partitions(group: ShareGroup, wanted: frozenset[bytes]) -> bool:
    """Whether state is there for partitions of these topics that nobody is to read."""
    targets: frozenset[TopicPartition] = frozenset().union(*group.targets.values())
    return any(place[0] in wanted for place in group.states.are_initialized() - targets)


def with_initializing(states: StatePartitions, wanted: Mapping[bytes, TopicState]) -> StatePartitions:
    """The same, with these partitions among those whose state is being made. A topic may be named without any."""
    return states._replace(initializing=_with(states.initializing, wanted))


def with_initialized(
    states: StatePartitions, made: frozenset[TopicPartition], failed: frozenset[TopicPartition]
) -> StatePartitions:
    """The same, with the state of some partitions made, and that of others given up, as long as they are being made."""
    made_of, settled_of = by_topic(made), by_topic(made | failed)
    left: dict[bytes, TopicState] = {}
    done: dict[bytes, TopicState] = {}
    for topic_id, (name, partitions) in states.initializing.items():
        if ready := partitions.intersection(made_of.get(topic_id, ())):
            done[topic_id] = TopicState(name, ready)
        waiting = partitions.difference(settled_of.get(topic_id, ()))
        if waiting or topic_id not in settled_of:  # a topic may be named without partitions
            left[topic_id] = TopicState(name, waiting)
    return states._replace(initializing=left, initialized=_with(states.initialized, done))


def without_topics(states: StatePartitions, gone: frozenset[bytes]) -> StatePartitions:
    """The same, without topics that are deleted."""
    return StatePartitions(
        {topic_id: topic for topic_id, topic in states.initializing.items() if topic_id not in gone},
        {topic_id: topic for topic_id, topic in states.initialized.items() if topic_id not in gone},
        {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in gone},
    )


def _with(topics: Mapping[bytes, TopicState], more: Mapping[bytes, TopicState]) -> dict[bytes, TopicState]:
    found = dict(topics)
    for topic_id, topic in more.items():
        before = found.get(topic_id, topic)
        found[topic_id] = TopicState(topic.name, before.partitions | topic.partitions)
    return found
