"""DeleteGroups of share groups: what they made of records is forgotten before they are."""

from __future__ import annotations

from kshim.coordinator.groups.share.updates import (
    GroupEpoch,
    PartitionStates,
    StatePartitions,
    TargetEpoch,
)
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tests.coordinator.groups.share.world import INTERVAL_MS, World, places
from tests.coordinator.harness import Call, topic_id


def empty_groups(*group_ids: str) -> World:
    """Share groups that have read `t` and `u`, and have no members any more."""
    world = World()
    for group_id in group_ids:
        world.heartbeat("a", 0, ("t", "u"), group_id=group_id)
        world.heartbeat("a", -1, group_id=group_id)
    return world


def delete(world: World, *group_ids: str) -> Call[DeleteGroupsResponse]:
    return world.send(DeleteGroupsRequest(groups_names=group_ids), 2)


def results(call: Call[DeleteGroupsResponse]) -> dict[str, str]:
    return {result.group_id: ErrorCode(result.error_code).name for result in call.reply.results}


def test_a_deleted_share_group_is_told_in_kafkas_records() -> None:
    world = empty_groups("g")
    call = delete(world, "g")
    assert call.is_parked
    (asked,) = world.make_state()
    assert {(topic.topic_id, one.partition) for topic in asked.topics for one in topic.partitions} == (
        places("t", 0, 1, 2) | places("u", 0, 1)
    )
    assert results(call) == {"g": "NONE"}
    assert world.written()[-2:] == [
        [PartitionStates(StatePartitions({}, {}, {topic_id("t"): "t", topic_id("u"): "u"}))],
        [TargetEpoch(None), PartitionStates(None), GroupEpoch(None)],
    ]
    assert world.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_share_group_without_state_is_deleted_at_once() -> None:
    world = World()
    world.join("a", "nothing")
    world.heartbeat("a", -1)
    assert results(delete(world, "g")) == {"g": "NONE"}
    assert world.errands == []


def test_many_share_groups_are_answered_together_when_the_state_of_all_is_forgotten() -> None:
    world = empty_groups("g", "h")
    call = delete(world, "g", "nobody", "h")
    last = world.errands.pop()
    world.make_state()
    assert call.is_parked
    world.errands.append(last)
    world.make_state()
    assert results(call) == {"g": "NONE", "nobody": "GROUP_ID_NOT_FOUND", "h": "NONE"}
    assert world.described("h").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_somebody_joins_meanwhile_stays_and_begins_again() -> None:
    world = empty_groups("g")
    call = delete(world, "g")
    world.holds_state = True
    world.join("b", "t")
    world.make_state()
    assert results(call) == {"g": "NON_EMPTY_GROUP"}
    assert [member.member_id for member in world.described().members] == ["b"]
    world.pass_ms(INTERVAL_MS)
    assert world.beat("b", 4) == "5 t012"


def test_a_group_that_somebody_joins_meanwhile_does_not_keep_others_of_its_shard() -> None:
    world = World()
    home = world.coordinator.partition_for("g")
    other = next(name for name in map(str, range(1_000)) if world.coordinator.partition_for(name) == home)
    for group_id in ("g", other):
        world.heartbeat("a", 0, ("t",), group_id=group_id)
        world.heartbeat("a", -1, group_id=group_id)
    call = delete(world, "g", other)
    world.holds_state = True
    world.join("b", "t")
    world.make_state()
    assert results(call) == {"g": "NON_EMPTY_GROUP", other: "NONE"}
    assert world.described().group_state == "Stable"
    assert world.described(other).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_of_two_deletions_at_once_the_second_finds_no_group() -> None:
    world = empty_groups("g")
    first, second = delete(world, "g"), delete(world, "g")
    world.make_state()
    assert (results(first), results(second)) == ({"g": "NONE"}, {"g": "GROUP_ID_NOT_FOUND"})


def test_a_group_whose_state_could_not_be_forgotten_stays_and_is_deleted_by_the_next_attempt() -> None:
    world = empty_groups("g")
    call = delete(world, "g")
    world.make_state(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert results(call) == {"g": "COORDINATOR_NOT_AVAILABLE"}
    assert world.described().group_state == "Empty"
    again = delete(world, "g")
    (asked,) = world.make_state()
    assert {(topic.topic_id, one.partition) for topic in asked.topics for one in topic.partitions} == (
        places("t", 0, 1, 2) | places("u", 0, 1)
    )
    assert results(again) == {"g": "NONE"}
