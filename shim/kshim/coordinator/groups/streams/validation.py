"""What a StreamsGroupHeartbeat must say before its group is looked at; the sentences are Kafka's.

Source: Kafka's GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid and
throwIfStreamsGroupHeartbeatRequestIsUsingUnsupportedFeatures, GroupMetadataManager.throwIfRequestContainsInvalidTasks.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshim.coordinator.groups.streams.configured_topology import ConfiguredTopology
from kshim.coordinator.groups.streams.group import JOIN_EPOCH, LEFT_FOR_NOW_EPOCH, TaskOffsets
from kshim.coordinator.groups.streams.task_assignor import Task
from kshim.coordinator.groups.streams.tasks import Tasks
from kshim.coordinator.groups.streams.topology import Topology, require_no_expressions
from kshim.coordinator.groups.streams.topology import require_valid as require_valid_topology
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds, TaskOffset

_UNCHANGED = -1


def require_valid(request: StreamsGroupHeartbeatRequest, topology: Topology | None) -> None:
    """`topology` is that of the request. Raises KafkaError: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY."""
    if topology is not None:
        require_no_expressions(topology)
    _require_text(request.member_id, "MemberId")
    _require_text(request.group_id, "GroupId")
    _require_text(request.instance_id, "InstanceId")
    _require_text(request.rack_id, "RackId")
    epoch, tasks = request.member_epoch, (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == _UNCHANGED:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        for name, each in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), tasks, strict=True):
            if each is None or each:
                raise _invalid(f"{name} must be empty when (re-)joining.")
        if topology is None:
            raise _invalid("Topology must be non-null when (re-)joining.")
        require_valid_topology(topology)
    elif epoch == LEFT_FOR_NOW_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEFT_FOR_NOW_EPOCH:
        raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if any(each is not None for each in tasks) and any(each is None for each in tasks):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if epoch != JOIN_EPOCH and topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """What the member says it runs; None: it does not say."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(*map(_tasks, (request.active_tasks, request.standby_tasks, request.warmup_tasks)))


def _tasks(entries: Iterable[TaskIds]) -> frozenset[Task]:
    return frozenset((entry.subtopology_id, index) for entry in entries for index in entry.partitions)


def require_known_tasks(request: StreamsGroupHeartbeatRequest, configured: ConfiguredTopology) -> None:
    """Raises KafkaError INVALID_REQUEST, when the member says it runs a task that the topology has not."""
    counts = {name: each.task_count for name, each in (configured.subtopologies or {}).items()}
    for entries in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for entry in entries or ():
            count = counts.get(entry.subtopology_id)
            if count is None:
                raise _invalid(f"Subtopology {entry.subtopology_id} does not exist in the topology.")
            for index in entry.partitions:
                if not 0 <= index < count:
                    raise _invalid(
                        f"Task {index} for subtopology {entry.subtopology_id} is invalid. "
                        f"Number of tasks for this subtopology: {count}"
                    )


def task_offsets(request: StreamsGroupHeartbeatRequest, before: TaskOffsets) -> TaskOffsets:
    """How far the member's tasks are: what it does not say is as `before`. Raises KafkaError: INVALID_REQUEST."""
    return TaskOffsets(
        before.offsets if request.task_offsets is None else _offsets(request.task_offsets),
        before.end_offsets if request.task_end_offsets is None else _offsets(request.task_end_offsets),
    )


def _offsets(entries: Iterable[TaskOffset]) -> dict[Task, int]:
    found: dict[Task, int] = {}
    for entry in entries:
        task = entry.subtopology_id, entry.partition
        if task in found:
            raise _invalid(
                f"Task offsets contain a duplicate entry for subtopology {entry.subtopology_id} and partition "
                f"{entry.partition}."
            )
        found[task] = entry.offset
    return found


def _require_text(text: str | None, name: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)
