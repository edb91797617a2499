"""StreamsGroupHeartbeat where time passes, writes fail and coordinators start again.

What a live Kafka answers, step by step, is in `tests/broker/test_streams_groups_like_kafka.py`.
"""

from __future__ import annotations

import random

import pytest

from kshim.coordinator.groups.streams.group import StreamsGroup
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.streams_group_heartbeat import TaskOffset
from tests.coordinator.groups.streams.world import DELAY_MS, INTERVAL_MS, SESSION_MS, World, stateful, stateless


def at_once() -> World:
    """A target is computed whenever it can be."""
    return World(initial_rebalance_delay_ms=0, assignment_interval_ms=0)


def test_members_that_start_together_share_the_tasks_from_the_start() -> None:
    world = World()
    assert world.join("a") == "1 nothing !5"
    world.pass_ms(DELAY_MS - 1)
    assert world.join("b") == "1 nothing !5"
    world.pass_ms(1)
    assert world.beat("a") == "3 0:13"
    assert world.beat("b") == "3 0:02"


def test_the_delay_is_not_begun_again_when_the_group_becomes_empty_meanwhile() -> None:
    world = World()
    world.join("a")
    world.pass_ms(DELAY_MS - 1)
    world.leave("a")
    assert world.join("b") == "3 nothing !5"
    world.pass_ms(1)
    assert world.beat("b") == "4 0:0123"


def test_a_restart_within_the_delay_ends_it() -> None:
    world = World()
    world.join("a")
    world.restart()
    assert world.beat("a") == "2 0:0123"


def test_later_targets_wait_for_the_interval() -> None:
    world = World(initial_rebalance_delay_ms=0)
    assert world.join("a") == "2 0:0123"
    assert world.join("b") == "2 nothing !5"
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a") == "2 0:01"
    assert world.report("a") == "3 -"
    assert world.beat("b") == "3 0:23"


def test_who_is_not_heard_of_is_removed_and_its_tasks_go_to_others() -> None:
    world = at_once()
    world.join("a")
    world.join("b")
    world.report("a")
    world.report("a")
    assert world.report("b") == "3 0:23"
    world.pass_ms(SESSION_MS - 1)
    world.report("a")
    world.pass_ms(1)
    assert world.report("a") == "4 0:0123"
    assert world.beat("b") == "UNKNOWN_MEMBER_ID Member b is not a member of group g."


def test_a_session_is_whole_again_after_a_restart() -> None:
    world = at_once()
    world.join("a")
    world.pass_ms(SESSION_MS - 1)
    world.restart()
    world.pass_ms(SESSION_MS - 1)
    assert world.beat("a") == "2 -"


def test_who_has_to_give_up_tasks_has_the_rebalance_timeout_again_after_a_restart() -> None:
    world = at_once()
    world.join("a", rebalance_timeout_ms=1_000)
    world.join("b")
    assert world.beat("a") == "2 0:01"
    world.pass_ms(999)
    world.restart()
    world.pass_ms(999)
    assert world.report("b") == "3 -"
    world.pass_ms(1)
    assert world.report("b") == "4 0:0123"


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE])
def test_what_could_not_be_written_has_not_happened(error: ErrorCode) -> None:
    world = at_once()
    world.fail_appends(error)
    assert world.join("a").split()[0] != "2"
    assert world.shard().groups == {}
    assert world.join("a") == "2 0:0123"
    world.fail_appends(error)
    world.join("b")
    assert list(world.streams_group.members) == ["a"]
    world.fail_appends(error)
    world.leave("a")
    assert list(world.streams_group.members) == ["a"]
    assert world.join("b") == "3 nothing"


def test_a_session_that_ends_while_nothing_can_be_written_ends_a_little_later() -> None:
    world = at_once()
    world.join("a")
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    world.pass_ms(SESSION_MS)
    assert list(world.streams_group.members) == ["a"]
    world.pass_ms(500)
    assert world.streams_group.is_empty


def test_a_delay_that_ends_while_nothing_can_be_written_ends_a_little_later() -> None:
    world = World()
    world.join("a")
    world.beat("a")
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    world.pass_ms(DELAY_MS)
    world.pass_ms(500)
    assert world.streams_group.target_epoch == 2


def test_topics_that_could_not_be_made_are_tried_again_after_two_heartbeats() -> None:
    world = World(topology=stateful("t"), initial_rebalance_delay_ms=0, assignment_interval_ms=0)
    world.refused_topics = {"store": "no room"}
    world.join("a")
    call = world.heartbeat("a", 2)
    assert [status.status_detail for status in call.reply.status or ()] == [
        "Internal topics are missing: store; Creation failed: store (no room)."
    ]
    assert len(world.wanted) == 1
    world.refused_topics = {}
    world.pass_ms(9_999)
    assert world.beat("a") == "2 - !3"
    world.pass_ms(1)
    assert world.beat("a") == "2 - !3"
    assert len(world.wanted) == 2
    assert world.beat("a") == "3 0:0123"


def test_a_refused_join_of_a_classic_member_leaves_an_empty_group_alone() -> None:
    world = at_once()
    world.join("a")
    world.leave("a")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id="unknown",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    assert world.ask(request, 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.described().group_epoch == 3


def test_the_second_heartbeat_decides_the_partitions_of_internal_topics() -> None:
    world = World({"t": 4, "store": 4}, topology=stateful("t"), initial_rebalance_delay_ms=0)

    def partitions() -> int:
        topology = world.described().topology
        assert topology is not None
        return (topology.subtopologies or ())[0].state_changelog_topics[0].partitions

    world.join("a")
    assert partitions() == 0
    world.beat("a")
    assert partitions() == 4


def held(group: StreamsGroup) -> dict[tuple[str, int], list[str]]:
    """The members in whose hands each active task is."""
    found: dict[tuple[str, int], list[str]] = {}
    for member in group.members.values():
        for task in (*member.current.assigned.active, *member.current.pending_revocation.active):
            found.setdefault(task, []).append(member.member_id)
    return found


def contents(group: StreamsGroup) -> list[object]:
    """All that records say of a group."""
    return [
        group.value,
        group.topology,
        group.target_epoch,
        group.target_ms,
        dict(group.members),
        dict(group.static_members),
        dict(group.targets),
        dict(group.active),
        dict(group.standby),
    ]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_members_do_no_task_runs_twice_and_a_restart_changes_nothing(seed: int) -> None:
    chance = random.Random(seed)
    world = World(
        {"t": 5, "store": 5},
        topology=stateful("t"),
        initial_rebalance_delay_ms=chance.choice((0, DELAY_MS)),
        standby_replicas=chance.choice((0, 1, 2)),
    )
    names = [f"m{number}" for number in range(5)]
    instances = {name: f"i{name}" for name in names[:2]}
    for _ in range(150):
        member = chance.choice(names)
        instance = {"instance_id": instances[member]} if member in instances else {}
        what = chance.random()
        if member not in world.epochs or what < 0.1:
            world.join(member, process_id=f"p{names.index(member) % 3}", **instance)
        elif what < 0.15:
            world.leave(member, -2 if instance and chance.random() < 0.5 else -1, **instance)
        elif what < 0.3:
            world.beat(member)
        elif what < 0.32:
            world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
            world.report(member)
            world.append_errors.clear()
        else:
            world.report(member)
        world.pass_ms(chance.choice((0, 100, 1_000, 20_000)))
        group = world.shard().groups.get("g")
        if not isinstance(group, StreamsGroup):
            continue
        assert all(len(members) == 1 for members in held(group).values()), held(group)
        if chance.random() < 0.2:
            before = contents(group)
            world.restart()
            assert contents(world.streams_group) == before


def test_stateless_subtopologies_get_no_standby_tasks() -> None:
    world = World(
        topology=stateless("t", "u"), initial_rebalance_delay_ms=0, assignment_interval_ms=0, standby_replicas=2
    )
    world.join("a")
    assert world.join("b") == "3 nothing"
    assert not any(target.standby for target in world.streams_group.targets.values())


def test_the_table_of_members_has_not_grown_yet_for_a_member_whose_joining_makes_a_target() -> None:
    # Two ids that are in one slot of a hash map: which one comes first follows from the table of members.
    first, second = "dee0d639920815d00847720d", "7ec92bd3b9acb65c2044d6ad"
    world = World({"t": 1}, topology=stateless("t"), initial_rebalance_delay_ms=0, assignment_interval_ms=0)
    for member_id in ("a", second, "b", first):
        world.join(member_id)
    for member_id in (first, second):
        world.beat(member_id, task_offsets=(TaskOffset(subtopology_id="0", partition=1, offset=5),))
    world.topics.topics["t"] = 2, 0
    world.join("c")
    assert world.streams_group.target(first).active == {("0", 1)}
