"""What records mean to a streams group, in whatever order compaction has left them."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.streams.group import NOTHING_SAID, StreamsGroup, TaskOffsets
from kshim.coordinator.groups.streams.reconciliation import Current
from kshim.coordinator.groups.streams.state import MemberState, StreamsGroupState
from kshim.coordinator.groups.streams.tasks import NO_TASKS, HeldTasks, Tasks
from kshim.coordinator.groups.streams.topology import Subtopology, Topology
from kshim.coordinator.groups.streams.updates import (
    GroupEpoch,
    GroupTopology,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    StreamsUpdate,
    TargetEpoch,
    parse_streams_update,
)
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.streams_group import (
    LastAssignmentConfig,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataValue,
)
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from tests.coordinator.groups.streams.world import World, pairs

A, B, C = ("0", 0), ("0", 1), ("0", 2)


def at_once() -> World:
    """A target is computed whenever it can be."""
    return World(initial_rebalance_delay_ms=0, assignment_interval_ms=0)


def group_of(*updates: StreamsUpdate) -> StreamsGroup:
    """A group as these records say it is."""
    group = StreamsGroup("g", 7)
    for update in updates:
        group.apply(update)
    return group


def says(process_id: str = "p", *, instance_id: str | None = None) -> StreamsGroupMemberMetadataValue:
    """A member of a process."""
    return StreamsGroupMemberMetadataValue(
        instance_id=instance_id,
        rack_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=1_000,
        topology_epoch=0,
        process_id=process_id,
        user_endpoint=None,
        client_tags=(),
    )


def runs(*active: tuple[str, int], standby: tuple[str, int] | None = None, **more: HeldTasks) -> Current:
    """A member in epoch 3."""
    standbys = frozenset() if standby is None else frozenset({standby})
    return Current(3, 2, MemberState.STABLE, HeldTasks(dict.fromkeys(active, 3), standbys), **more)


# Before anything is known


def test_a_group_that_nobody_has_joined_is_empty_in_epoch_1_with_the_hash_of_no_topics() -> None:
    group = StreamsGroup("g", 7)
    assert (group.group_epoch, group.epoch, group.target_epoch, group.target_ms) == (1, 1, 1, 0)
    assert group.value == StreamsGroupMetadataValue(epoch=1, metadata_hash=0)
    assert group.value.validated_topology_epoch == -1
    assert (group.state, group.is_empty, group.member_count) == (StreamsGroupState.EMPTY, True, 0)
    assert group.assignment_configs == {}
    assert group.member_ids() == []
    assert not group.is_subscribed_to("t")
    assert group.partition == 7
    assert group.offsets_expire_from_ms() == -1


def test_what_a_member_is_may_come_after_what_it_runs() -> None:
    group = group_of(MemberCurrent("a", runs(A)))
    member = group.require_member("a")
    assert member.current == runs(A)
    metadata = member.metadata
    assert (metadata.rebalance_timeout_ms, metadata.topology_epoch, metadata.process_id) == (-1, -1, "")
    assert metadata == NOTHING_SAID
    group.apply(MemberMetadata("a", says("p", instance_id="i")))
    assert group.members["a"] == ("a", says("p", instance_id="i"), runs(A))
    assert group.static_members == {"i": "a"}
    assert group.active == {A: "p"}


def test_a_member_that_is_only_described_is_in_epoch_0_and_runs_nothing() -> None:
    group = group_of(MemberMetadata("a", says()))
    assert group.members["a"].current == Current(0, 0, MemberState.STABLE)
    assert group.static_members == {}
    assert group.active == {}
    assert group.target("a") == NO_TASKS


@pytest.mark.parametrize("update", [MemberCurrent("b", None), MemberTarget("b", None), MemberMetadata("b", None)])
def test_tombstones_of_a_member_that_is_not_known_change_nothing(update: StreamsUpdate) -> None:
    group = group_of(MemberMetadata("a", says("p", instance_id="i")), MemberCurrent("a", runs(A)))
    group.apply(MemberTarget("a", Tasks(frozenset({A}))))
    group.apply(update)
    assert list(group.members) == ["a"]
    assert group.member_count == 1
    assert group.static_members == {"i": "a"}
    assert group.active == {A: "p"}
    assert group.targets == {"a": Tasks(frozenset({A}))}


def test_who_is_no_member_is_named_with_its_group() -> None:
    with pytest.raises(KafkaError) as refused:
        group_of(MemberMetadata("a", says())).require_member("b")
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.value.message == "Member b is not a member of group g."


# The group itself


@pytest.mark.parametrize(
    ("epoch", "validated", "is_ready"),
    [(None, -1, False), (None, 0, False), (0, -1, False), (0, 0, True), (1, 0, False), (0, 1, False), (2, 2, True)],
)
def test_a_group_is_ready_when_its_topology_is_the_one_that_was_validated(
    epoch: int | None, validated: int, is_ready: bool
) -> None:
    value = StreamsGroupMetadataValue(epoch=1, metadata_hash=0, validated_topology_epoch=validated)
    group = group_of(GroupEpoch(value), MemberMetadata("a", says()), MemberCurrent("a", Current(1)))
    if epoch is not None:
        group.apply(GroupTopology(Topology(epoch, ())))
    assert group.is_ready is is_ready
    assert group.state is (StreamsGroupState.STABLE if is_ready else StreamsGroupState.NOT_READY)


def test_tombstones_of_target_and_topology_take_a_group_back_to_where_it_began() -> None:
    target = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=1_000)
    group = group_of(TargetEpoch(target), GroupTopology(Topology(0, ())))
    assert (group.target_epoch, group.target_ms, group.topology) == (4, 1_000, Topology(0, ()))
    group.apply(TargetEpoch(None))
    group.apply(GroupTopology(None))
    assert (group.target_epoch, group.target_ms, group.topology) == (1, 0, None)


def test_the_tombstone_of_its_epoch_leaves_a_group_to_its_shard() -> None:
    value = StreamsGroupMetadataValue(epoch=5, metadata_hash=9)
    group = group_of(GroupEpoch(value), GroupEpoch(None))
    assert group.value == value


def test_settings_of_the_last_target_are_remembered() -> None:
    configs = (LastAssignmentConfig(key="num.standby.replicas", value="1"),)
    value = StreamsGroupMetadataValue(epoch=5, metadata_hash=9, last_assignment_configs=configs)
    assert group_of(GroupEpoch(value)).assignment_configs == {"num.standby.replicas": "1"}


def test_a_group_reads_the_topics_of_its_topology_as_long_as_it_has_members() -> None:
    group = group_of(GroupTopology(Topology(0, (Subtopology("0", source_topics=("t",)),))))
    assert not group.is_subscribed_to("t")
    group.apply(MemberMetadata("a", says()))
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")


def test_a_group_ends_in_kafkas_order() -> None:
    group = group_of(MemberMetadata("a", says()), MemberMetadata("b", says()))
    found = [parse_streams_update(key, value) for key, value in group.tombstones()]
    assert found == [
        ("g", update)
        for update in (
            MemberCurrent("a", None),
            MemberCurrent("b", None),
            MemberTarget("a", None),
            MemberTarget("b", None),
            TargetEpoch(None),
            MemberMetadata("a", None),
            MemberMetadata("b", None),
            GroupEpoch(None),
            GroupTopology(None),
        )
    ]


def test_a_group_has_timers_of_its_own_and_of_each_member() -> None:
    group = group_of(MemberMetadata("a", says()))
    assert list(group.deadline_keys()) == [("initial-delay", "g"), ("session", "g", "a"), ("rebalance", "g", "a")]


# Instances


def test_an_instance_is_the_members_that_said_it_last() -> None:
    group = group_of(MemberMetadata("a", says(instance_id="i")))
    group.apply(MemberMetadata("a", says(instance_id="j")))
    assert group.static_members == {"j": "a"}
    group.apply(MemberMetadata("a", says()))
    assert group.static_members == {}
    group.apply(MemberMetadata("a", says(instance_id="i")))
    group.apply(MemberMetadata("a", None))
    assert group.static_members == {}
    group.apply(MemberMetadata("b", says(instance_id="i")))
    assert group.static_members == {"i": "b"}


def test_a_static_member_is_back_under_a_new_id() -> None:
    world = at_once()
    assert world.join("a", instance_id="i", process_id="p") == "2 0:0123"
    assert world.leave("a", -2, instance_id="i") == "-2 -"
    assert world.streams_group.members["a"].current.epoch == -2
    assert world.described().group_state == "Reconciling"
    assert world.join("b", instance_id="i", process_id="p") == "2 0:0123"
    assert list(world.streams_group.members) == ["b"]
    assert world.streams_group.static_members == {"i": "b"}
    refused = world.beat("a", instance_id="i")
    assert refused == "FENCED_INSTANCE_ID Static member a with instance id i was fenced by member b."


# Tasks in the hands of processes


def holders(group: StreamsGroup) -> tuple[object, ...]:
    """Which processes have which tasks, by role."""
    processes = group.processes()
    return tuple(
        {task: held for task in (A, B, C) if (held := find(task))}
        for find in (processes.active, processes.standby, processes.warmup)
    )


def test_a_task_is_in_the_hands_of_a_process_until_a_record_says_otherwise() -> None:
    group = group_of(MemberMetadata("a", says("p")))
    held = HeldTasks({A: 3}, frozenset({B}), frozenset({C}))
    group.apply(MemberCurrent("a", Current(3, 2, MemberState.STABLE, held)))
    assert holders(group) == ({A: "p"}, {B: {"p"}}, {C: {"p"}})
    group.apply(MemberCurrent("a", Current(3, 3, MemberState.UNREVOKED_TASKS, pending_revocation=held)))
    assert holders(group) == ({A: "p"}, {B: {"p"}}, {C: {"p"}})  # it was told to give them up, and may run them still
    group.apply(MemberMetadata("a", says("q")))
    assert holders(group) == ({A: "q"}, {B: {"q"}}, {C: {"q"}})
    group.apply(MemberCurrent("a", Current(4, 3)))
    assert holders(group) == ({}, {}, {})
    assert (group.active, group.standby, group.warmup) == ({}, {}, {})


@pytest.mark.parametrize("is_pending", [False, True])
def test_a_member_that_is_gone_has_nothing_in_its_hands(is_pending: bool) -> None:
    held = HeldTasks({A: 3}, frozenset({B}), frozenset({C}))
    current = Current(3, 2, pending_revocation=held) if is_pending else Current(3, 2, assigned=held)
    for end in (MemberMetadata("a", None), MemberCurrent("a", None)):
        group = group_of(MemberMetadata("a", says("p")), MemberCurrent("a", current), end)
        assert holders(group) == ({}, {}, {})
    assert group.members["a"].current == Current(-1, -1)  # the tombstone that says that it is gone comes behind


def test_a_standby_is_in_as_many_hands_as_have_it() -> None:
    group = group_of(MemberMetadata("a", says("p")), MemberMetadata("b", says("q")))
    for member_id in ("a", "b"):
        held = HeldTasks({}, frozenset({A}), frozenset({B}))
        group.apply(MemberCurrent(member_id, Current(3, 2, assigned=held)))
    assert holders(group) == ({}, {A: {"p", "q"}}, {B: {"p", "q"}})
    group.apply(MemberCurrent("a", runs()))
    assert holders(group) == ({}, {A: {"q"}}, {B: {"q"}})


def test_an_active_task_that_another_process_has_got_is_not_taken_from_it() -> None:
    group = group_of(MemberMetadata("a", says("p")), MemberMetadata("b", says("q")))
    group.apply(MemberCurrent("a", runs(A)))
    group.apply(MemberCurrent("b", runs(A)))  # the record in which a gives it up was compacted away
    group.apply(MemberCurrent("a", runs()))
    assert holders(group)[0] == {A: "q"}


def test_a_draft_changes_without_its_group() -> None:
    group = group_of(
        GroupEpoch(StreamsGroupMetadataValue(epoch=5, metadata_hash=9)),
        GroupTopology(Topology(0, ())),
        TargetEpoch(StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=1_000)),
        MemberMetadata("a", says("p", instance_id="i")),
        MemberMetadata("b", says("q")),
        MemberMetadata("b", None),
        MemberTarget("a", Tasks(frozenset({A}))),
        MemberCurrent("a", runs(A, standby=B, pending_revocation=HeldTasks({}, frozenset(), frozenset({C})))),
    )
    draft = group.draft()

    def facts(of: StreamsGroup) -> list[object]:
        return [
            (of.group_id, of.partition, of.value, of.topology, of.target_epoch, of.target_ms, of.most_members),
            *(dict(each) for each in (of.members, of.static_members, of.targets, of.active, of.standby, of.warmup)),
        ]

    before = facts(group)
    assert facts(draft) == before
    assert draft.most_members == 2
    draft.apply(MemberMetadata("c", says("r", instance_id="k")))
    draft.apply(MemberCurrent("c", runs(C)))
    draft.apply(MemberTarget("c", Tasks(frozenset({C}))))
    draft.apply(MemberMetadata("a", None))
    assert list(draft.members) == ["c"]
    assert facts(group) == before


# What no record says


def test_the_wish_that_the_application_stops_is_forgotten_with_the_last_member() -> None:
    world = at_once()
    world.join("a")
    world.join("b")
    assert world.beat("a", shutdown_application=True).endswith("!4")
    world.leave("a")
    assert world.streams_group.memory.shutdown_member_id == "a"
    assert world.beat("b").endswith("!4")
    world.leave("b")
    assert world.streams_group.memory.shutdown_member_id is None
    assert "!4" not in world.join("c")


def test_how_far_a_member_has_restored_its_tasks_is_forgotten_with_it() -> None:
    group = group_of(MemberMetadata("a", says()), MemberMetadata("b", says()))
    for member_id in ("a", "b"):
        group.memory.task_offsets[member_id] = TaskOffsets({A: 5})
    group.apply(MemberMetadata("a", None))
    assert group.memory.task_offsets == {"b": TaskOffsets({A: 5})}


def test_the_order_of_members_depends_on_how_many_there_were_at_once() -> None:
    names = [f"m{number}" for number in range(6)]
    small, large = (group_of(*(MemberMetadata(name, says()) for name in names[:count])) for count in (2, 6))
    for name in names[2:]:
        large.apply(MemberMetadata(name, None))
    assert (small.most_members, large.most_members) == (2, 6)
    assert sorted(large.member_ids()) == sorted(small.member_ids()) == names[:2]


def test_a_group_that_ended_begins_anew() -> None:
    world = at_once()
    world.join("a")
    world.leave("a")
    assert world.ask(DeleteGroupsRequest(groups_names=("g",)), 2).results[0].error_code == ErrorCode.NONE
    assert world.shard().groups == {}
    last = [parse_streams_update(key, value) for key, value in pairs(world)][-3:]
    assert last == [("g", TargetEpoch(None)), ("g", GroupEpoch(None)), ("g", GroupTopology(None))]
    world.restart()
    assert world.shard().groups == {}
    assert world.join("b") == "2 0:0123"
