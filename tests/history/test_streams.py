"""What the history says of streams groups: each epoch a rebalance, with the tasks that went from one member to another."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from tests.coordinator.groups.streams.world import DELAY_MS, SESSION_MS, World, stateful, stateless
from tests.history.told import check_end, check_rebalances, check_refused, only, told, types

Step = dict[str, Any]


def at_once(**options: Any) -> World:
    """A target is computed whenever it can be."""
    return World(initial_rebalance_delay_ms=0, assignment_interval_ms=0, **options)


def shared(world: World, *, revoke_ms: int = 0) -> None:
    """Members a and b share four tasks; a takes its time to give two up, and b to ask for them 20 ms."""
    world.join("a")
    world.join("b")
    world.beat("a")
    world.pass_ms(revoke_ms)
    world.report("a")
    world.pass_ms(20)
    world.beat("b")


def steps(documents: list[dict[str, Any]], member_id: str) -> list[Step]:
    """What a member did, without what is empty."""
    return [
        {name: value for name, value in event["reconciliation"]["step"].items() if value}
        for event in documents
        if event["type"] == "member_reconciled" and event["trigger"]["member_id"] == member_id
    ]


def test_a_first_member_is_one_rebalance_within_its_join() -> None:
    world = at_once()
    world.join("a")
    documents = told(world)
    assert types(documents) == [
        "member_joined",
        "rebalance_started",
        "target_computed",
        "member_reconciled",
        "rebalance_completed",
    ]
    assert {(document["group_type"], document["protocol_type"]) for document in documents[1:]} == {
        ("streams", "streams")
    }
    started, ended = documents[1], documents[-1]
    assert (started["reason"], started["trigger"]["member_id"]) == ("member_joined", "a")
    assert (started["from_generation"], started["to_generation"], started["protocol"]) == (1, 2, None)
    assert [document["state_from"] for document in documents[1:]] == ["Empty", "Assigning", "Stable", "Reconciling"]
    assert (ended["state_to"], ended["outcome"], ended["protocol"]) == ("Stable", "completed", "sticky")
    assert steps(documents, "a") == [{"state": "Stable", "epoch": 2, "received": ["0_0", "0_1", "0_2", "0_3"]}]


def test_a_task_that_changes_hands_says_how_long_nobody_ran_it() -> None:
    world = at_once()
    shared(world, revoke_ms=300)
    documents = told(world)
    ended = documents[-1]
    assert (ended["type"], ended["trigger"]["member_id"], ended["total_ms"]) == ("rebalance_completed", "b", 320)
    found = ended["reconciliation"]
    assert (found["compute_ms"], found["revoke_ms"], found["assign_ms"]) == (0, 300, 20)
    assert [(each["member_id"], each["is_new"], each["lost"], each["gained"]) for each in found["members"]] == [
        ("a", False, 2, 0),
        ("b", True, 0, 2),
    ]
    assert (found["last_to_revoke"]["member_id"], found["last_to_revoke"]["wait_ms"]) == ("a", 300)
    moved = {f"{gap['topic']}_{gap['partition']}": gap for gap in found["unowned"]}
    given_up = set(steps(documents, "a")[1]["to_revoke"])
    assert len(given_up) == 2
    assert moved.keys() == given_up
    assert {
        (gap["unowned_ms"], gap["from_member_id"], gap["to_member_id"], gap["had_state"]) for gap in moved.values()
    } == {(20, "a", "b", False)}
    assert steps(documents, "b")[-1] == {"state": "Stable", "epoch": 3, "received": sorted(given_up)}


def test_a_member_that_had_the_state_of_a_task_is_told_from_one_that_has_to_restore_it() -> None:
    world = at_once(topology=stateful("t"), standby_replicas=1)
    world.join("a")
    world.join("b")
    for _ in range(4):
        world.report("a")
        world.report("b")
    documents = told(world)
    ran_by_a, kept_by_b = world.owned["a"]["active"], world.owned["b"]["standby"]
    assert ran_by_a == kept_by_b, "each keeps what the other one runs"
    standby = [name for step in steps(documents, "b") for name in step.get("standby_received", ())]
    assert sorted(standby) == [f"0_{index}" for index in kept_by_b[0].partitions]
    seen = len(documents)
    world.leave("a")
    world.report("b")
    ended = told(world, seen)[-1]
    assert (ended["type"], ended["reason"]) == ("rebalance_completed", "member_left")
    assert {(gap["from_member_id"], gap["had_state"]) for gap in ended["reconciliation"]["unowned"]} == {("a", True)}
    assert steps(told(world, seen), "b")[-1]["promoted"] == sorted(standby)


def test_the_delay_of_a_group_that_was_empty_is_the_time_to_its_target() -> None:
    world = World()
    world.join("a")
    world.pass_ms(DELAY_MS)
    world.beat("a")
    ended = told(world)[-1]
    assert (ended["type"], ended["reconciliation"]["compute_ms"]) == ("rebalance_completed", DELAY_MS)


def test_who_falls_silent_keeps_its_tasks_until_its_session_is_over() -> None:
    world = at_once()
    shared(world)
    for _ in range(3):
        world.pass_ms(SESSION_MS // 3)
        world.beat("b")
    documents = told(world)
    left = only(documents, "member_left")
    assert (left["reason"], left["trigger"]["member_id"]) == ("session_timeout", "a")
    ended = documents[-1]
    assert (ended["type"], ended["reason"]) == ("rebalance_completed", "session_timeout")
    assert {gap["from_member_id"] for gap in ended["reconciliation"]["unowned"]} == {"a"}


def test_who_does_not_give_up_its_tasks_in_time_is_kicked() -> None:
    world = at_once()
    world.join("a", rebalance_timeout_ms=1_500)
    world.join("b")
    world.beat("a")
    world.pass_ms(1_500)
    ended = only(told(world), "rebalance_aborted")
    assert [(each["member_id"], each["reason"]) for each in ended["kicked"]] == [("a", "rebalance_timeout")]
    assert (ended["outcome"], ended["reconciliation"]["revoke_ms"]) == ("superseded", 1_500)


def test_a_group_without_its_topics_is_not_ready_until_they_are_there() -> None:
    world = at_once(topology=stateless("later"))
    world.join("a")
    started = only(told(world), "rebalance_started")
    assert (started["state_from"], started["state_to"]) == ("Empty", "NotReady")
    seen = len(told(world))
    world.topics.topics["later"] = (2, 0)
    world.beat("a")
    documents = told(world, seen)
    assert types(documents) == [
        "rebalance_aborted",
        "rebalance_started",
        "target_computed",
        "member_reconciled",
        "rebalance_completed",
    ]
    aborted, started = documents[:2]
    assert (aborted["outcome"], aborted["state_from"]) == ("superseded", "NotReady")
    assert (started["reason"], started["trigger"], started["state_from"]) == ("topics_changed", None, "NotReady")


def test_another_number_of_standby_tasks_is_the_cause_of_an_epoch() -> None:
    world = at_once(topology=stateful("t"))
    world.join("a")
    world.beat("a")  # its changelog is there by now
    seen = len(told(world))
    world.settings = world.settings._replace(standby_replicas=1)
    world.beat("a")
    started = only(told(world, seen), "rebalance_started")
    assert (started["reason"], started["reason_text"], started["trigger"]) == (
        "settings_changed",
        "num.standby.replicas is 1 and was 0",
        None,
    )


def test_tasks_of_a_static_member_that_left_for_now_have_no_owner_until_it_is_back() -> None:
    world = at_once()
    world.join("a", instance_id="i")
    seen = len(told(world))
    world.leave("a", -2, instance_id="i")
    world.pass_ms(700)
    world.join("a2", instance_id="i", process_id="a")
    documents = told(world, seen)
    assert types(documents)[:2] == ["member_left", "member_fenced"]
    assert (documents[0]["reason"], documents[1]["replaced_member_id"]) == ("static_left", "a")
    back = only(documents, "member_reconciled")
    assert {gap["unowned_ms"] for gap in back["reconciliation"]["unowned"]} == {700}


def test_a_heartbeat_with_an_epoch_that_is_not_the_members_is_refused() -> None:
    world = at_once()
    world.join("a")
    world.heartbeat("a", 7)
    check_refused(told(world)[-1], "a")


def test_a_group_that_is_empty_and_deleted_is_told_to_its_end() -> None:
    world = at_once()
    world.join("a")
    world.leave("a")
    assert world.ask(DeleteGroupsRequest(groups_names=("g",)), 2).results[0].error_code == ErrorCode.NONE
    check_end(told(world))


def test_a_restart_says_that_the_group_was_loaded() -> None:
    world = at_once()
    shared(world)
    seen = len(told(world))
    world.restart()
    loaded = only(told(world, seen), "coordinator_loaded")
    assert (loaded["group_type"], loaded["state_to"], loaded["members"]["expected"]) == ("streams", "Stable", 2)


@pytest.mark.parametrize("seed", range(12))
def test_who_runs_and_keeps_what_after_any_steps_is_what_they_have(seed: int) -> None:
    """Members join, go, fall silent and do as they are told, in any order: the history's steps lead to what the group holds."""
    choice = random.Random(seed)
    world = World(topology=stateful("t"), standby_replicas=1, assignment_interval_ms=0)
    world.join("a")
    for _ in range(120):
        there = sorted(world.streams_group.members)
        match choice.choice(("join", "leave", "beat", "report", "report", "pass")):
            case "join":
                member_id = choice.choice("abcde")
                world.join(member_id, process_id=f"p{member_id in 'ab'}", rebalance_timeout_ms=20_000)
            case "leave" if there:
                world.leave(choice.choice(there))
            case "beat" if there:
                world.beat(choice.choice(there))
            case "report" if there:
                world.report(choice.choice(there))
            case _:
                world.pass_ms(choice.choice((1, 3_000, 20_000)))
    documents = told(world)
    runs, keeps = by_steps(documents)
    for member_id, member in world.streams_group.members.items():
        held = (member.current.assigned, member.current.pending_revocation)
        assert runs.get(member_id, set()) == {f"{name}_{index}" for part in held for name, index in part.active}
        assert keeps.get(member_id, set()) == {
            f"{name}_{index}" for part in held for name, index in part.standby | part.warmup
        }
    check_rebalances(documents)


def by_steps(documents: list[dict[str, Any]]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Which tasks each member runs, and of which it keeps the state, if the steps that are told are taken one after the other."""
    runs: dict[str, set[str]] = {}
    keeps: dict[str, set[str]] = {}
    for event in documents:
        if event["type"] == "member_left":
            runs.pop(event["trigger"]["member_id"], None)
            keeps.pop(event["trigger"]["member_id"], None)
        if event["type"] != "member_reconciled":
            continue
        step, member_id = event["reconciliation"]["step"], event["trigger"]["member_id"]
        mine, kept = runs.setdefault(member_id, set()), keeps.setdefault(member_id, set())
        mine.difference_update(step["revoked"])
        mine.update(step["received"])
        kept.difference_update(step["standby_revoked"], step["received"])
        kept.update(step["standby_received"])
    return runs, keeps
