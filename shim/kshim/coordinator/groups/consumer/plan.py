"""What one input changes in a group: the updates, seen through as if they were applied, and why they are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.consumer.assignors.range import assign_ranges
from kshim.coordinator.groups.consumer.assignors.subscribers import Assignor, Subscriber
from kshim.coordinator.groups.consumer.assignors.uniform import assign_uniformly
from kshim.coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH, ConsumerGroup
from kshim.coordinator.groups.consumer.reconciliation import Owned, reconcile
from kshim.coordinator.groups.consumer.state import MemberState
from kshim.coordinator.groups.consumer.updates import (
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    TargetEpoch,
    Update,
)
from kshim.coordinator.groups.events import Trigger
from kshim_protocol.internal.consumer_group import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names that members ask for; the first is used when nobody asks."""


class Plan:
    """The updates of one input, in the order of their records; nothing else changes until they are in the log.

    `group` is how the group will be. `trigger` is why its epoch rises, None as long as it does not.
    """

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group.draft()
        self.updates: list[Update] = []
        self.trigger: Trigger | None = None

    def add(self, update: Update) -> None:
        """One more update."""
        self.group.apply(update)
        self.updates.append(update)

    def raise_epoch(self, trigger: Trigger) -> None:
        """A new group epoch, at most one a plan; the first trigger is the cause."""
        if self.trigger is None:
            self.trigger = trigger
            group = self.group
            value = ConsumerGroupMetadataValue(epoch=group.group_epoch + 1, metadata_hash=group.metadata_hash)
            self.add(GroupEpoch(value))

    def put_member(self, member_id: str, metadata: ConsumerGroupMemberMetadataValue, trigger: Trigger) -> None:
        """A member joins, or says what it wants. Only what matters to an assignor raises the epoch."""
        before = self.group.members.get(member_id)
        if before is not None and before.metadata == metadata:
            return
        self.add(MemberMetadata(member_id, metadata))
        if before is None or _wish(before.metadata) != _wish(metadata):
            self.raise_epoch(trigger)

    def remove_member(self, member_id: str, trigger: Trigger) -> None:
        """A member leaves for good, or is removed."""
        self._forget(member_id)
        self.raise_epoch(trigger)
        if not self.group.members:
            # A live 4.4 describes the Empty group with equal epochs: there is nothing left to assign.
            self._set_target_epoch(self.group.target_ms)

    def leave_for_now(self, member_id: str) -> None:
        """A static member will be back: its partitions wait for it, and the epoch stays."""
        current = self.group.members[member_id].current
        left = current._replace(epoch=LEFT_FOR_NOW_EPOCH, state=MemberState.STABLE, pending_revocation={})
        self.add(MemberCurrent(member_id, left))

    def take_over(self, old_id: str, new_id: str, metadata: ConsumerGroupMemberMetadataValue, trigger: Trigger) -> None:
        """A static member is back under a new id: what was the old one's is its. It is as if it joined: epoch 0."""
        old, target = self.group.members[old_id], self.group.targets.get(old_id)
        self._forget(old_id)
        self.add(MemberMetadata(new_id, metadata))
        if target is not None:
            self.add(MemberTarget(new_id, target))
        self.add(MemberCurrent(new_id, old.current._replace(epoch=0, previous_epoch=0)))
        if _wish(old.metadata) != _wish(metadata):
            self.raise_epoch(trigger)

    def _forget(self, member_id: str) -> None:
        self.add(MemberCurrent(member_id, None))
        self.add(MemberTarget(member_id, None))
        self.add(MemberMetadata(member_id, None))

    def compute_target(self, topics: TopicCatalog, now_ms: int, interval_ms: int) -> None:
        """A new target, if the epoch has risen since the last one and that is `interval_ms` old (Unix time)."""
        group = self.group
        if group.target_epoch >= group.group_epoch or now_ms - group.target_ms < interval_ms:
            return
        names = {name for member in group.members.values() for name in member.metadata.subscribed_topic_names}
        ids = {name: topic_id for name in names if (topic_id := topics.topic_id(name)) is not None}
        counts = {topic_id: topics.partition_count(name) or 0 for name, topic_id in ids.items()}
        members = {
            member_id: Subscriber(
                frozenset(ids[name] for name in member.metadata.subscribed_topic_names if name in ids),
                group.targets.get(member_id, frozenset()),
                member.metadata.instance_id,
            )
            for member_id, member in group.members.items()
        }
        target = ASSIGNORS[preferred_assignor(group)](members, counts)
        for member_id, partitions in target.items():
            if group.targets.get(member_id) != partitions:
                self.add(MemberTarget(member_id, partitions))
        self._set_target_epoch(now_ms)

    def _set_target_epoch(self, target_ms: int) -> None:
        value = ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.group.group_epoch, assignment_timestamp=target_ms
        )
        self.add(TargetEpoch(value))

    def reconcile(self, member_id: str, owned: Owned) -> None:
        """A member's next step to its target. Before its first target it has none to go to."""
        group = self.group
        current = group.members[member_id].current
        found = reconcile(
            current,
            target_epoch=group.target_epoch,
            target=group.targets.get(member_id, frozenset()),
            owned=owned,
            is_free=group.is_free,
        )
        if found != current:
            self.add(MemberCurrent(member_id, found))


def preferred_assignor(group: ConsumerGroup) -> str:
    """The assignor that most members ask for, of equal ones the one that stands first in ASSIGNORS."""
    votes = dict.fromkeys(ASSIGNORS, 0)
    for member in group.members.values():
        if member.metadata.server_assignor is not None:
            votes[member.metadata.server_assignor] += 1
    return max(votes, key=lambda name: votes[name])


def _wish(metadata: ConsumerGroupMemberMetadataValue) -> tuple[object, ...]:
    """What a target depends on."""
    return frozenset(metadata.subscribed_topic_names), metadata.subscribed_topic_regex, metadata.server_assignor
