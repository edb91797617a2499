"""What one input changes in a streams group: the updates, seen through as if they were applied.

Source: Kafka's GroupMetadataManager.streamsGroupHeartbeat and what it calls; the order of records is that of a live 4.4.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.config import StreamsSettings
from kshim.coordinator.groups.epoch_report import Causes
from kshim.coordinator.groups.events import Cause, MemberRef, Trigger
from kshim.coordinator.groups.streams.configured_topology import ConfiguredTopology, configure
from kshim.coordinator.groups.streams.group import (
    JOIN_EPOCH,
    LEFT_FOR_NOW_EPOCH,
    NEVER_VALIDATED,
    NOTHING_SAID,
    StreamsGroup,
    StreamsMember,
)
from kshim.coordinator.groups.streams.reconciliation import Owned, reconcile
from kshim.coordinator.groups.streams.task_assignor import AssignorMember, SubtopologyTasks, assign_sticky
from kshim.coordinator.groups.streams.tasks import NO_TASKS, NOTHING_HELD, Tasks
from kshim.coordinator.groups.streams.topology import Topology
from kshim.coordinator.groups.streams.updates import (
    GroupEpoch,
    GroupTopology,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    StreamsUpdate,
    TargetEpoch,
)
from kshim.coordinator.hash_order import hash_map_order, timeline_order
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.streams_group import (
    LastAssignmentConfig,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataValue,
)


class Delay(Enum):
    """Why there is no new target although the group's epoch is newer; the values are Kafka's sentences."""

    INITIAL = "Assignment delayed due to the configured initial rebalance delay."
    INTERVAL = "Assignment delayed due to the configured assignment interval."


class Validation(NamedTuple):
    """A topology compared with the topics that there are, whose hash comes with it."""

    topology: Topology
    configured: ConfiguredTopology
    topics_hash: int

    @property
    def epoch(self) -> int:
        """The epoch of the topology, once it is ready."""
        return self.topology.epoch if self.configured.is_ready else NEVER_VALIDATED


_STANDBY_REPLICAS: Final = "num.standby.replicas"
_RACK_AWARE_TAGS: Final = "rack.aware.assignment.tags"


def assignment_configs(settings: StreamsSettings) -> dict[str, str]:
    """The settings with which a target is computed, under the names that the record of the group has for them."""
    configs = {_STANDBY_REPLICAS: str(settings.standby_replicas)}
    if settings.rack_aware_tags:
        configs[_RACK_AWARE_TAGS] = settings.rack_aware_tags
    return configs


class StreamsPlan:
    """The updates of one input, in the order of their records; nothing else changes until they are in the log.

    `base` is the group as it is, `group` how it will be, `causes` why. `configs`: as `assignment_configs`, where others than those
    of the `settings` hold.
    """

    def __init__(
        self, group: StreamsGroup, settings: StreamsSettings, *, configs: dict[str, str] | None = None
    ) -> None:
        self.base = group
        self.group = group.draft()
        self.updates: list[StreamsUpdate] = []
        self.replaces: Group | None = None
        """The classic group without members that ends with it."""
        self.causes = Causes()
        self._configs = assignment_configs(settings) if configs is None else configs
        self._settings = settings

    def _add(self, update: StreamsUpdate) -> None:
        self.group.apply(update)
        self.updates.append(update)

    # Members

    def member(self, member_id: str) -> StreamsMember:
        """A member as it will be; one that has said nothing yet, where there is none."""
        return self.group.members.get(member_id) or StreamsMember(member_id, NOTHING_SAID)

    def put_member(self, member_id: str, metadata: StreamsGroupMemberMetadataValue, *, by_instance_id: bool) -> None:
        """A member joins, or says what it is. All that a dynamic member says raises the epoch, of a static one that
        names its instance only what an assignor or its topology depends on.
        """
        before = self.member(member_id).metadata
        is_known = member_id in self.group.members
        if is_known and before == metadata:
            return
        self._add(MemberMetadata(member_id, metadata))
        ref = self.group.members[member_id].ref()
        if not is_known:
            self.causes.joined.append((ref, None))
        if not by_instance_id or _for_assignor(before) != _for_assignor(metadata):
            self.causes.trigger = self._of_member(ref, is_known=is_known)

    def _of_member(self, ref: MemberRef, *, is_known: bool) -> Trigger:
        """Why the epoch rises when a member has said what it is."""
        if self.causes.replaced:
            cause, did = Cause.STATIC_MEMBER_REPLACED, f"with instance id {ref.group_instance_id} joined again"
        elif is_known:
            cause, did = Cause.METADATA_CHANGED, "has changed what it says of its process"
        else:
            cause, did = Cause.MEMBER_JOINED, "joined"
        return Trigger(cause=cause, detail=f"member {ref.member_id} {did}", member=ref)

    def take_over(self, old_id: str, new_id: str) -> None:
        """A static member is back, mostly under a new id: what was the old one's is its. It is as if it joined: epoch 0."""
        old, target = self.group.members[old_id], self.group.target(old_id)
        self._forget(old_id)
        self._add(MemberMetadata(new_id, old.metadata))
        self._add(MemberTarget(new_id, target))
        self._add(MemberCurrent(new_id, old.current._replace(epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)))
        self.causes.replaced.append((self.group.members[new_id].ref(), old_id))

    def leave_for_now(self, member_id: str) -> None:
        """A static member will be back: its tasks wait for it, and the epoch stays.

        What it commits in any epoch after its return is its, so the epochs of its tasks are 0.
        """
        current = self.group.members[member_id].current
        assigned = current.assigned._replace(active=dict.fromkeys(current.assigned.active, JOIN_EPOCH))
        left = current._replace(epoch=LEFT_FOR_NOW_EPOCH, assigned=assigned, pending_revocation=NOTHING_HELD)
        self._add(MemberCurrent(member_id, left))

    def remove_member(self, member_id: str, cause: Cause, detail: str) -> None:
        """A member leaves for good, or is removed."""
        ref = self.group.members[member_id].ref()
        self.causes.removed.append((ref, cause))
        self.causes.trigger = Trigger(cause=cause, detail=detail, member=ref)
        self._forget(member_id)
        value = self.base.value
        self._put_epoch(value.metadata_hash, value.validated_topology_epoch, self.base.assignment_configs)
        if not self.group.members:
            self._put_target_epoch(0)  # who joins next gets a target at once

    def _forget(self, member_id: str) -> None:
        self._add(MemberCurrent(member_id, None))
        self._add(MemberTarget(member_id, None))
        self._add(MemberMetadata(member_id, None))

    # Topology and epoch

    def bring_topology(self, topology: Topology) -> None:
        """A member that joins brings its topology: the first one is the group's, an older one does no harm.

        Raises KafkaError: INVALID_REQUEST, when it is another one; UNKNOWN_SERVER_ERROR, when it cannot be one.
        """
        known = self.group.topology
        ids = {each.subtopology_id for each in topology.subtopologies}
        if topology.epoch < 0 or len(ids) < len(topology.subtopologies):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if known is None:
            self._add(GroupTopology(topology))
        elif known.epoch <= topology.epoch and not _are_equal(known, topology):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")

    def validate(self, topics: TopicCatalog, hash_of_topics: Callable[[frozenset[str]], int]) -> Validation:
        """Compare the topology with the topics, if it was not compared with them as they are now.

        Raises KafkaError: STREAMS_INVALID_TOPOLOGY; UNKNOWN_SERVER_ERROR, for a group whose topology is not known.
        """
        topology, memory = self.group.topology, self.base.memory
        if topology is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        is_new = self.base.topology is None
        if not is_new and memory.configured is not None and memory.topics_version == topics.version:
            return Validation(topology, memory.configured, self.base.value.metadata_hash)
        names = topology.topics()
        topics_hash = hash_of_topics(names)
        if is_new or memory.configured is None or topics_hash != self.base.value.metadata_hash:
            counts = {name: count for name in names if (count := topics.partition_count(name)) is not None}
            memory.configured = configure(topology, counts)
        memory.topics_version = topics.version
        return Validation(topology, memory.configured, topics_hash)

    def raise_epoch_if_due(self, validation: Validation) -> None:
        """A new group epoch, when a member, the topics, the topology or the settings ask for another target."""
        causes = self.causes
        if causes.trigger is None:
            causes.trigger = self._found(validation)
        if causes.trigger is not None:
            self._put_epoch(validation.topics_hash, validation.epoch, self._configs)

    def _found(self, validation: Validation) -> Trigger | None:
        """Why the epoch rises although no member asks for it; None: it does not."""
        value = self.base.value
        if validation.topics_hash != value.metadata_hash:
            return Trigger(cause=Cause.TOPICS_CHANGED, detail="topics of its topology have changed")
        if validation.epoch != value.validated_topology_epoch:
            is_ready = (
                "has the topics that it needs" if validation.configured.is_ready else "lacks topics that it needs"
            )
            return Trigger(cause=Cause.TOPICS_CHANGED, detail=f"its topology {is_ready}")
        before = self.base.assignment_configs
        if self._configs != before:
            names = sorted(name for name in {*self._configs, *before} if self._configs.get(name) != before.get(name))
            detail = ", ".join(f"{name} is {self._configs.get(name)} and was {before.get(name)}" for name in names)
            return Trigger(cause=Cause.SETTINGS_CHANGED, detail=detail)
        return None

    def _put_epoch(self, topics_hash: int, validated_epoch: int, configs: dict[str, str]) -> None:
        before = self.base.value
        value = StreamsGroupMetadataValue(
            epoch=before.epoch + 1,
            metadata_hash=topics_hash,
            validated_topology_epoch=validated_epoch,
            last_assignment_configs=tuple(LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)),
            stored_description_topology_epoch=before.stored_description_topology_epoch,
            failed_description_topology_epoch=before.failed_description_topology_epoch,
        )
        self._add(GroupEpoch(value))

    # Target and reconciliation

    def compute_target(
        self, configured: ConfiguredTopology, now_ms: int, *, joining_id: str | None = None
    ) -> Delay | None:
        """A new target, if the epoch has risen since the last one and that is old enough (Unix time).

        `joining_id` is a member that is not in the group yet: the assignor sees it last.
        """
        group = self.group
        if group.target_epoch >= group.group_epoch:
            return None
        if group.target_ms and now_ms < group.target_ms + self._settings.assignment_interval_ms:
            return Delay.INTERVAL
        found = self._assign(configured, joining_id)
        for member_id in hash_map_order(found):
            if group.targets.get(member_id) != found[member_id]:
                self._add(MemberTarget(member_id, found[member_id]))
        self._put_target_epoch(now_ms)
        return None

    def _assign(self, configured: ConfiguredTopology, joining_id: str | None) -> dict[str, Tasks]:
        """What each member is to run: nothing, as long as the topology is not ready."""
        group = self.group
        if not configured.is_ready or configured.subtopologies is None:
            return dict.fromkeys(group.members, NO_TASKS)
        if joining_id is None:
            in_order = group.member_ids()
        else:  # the table of members has not grown for it yet
            known = [member_id for member_id in group.members if member_id != joining_id]
            in_order = [*timeline_order(known, most=self.base.most_members), joining_id]
        members = {member_id: self._for_assignor(group.members[member_id]) for member_id in in_order}
        subtopologies = {
            name: SubtopologyTasks(each.task_count, each.is_stateful) for name, each in configured.subtopologies.items()
        }
        found = assign_sticky(members, subtopologies, standby_replicas=int(self._configs.get(_STANDBY_REPLICAS, "0")))
        return {member_id: Tasks(tasks.active_tasks, tasks.standby_tasks) for member_id, tasks in found.items()}

    def _for_assignor(self, member: StreamsMember) -> AssignorMember:
        assigned = member.current.assigned
        offsets = self.base.memory.task_offsets.get(member.member_id)
        return AssignorMember(
            member.metadata.process_id,
            frozenset(assigned.active),
            assigned.standby,
            {} if offsets is None else offsets.offsets,
        )

    def _put_target_epoch(self, target_ms: int) -> None:
        value = StreamsGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.group.group_epoch, assignment_timestamp=target_ms
        )
        self._add(TargetEpoch(value))

    def reconcile(self, member_id: str, owned: Owned, *, has_target: bool) -> None:
        """A member's next step to its target; without, to nothing. Raises KafkaError: FENCED_MEMBER_EPOCH."""
        member, group = self.member(member_id), self.group
        found = reconcile(
            member.current,
            target_epoch=group.target_epoch,
            target=group.target(member_id) if has_target else NO_TASKS,
            owned=owned,
            process_id=member.metadata.process_id,
            processes=self.base.processes(),
        )
        if found != member.current:
            self._add(MemberCurrent(member_id, found))


def _for_assignor(metadata: StreamsGroupMemberMetadataValue) -> tuple[object, ...]:
    """What of a static member raises the epoch when it is another one."""
    return metadata.topology_epoch, metadata.rack_id, metadata.client_tags, metadata.process_id


def _are_equal(one: Topology, other: Topology) -> bool:
    """Whether two topologies are the same, whatever the order of their parts."""
    return one.epoch == other.epoch and {each.subtopology_id: each for each in one.subtopologies} == {
        each.subtopology_id: each for each in other.subtopologies
    }
