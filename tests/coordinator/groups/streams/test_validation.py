"""What a heartbeat must say before its group is looked at, and which tasks and offsets it may name; sentences are Kafka's."""

from __future__ import annotations

from typing import Any

import pytest

from kshim.coordinator.groups.streams.configured_topology import ConfiguredTopology, TopologyStatus, configure
from kshim.coordinator.groups.streams.group import TaskOffsets
from kshim.coordinator.groups.streams.tasks import Tasks
from kshim.coordinator.groups.streams.topology import Subtopology, TopicInfo, Topology
from kshim.coordinator.groups.streams.validation import owned_tasks, require_known_tasks, require_valid, task_offsets
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds, TaskOffset

TOPOLOGY = Topology(0, (Subtopology("0", ("t",)),))
NO_LISTS = {"active_tasks": (), "standby_tasks": (), "warmup_tasks": ()}
JOINING: dict[str, Any] = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, **NO_LISTS}
ONE_TASK = (TaskIds(subtopology_id="0", partitions=(0,)),)


def heartbeat(**fields: Any) -> StreamsGroupHeartbeatRequest:
    """That of a member in epoch 1, unless told."""
    said = {"group_id": "g", "member_id": "a", "member_epoch": 1, "endpoint_information_epoch": -1}
    return StreamsGroupHeartbeatRequest(**{**said, **fields})


def refusal(request: StreamsGroupHeartbeatRequest, topology: Topology | None) -> tuple[ErrorCode, str | None]:
    with pytest.raises(KafkaError) as refused:
        require_valid(request, topology)
    return refused.value.code, refused.value.message


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize(
    ("field", "name"),
    [("member_id", "MemberId"), ("group_id", "GroupId"), ("instance_id", "InstanceId"), ("rack_id", "RackId")],
)
def test_names_are_not_blank(field: str, name: str, blank: str) -> None:
    sentence = f"{name} can't be empty."
    assert refusal(heartbeat(**{field: blank}), None) == (ErrorCode.INVALID_REQUEST, sentence)
    assert refusal(heartbeat(**{**JOINING, field: blank}), TOPOLOGY) == (ErrorCode.INVALID_REQUEST, sentence)


def test_of_several_blank_names_the_first_is_told() -> None:
    request = heartbeat(member_id="", group_id="", instance_id="", rack_id="")
    assert refusal(request, None)[1] == "MemberId can't be empty."


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        ({"active_tasks": ONE_TASK}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby_tasks": None}, "StandbyTasks must be empty when (re-)joining."),
        ({"standby_tasks": ONE_TASK}, "StandbyTasks must be empty when (re-)joining."),
        ({"warmup_tasks": None}, "WarmupTasks must be empty when (re-)joining."),
        ({"warmup_tasks": ONE_TASK}, "WarmupTasks must be empty when (re-)joining."),
    ],
)
def test_who_joins_says_how_long_it_takes_to_give_up_tasks_and_that_it_has_none(
    said: dict[str, Any], sentence: str
) -> None:
    assert refusal(heartbeat(**{**JOINING, **said}), TOPOLOGY) == (ErrorCode.INVALID_REQUEST, sentence)


def test_who_joins_brings_a_topology_and_nobody_else_does() -> None:
    require_valid(heartbeat(**JOINING), TOPOLOGY)
    assert refusal(heartbeat(**JOINING), None) == (
        ErrorCode.INVALID_REQUEST,
        "Topology must be non-null when (re-)joining.",
    )
    later = ErrorCode.INVALID_REQUEST, "Topology can only be provided when (re-)joining."
    for epoch in (1, -1):
        require_valid(heartbeat(member_epoch=epoch), None)
        assert refusal(heartbeat(member_epoch=epoch), TOPOLOGY) == later
    assert refusal(heartbeat(member_epoch=-2, instance_id="i"), TOPOLOGY) == later


def test_a_topology_has_no_expressions_and_no_number_of_partitions_for_changelogs() -> None:
    expressions = Topology(0, (Subtopology("0", source_topic_regex=("t.*",)),))
    refused = ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet."
    assert refusal(heartbeat(**{**JOINING, "member_id": ""}), expressions) == refused
    changelog = Topology(0, (Subtopology("0", ("t",), state_changelog_topics=(TopicInfo("store", 3),)),))
    assert refusal(heartbeat(**JOINING), changelog) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        "Changelog topic store must have an undefined partition count, but it is set to 3.",
    )


def test_only_static_members_leave_for_now() -> None:
    require_valid(heartbeat(member_epoch=-2, instance_id="i"), None)
    assert refusal(heartbeat(member_epoch=-2), None) == (ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")


@pytest.mark.parametrize("said", [{}, {"instance_id": "i"}])
def test_there_is_no_epoch_below_minus_two(said: dict[str, Any]) -> None:
    sentence = "MemberEpoch is -3, but must be greater than or equal to -2."
    assert refusal(heartbeat(member_epoch=-3, **said), None) == (ErrorCode.INVALID_REQUEST, sentence)


@pytest.mark.parametrize("role", list(NO_LISTS))
def test_who_says_what_it_runs_says_it_for_all_roles(role: str) -> None:
    sentence = "If one task-type is non-null, all must be non-null."
    assert refusal(heartbeat(**{role: ()}), None) == (ErrorCode.INVALID_REQUEST, sentence)
    assert refusal(heartbeat(**{**NO_LISTS, role: None}), None) == (ErrorCode.INVALID_REQUEST, sentence)
    require_valid(heartbeat(**NO_LISTS), None)


@pytest.mark.parametrize("role", list(NO_LISTS))
def test_who_leaves_out_a_role_has_not_said_what_it_runs(role: str) -> None:
    assert owned_tasks(heartbeat(**{**NO_LISTS, role: None})) is None
    assert owned_tasks(heartbeat()) is None
    assert owned_tasks(heartbeat(**NO_LISTS)) == Tasks()


def test_what_a_member_runs_is_told_by_role() -> None:
    request = heartbeat(
        active_tasks=(TaskIds(subtopology_id="0", partitions=(0, 2)), TaskIds(subtopology_id="1", partitions=(0,))),
        standby_tasks=(TaskIds(subtopology_id="1", partitions=(1,)),),
        warmup_tasks=(TaskIds(subtopology_id="1", partitions=(2,)),),
    )
    expected = Tasks(frozenset({("0", 0), ("0", 2), ("1", 0)}), frozenset({("1", 1)}), frozenset({("1", 2)}))
    assert owned_tasks(request) == expected


@pytest.mark.parametrize("role", list(NO_LISTS))
def test_tasks_are_those_of_the_topology(role: str) -> None:
    configured = configure(TOPOLOGY, {"t": 2})

    def refusal_of(subtopology_id: str, *partitions: int, topology: ConfiguredTopology = configured) -> str | None:
        entry = TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        with pytest.raises(KafkaError) as refused:
            require_known_tasks(heartbeat(**{role: (entry,)}), topology)
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        return refused.value.message

    require_known_tasks(heartbeat(), configured)
    require_known_tasks(heartbeat(**{role: (TaskIds(subtopology_id="0", partitions=(0, 1)),)}), configured)
    wrong = "Task {} for subtopology 0 is invalid. Number of tasks for this subtopology: 2"
    assert refusal_of("0", 0, 2) == wrong.format(2)
    assert refusal_of("0", -1) == wrong.format(-1)
    assert refusal_of("9") == "Subtopology 9 does not exist in the topology."
    unknown = ConfiguredTopology(0, None, (), TopologyStatus.MISSING_SOURCE_TOPICS)
    assert refusal_of("0", 0, topology=unknown) == "Subtopology 0 does not exist in the topology."


def offset(partition: int, value: int) -> TaskOffset:
    return TaskOffset(subtopology_id="0", partition=partition, offset=value)


def test_offsets_that_are_not_told_are_as_before() -> None:
    before = TaskOffsets({("0", 0): 5}, {("0", 0): 9})
    assert task_offsets(heartbeat(), before) == before
    assert task_offsets(heartbeat(task_offsets=(offset(1, 7),)), before) == ({("0", 1): 7}, {("0", 0): 9})
    assert task_offsets(heartbeat(task_end_offsets=(offset(1, 8),)), before) == ({("0", 0): 5}, {("0", 1): 8})
    assert task_offsets(heartbeat(task_offsets=(), task_end_offsets=()), before) == ({}, {})


@pytest.mark.parametrize("field", ["task_offsets", "task_end_offsets"])
def test_an_offset_is_told_once(field: str) -> None:
    with pytest.raises(KafkaError) as refused:
        task_offsets(heartbeat(**{field: (offset(0, 1), offset(1, 1), offset(0, 1))}), TaskOffsets())
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert refused.value.message == "Task offsets contain a duplicate entry for subtopology 0 and partition 0."
