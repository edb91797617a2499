"""What the history says of share groups: each epoch with its cause, and what each member reads."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from tests.coordinator.groups.share.world import INTERVAL_MS, SESSION_MS, World
from tests.history.told import check_end, check_rebalances, check_refused, only, told, types


def reading(*member_ids: str) -> World:
    """Members read the three partitions of topic t, and are at the target."""
    world = World()
    for member_id in member_ids:
        world.join(member_id, "t")
    settle(world, *member_ids)
    return world


def settle(world: World, *member_ids: str) -> None:
    """Heartbeats until each member is where its target is."""
    for _ in range(3):
        world.pass_ms(INTERVAL_MS)
        for member_id in member_ids:
            world.heartbeat(member_id, world.shard().share_group("g").members[member_id].current.epoch)


def steps(documents: list[dict[str, Any]]) -> list[tuple[str, int, list[str], list[str]]]:
    """Who took which epoch, with partitions that it reads no more, and that it reads from then on."""
    return [
        (event["trigger"]["member_id"], step["epoch"], step["revoked"], step["received"])
        for event in documents
        if event["type"] == "member_reconciled"
        for step in [event["reconciliation"]["step"]]
    ]


def test_a_first_member_reads_when_the_state_of_the_partitions_is_there() -> None:
    world = reading("a")
    documents = told(world)
    assert {(event["group_type"], event["state_to"]) for event in documents} == {("share", "Stable")}
    started = [event for event in documents if event["type"] == "rebalance_started"]
    assert [(event["reason"], event["to_generation"]) for event in started] == [
        ("member_joined", 2),
        ("state_initialized", 3),
    ]
    assert started[0]["trigger"]["member_id"] == "a"
    assert started[0]["subscription"]["topics"] == ["t"]
    assert steps(documents) == [("a", 3, [], ["t-0", "t-1", "t-2"])]
    ended = documents[-1]
    assert (ended["type"], ended["protocol"], ended["members"]["expected"]) == ("rebalance_completed", "simple", 1)


def test_a_rebalance_is_over_when_the_last_member_has_taken_the_epoch() -> None:
    world = reading("a")
    seen = len(told(world))
    world.join("b", "t")
    assert types(told(world, seen)) == ["member_joined", "rebalance_started", "target_computed", "member_reconciled"]
    world.pass_ms(2_000)
    world.heartbeat("a", 3)
    ended = told(world, seen)[-1]
    assert (ended["type"], ended["reason"], ended["total_ms"]) == ("rebalance_completed", "member_joined", 2_000)
    assert ended["ended_by"]["member_id"] == "a"
    assert ended["reconciliation"]["unowned"] == [], "a partition may have several readers"


def test_a_member_that_falls_silent_is_the_cause_of_an_epoch() -> None:
    world = reading("a", "b")
    seen = len(told(world))
    for _ in range(3):
        world.pass_ms(SESSION_MS // 3)
        world.heartbeat("b", world.shard().share_group("g").members["b"].current.epoch)
    documents = told(world, seen)
    left = only(documents, "member_left")
    assert (left["reason"], left["trigger"]["member_id"]) == ("session_timeout", "a")
    started = only(documents, "rebalance_started")
    assert (started["reason"], started["trigger"]["member_id"]) == ("session_timeout", "a")
    assert documents[-1]["type"] == "rebalance_completed"


def test_another_subscription_says_what_was_added() -> None:
    world = reading("a")
    seen = len(told(world))
    world.heartbeat("a", 3, ("t", "u"))
    started = only(told(world, seen), "rebalance_started")
    assert (started["reason"], started["subscription"]["added"]) == ("subscription_changed", ["u"])


def test_topics_that_get_partitions_are_a_cause() -> None:
    world = reading("a")
    seen = len(told(world))
    world.topics.topics["t"] = (5, 0)
    settle(world, "a")
    reasons = [event["reason"] for event in told(world, seen) if event["type"] == "rebalance_started"]
    assert reasons == ["topics_changed", "state_initialized"]
    assert steps(told(world, seen)) == [("a", 5, [], ["t-3", "t-4"])]


def test_a_heartbeat_with_an_epoch_that_is_not_the_members_is_refused() -> None:
    world = reading("a")
    world.heartbeat("a", 9)
    check_refused(told(world)[-1], "a")


def test_a_group_is_told_to_its_end() -> None:
    world = reading("a")
    world.heartbeat("a", -1)
    call = world.send(DeleteGroupsRequest(groups_names=("g",)), 2)
    world.make_state()
    assert call.reply.results[0].error_code == ErrorCode.NONE
    check_end(told(world))


def test_a_restart_says_that_the_group_was_loaded() -> None:
    world = reading("a", "b")
    seen = len(told(world))
    world.restart()
    loaded = only(told(world, seen), "coordinator_loaded")
    assert (loaded["group_type"], loaded["members"]["expected"]) == ("share", 2)


@pytest.mark.parametrize("seed", range(8))
def test_what_members_read_after_any_steps_is_what_they_are_assigned(seed: int) -> None:
    """Members join, subscribe, leave and fall silent in any order: the history's steps lead to what the group holds."""
    choice = random.Random(seed)
    world = World()
    world.join("a", "t")
    group = world.shard().share_group("g")
    for _ in range(120):
        there = sorted(group.members)
        match choice.choice(("join", "subscribe", "leave", "beat", "beat", "pass")):
            case "join":
                world.join(choice.choice("abcde"), *choice.choice((("t",), ("u",), ("t", "u"))))
            case "subscribe" if there:
                member_id = choice.choice(there)
                world.heartbeat(member_id, group.members[member_id].current.epoch, choice.choice((("t",), ("t", "u"))))
            case "leave" if there:
                world.heartbeat(choice.choice(there), -1)
            case "beat" if there:
                member_id = choice.choice(there)
                world.heartbeat(member_id, group.members[member_id].current.epoch)
            case _:
                world.pass_ms(choice.choice((1, INTERVAL_MS, 20_000)))
    documents = told(world)
    reads: dict[str, set[str]] = {}
    for event in documents:
        if event["type"] == "member_left":
            reads.pop(event["trigger"]["member_id"], None)
        if event["type"] == "member_reconciled":
            step = event["reconciliation"]["step"]
            mine = reads.setdefault(event["trigger"]["member_id"], set())
            mine.difference_update(step["revoked"])
            mine.update(step["received"])
    for member_id, member in group.members.items():
        assert reads.get(member_id, set()) == {
            f"{world.topics.topic_name(topic_id)}-{index}" for topic_id, index in member.current.assigned
        }
    check_rebalances(documents)
