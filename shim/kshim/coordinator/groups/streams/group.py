"""A streams group: what its records say, and what is only remembered as long as the coordinator runs.

Changes are planned on a draft (`plan.py`) and applied to the group when they are in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Set
from typing import Final, NamedTuple

from kshim.coordinator.deadlines import Deadlines, Key
from kshim.coordinator.groups.consumer.group import Draft
from kshim.coordinator.groups.epoch_report import report_end
from kshim.coordinator.groups.events import GroupWithEvents, MemberRef, Trigger
from kshim.coordinator.groups.kinds import GroupKind, Pair, Place, Places, Sender
from kshim.coordinator.groups.streams.configured_topology import ConfiguredTopology
from kshim.coordinator.groups.streams.reconciliation import Current, Processes
from kshim.coordinator.groups.streams.state import StreamsGroupState, state_of
from kshim.coordinator.groups.streams.task_assignor import Task
from kshim.coordinator.groups.streams.tasks import NO_TASKS, HeldTasks, Tasks
from kshim.coordinator.groups.streams.topology import Topology
from kshim.coordinator.groups.streams.updates import (
    GroupEpoch,
    GroupTopology,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    StreamsUpdate,
    TargetEpoch,
    build_streams_update,
)
from kshim.coordinator.hash_order import hash_map_order, timeline_order
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.streams_group import StreamsGroupMemberMetadataValue, StreamsGroupMetadataValue

FIRST_EPOCH: Final = 1
"""Of a group that nobody has joined yet; its first member makes 2."""
JOIN_EPOCH: Final = 0
LEFT_EPOCH: Final = -1
LEFT_FOR_NOW_EPOCH: Final = -2
"""The epoch of a static member that said it will be back."""
STREAMS_PROTOCOL_TYPE: Final = "streams"
INITIAL_DELAY: Final = "initial-delay"
"""The deadline of a group until which nobody gets tasks, so that members that start together share them from the start."""
MEMBER_TIMERS: Final = ("session", "rebalance")
NEVER_VALIDATED: Final = -1
_MEMBER_EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit that can say a member epoch."""
_LEFT: Final = Current(LEFT_EPOCH, LEFT_EPOCH)
NOTHING_SAID: Final = StreamsGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    rebalance_timeout_ms=-1,
    topology_epoch=-1,
    process_id="",
    user_endpoint=None,
    client_tags=(),
)
_NOBODY: Final[frozenset[str]] = frozenset()
_FIRST_VALUE: Final = StreamsGroupMetadataValue(epoch=FIRST_EPOCH, metadata_hash=0)


class StreamsMember(NamedTuple):
    """A member: what it is, and where it is."""

    member_id: str
    metadata: StreamsGroupMemberMetadataValue
    current: Current = Current()

    def ref(self) -> MemberRef:
        """The member as events name it."""
        metadata = self.metadata
        return MemberRef(
            member_id=self.member_id,
            group_instance_id=metadata.instance_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
        )


class TaskOffsets(NamedTuple):
    """How far a member has restored its tasks, and where their changelogs end, as it said last."""

    offsets: Mapping[Task, int] = {}
    end_offsets: Mapping[Task, int] = {}


class StreamsMemory:
    """What no record says of a group: it is gone when the coordinator moves or starts again."""

    def __init__(self) -> None:
        self.topics_version: int | None = None
        """That of the topics with which the topology was last compared."""
        self.configured: ConfiguredTopology | None = None
        self.task_offsets: dict[str, TaskOffsets] = {}
        self.shutdown_member_id: str | None = None
        """The member that wants the whole application to stop."""
        self.endpoint_epoch = 0
        self.failed_topics: dict[str, tuple[str, int]] = {}
        """Internal topics that could not be made: why, and until when that is remembered (monotonic)."""


class StreamsGroup(GroupWithEvents):
    """One group. `target_ms` is when the target was computed, in Unix time, 0 where that is not known.

    `active`, `standby` and `warmup` have the processes in whose hands a task is, by its role.
    """

    kind: Final = GroupKind.STREAMS
    protocol_type: Final = STREAMS_PROTOCOL_TYPE

    def __init__(self, group_id: str, partition: int = 0) -> None:
        self.group_id = group_id
        self.partition = partition
        self.value = _FIRST_VALUE
        self.topology: Topology | None = None
        self.target_epoch = FIRST_EPOCH  # there is nothing to assign to nobody
        self.target_ms = 0
        self.members: MutableMapping[str, StreamsMember] = {}
        self.most_members = 0
        """How many it had at once, ever."""
        self.static_members: MutableMapping[str, str] = {}  # group instance id -> member id
        self.targets: MutableMapping[str, Tasks] = {}
        self.active: MutableMapping[Task, str] = {}
        self.standby: MutableMapping[Task, frozenset[str]] = {}
        self.warmup: MutableMapping[Task, frozenset[str]] = {}
        self.memory = StreamsMemory()

    def draft(self) -> StreamsGroup:
        """The group as it is now, to be changed without changing this one. This one must not change meanwhile."""
        copy = StreamsGroup(self.group_id, self.partition)
        copy.value = self.value
        copy.topology = self.topology
        copy.target_epoch = self.target_epoch
        copy.target_ms = self.target_ms
        copy.members = Draft(self.members)
        copy.most_members = self.most_members
        copy.static_members = Draft(self.static_members)
        copy.targets = Draft(self.targets)
        copy.active = Draft(self.active)
        copy.standby = Draft(self.standby)
        copy.warmup = Draft(self.warmup)
        return copy

    # Questions

    @property
    def group_epoch(self) -> int:
        """Rises with everything that asks for another target."""
        return self.value.epoch

    @property
    def is_ready(self) -> bool:
        """Whether the topics of its topology were found as it needs them."""
        return self.topology is not None and self.topology.epoch == self.value.validated_topology_epoch

    @property
    def assignment_configs(self) -> dict[str, str]:
        """The settings with which the target is computed, as they were last."""
        return {entry.key: entry.value for entry in self.value.last_assignment_configs or ()}

    def require_member(self, member_id: str) -> StreamsMember:
        """The member. Raises KafkaError: UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def processes(self) -> Processes:
        """Which processes have a task in their hands."""
        return Processes(
            self.active.get,
            lambda task: self.standby.get(task, _NOBODY),
            lambda task: self.warmup.get(task, _NOBODY),
        )

    def member_ids(self) -> list[str]:
        """The ids of its members, in the order of Kafka's table of them."""
        return timeline_order(self.members, most=self.most_members)

    def target(self, member_id: str) -> Tasks:
        """What a member is to run."""
        return self.targets.get(member_id, NO_TASKS)

    # As a group of any kind: see `AnyGroup`

    @property
    def state(self) -> StreamsGroupState:
        """What follows from the epochs."""
        return state_of(
            is_ready=self.is_ready,
            group_epoch=self.group_epoch,
            target_epoch=self.target_epoch,
            members=(member.current.place for member in self.members.values()),
        )

    @property
    def epoch(self) -> int:
        """Its group epoch."""
        return self.value.epoch

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """Whether it may be deleted."""
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether its tasks read `topic`."""
        return bool(self.members) and self._subtopology_of(topic) is not None

    def _subtopology_of(self, topic: str) -> str | None:
        """The subtopology that reads a topic; of several the last in the order of Kafka's table of them."""
        subtopologies = () if self.topology is None else self.topology.subtopologies
        readers = {each.subtopology_id for each in subtopologies if topic in each.sources()}
        in_order = hash_map_order(each.subtopology_id for each in subtopologies)
        return next((subtopology_id for subtopology_id in reversed(in_order) if subtopology_id in readers), None)

    def offsets_expire_from_ms(self) -> int | None:
        """Offsets of topics that nobody reads expire at any time, counted from their commit."""
        return -1

    def require_may_commit(self, sender: Sender, places: Places) -> None:
        """A commit of an older epoch is taken when all its partitions are of tasks that have been the member's since.

        Raises KafkaError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH. Source: Kafka's
        StreamsGroup.validateOffsetCommit.
        """
        member_id, group_instance_id, epoch, api_version, is_transactional = sender
        if epoch < 0 and not self.members:
            return
        if is_transactional and epoch == -1 and not member_id and group_instance_id is None:
            return
        current = self.require_member(member_id).current
        if not is_transactional and api_version < _MEMBER_EPOCHS_SINCE:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if epoch == current.epoch:
            return
        if epoch > current.epoch or not all(self._is_held(current, place, epoch) for place in places()):
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    def _is_held(self, current: Current, place: Place, epoch: int) -> bool:
        """Whether the task that reads a partition has been the member's since this epoch, or before."""
        subtopology_id = self._subtopology_of(place.topic)
        since = None if subtopology_id is None else current.active_since((subtopology_id, place.partition))
        return since is not None and since <= epoch

    def require_may_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.

        UNKNOWN_SERVER_ERROR, as in Kafka, where an epoch comes without a member id.
        """
        if member_id is None:
            if member_epoch < 0:
                return
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if member_epoch != self.require_member(member_id).current.epoch:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    def has_committed(self, member_id: str, deadlines: Deadlines, now: Now) -> None:
        """Only heartbeats keep members alive."""

    def tombstones(self) -> list[Pair]:
        """The records that end the group, in Kafka's order."""
        members = list(self.members)
        ends: list[StreamsUpdate] = [MemberCurrent(member_id, None) for member_id in members]
        ends += [MemberTarget(member_id, None) for member_id in members]
        ends.append(TargetEpoch(None))
        ends += [MemberMetadata(member_id, None) for member_id in members]
        ends += [GroupEpoch(None), GroupTopology(None)]
        return [build_streams_update(self.group_id, update) for update in ends]

    def has_ended(self, trigger: Trigger, now: Now, step: Step) -> None:
        """Its tombstones are in the log."""
        report_end(self, StreamsGroupState.DEAD, trigger, now, step)

    def deadline_keys(self) -> Iterable[Key]:
        """The keys of all deadlines that it may have."""
        yield (INITIAL_DELAY, self.group_id)
        for member_id in self.members:
            for name in MEMBER_TIMERS:
                yield (name, self.group_id, member_id)

    # What records mean

    def apply(self, update: StreamsUpdate) -> None:
        """A record of the group, in the order of the log. A group that is gone is forgotten by its shard."""
        match update:
            case MemberCurrent(member_id, current):  # the most frequent first
                self._put_current(member_id, current)
            case GroupEpoch(value):
                if value is not None:
                    self.value = value
            case MemberMetadata(member_id, metadata):
                if metadata is None:
                    self._forget_member(member_id)
                else:
                    self._put_metadata(member_id, metadata)
            case MemberTarget(member_id, tasks):
                if tasks is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = tasks
            case TargetEpoch(value):
                self.target_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
                self.target_ms = 0 if value is None else value.assignment_timestamp
            case GroupTopology(topology):
                self.topology = topology

    def _put_metadata(self, member_id: str, metadata: StreamsGroupMemberMetadataValue) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._release(before)
            self._forget_instance(before)
        member = StreamsMember(member_id, metadata, Current() if before is None else before.current)
        self._put(member)
        if metadata.instance_id is not None:
            self.static_members[metadata.instance_id] = member_id

    def _put_current(self, member_id: str, current: Current | None) -> None:
        before = self.members.get(member_id)
        if before is None:
            if current is None:
                return
            # Compaction: what the member is was written again, so it stands behind what it runs.
            before = StreamsMember(member_id, NOTHING_SAID)
        self._release(before)
        self._put(before._replace(current=current or _LEFT))

    def _put(self, member: StreamsMember) -> None:
        self.members[member.member_id] = member
        self.most_members = max(self.most_members, len(self.members))
        for held in (member.current.assigned, member.current.pending_revocation):
            self._hold(held, member.metadata.process_id)

    def _forget_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        self._forget_instance(member)
        self.memory.task_offsets.pop(member_id, None)
        if not self.members:
            self.memory.shutdown_member_id = None

    def _forget_instance(self, member: StreamsMember) -> None:
        """The instance id is free, whoever has it: as in Kafka, where an old member goes before the new one comes."""
        if member.metadata.instance_id is not None:
            self.static_members.pop(member.metadata.instance_id, None)

    def _hold(self, held: HeldTasks, process_id: str) -> None:
        for task in held.active:
            self.active[task] = process_id
        for tasks, holders in ((held.standby, self.standby), (held.warmup, self.warmup)):
            for task in tasks:
                holders[task] = holders.get(task, _NOBODY) | {process_id}

    def _release(self, member: StreamsMember) -> None:
        process_id = member.metadata.process_id
        for held in (member.current.assigned, member.current.pending_revocation):
            for task in held.active:
                if self.active.get(task) == process_id:
                    del self.active[task]
            for tasks, holders in ((held.standby, self.standby), (held.warmup, self.warmup)):
                for task in tasks:
                    _remove(holders, task, process_id)


def _remove(holders: MutableMapping[Task, frozenset[str]], task: Task, process_id: str) -> None:
    left: Set[str] = holders.get(task, _NOBODY) - {process_id}
    if left:
        holders[task] = frozenset(left)
    else:
        holders.pop(task, None)
