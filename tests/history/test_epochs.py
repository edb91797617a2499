"""What the history says of groups of the new protocol: each epoch a rebalance, with what every member did."""

from __future__ import annotations

from typing import Any

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from tests.coordinator.groups.consumer.test_heartbeat import INTERVAL_MS, SESSION_MS, World
from tests.history.told import only, told, types


def shared(world: World, *, revoke_ms: int = 0) -> None:
    """Members a and b share topic t, of three partitions; a takes its time to give one up, and b to ask for it 20 ms."""
    world.join("a", "t")
    world.join("b", "t")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 2)
    world.pass_ms(revoke_ms)
    world.heartbeat("a", 2, owned={"t": [0, 1]})
    world.pass_ms(20)
    world.heartbeat("b", 2, owned={})


def phases(document: dict[str, Any]) -> list[int | None]:
    found = document["reconciliation"]
    return [found["compute_ms"], found["revoke_ms"], found["assign_ms"]]


def test_a_first_member_is_one_rebalance_within_its_join() -> None:
    world = World()
    world.join("a", "t")
    documents = told(world)
    assert types(documents) == [
        "member_joined",
        "rebalance_started",
        "target_computed",
        "member_reconciled",
        "rebalance_completed",
    ]
    assert {document["group_type"] for document in documents} == {"consumer"}
    started, ended = documents[1], documents[-1]
    assert (started["reason"], started["trigger"]["member_id"]) == ("member_joined", "a")
    assert (started["from_generation"], started["to_generation"], started["protocol"]) == (1, 2, None)
    assert [document["state_from"] for document in documents[1:]] == ["Empty", "Assigning", "Stable", "Reconciling"]
    assert (ended["state_to"], ended["outcome"], ended["total_ms"], ended["protocol"]) == (
        "Stable",
        "completed",
        0,
        "uniform",
    )
    assert ended["members"] == {"expected": 1, "joined": 1, "kicked": 0, "pending_sync": 0}


def test_a_rebalance_says_when_each_member_was_told_to_revoke_had_and_got() -> None:
    world = World()
    shared(world, revoke_ms=300)
    ended = [event for event in told(world) if event["type"] == "rebalance_completed"][-1]
    assert ended["trigger"]["member_id"] == "b"
    assert (ended["from_generation"], ended["to_generation"]) == (2, 3)
    assert phases(ended) == [1_000, 300, 20]
    assert ended["total_ms"] == 1_320
    found = ended["reconciliation"]
    assert [(each["member_id"], each["is_new"], each["lost"], each["gained"]) for each in found["members"]] == [
        ("a", False, 1, 0),
        ("b", True, 0, 1),
    ]
    a, b = found["members"]
    assert (a["told_ms"], a["revoked_ms"], a["assigned_ms"]) == (1_000, 1_300, None)
    assert (b["told_ms"], b["revoked_ms"], b["assigned_ms"]) == (None, None, 1_320)
    assert (found["last_to_revoke"]["member_id"], found["last_to_revoke"]["wait_ms"]) == ("a", 300)
    assert (found["last_to_assign"]["member_id"], found["last_to_assign"]["wait_ms"]) == ("b", 320)


def test_a_partition_that_changes_hands_says_how_long_nobody_had_it() -> None:
    world = World()
    shared(world)
    gap = {
        "topic": "t",
        "partition": 2,
        "unowned_ms": 20,
        "from_member_id": "a",
        "to_member_id": "b",
        "had_state": None,
    }
    documents = told(world)
    assert documents[-1]["reconciliation"]["unowned"] == [gap]
    assert documents[-2]["type"] == "member_reconciled"
    assert documents[-2]["reconciliation"]["unowned"] == [gap]


def test_each_step_of_a_member_names_the_partitions_it_is_about() -> None:
    world = World()
    shared(world)
    steps = [event["reconciliation"]["step"] for event in told(world) if event["type"] == "member_reconciled"]
    nothing: list[str] = []
    assert [(step["state"], step["epoch"], step["to_revoke"], step["revoked"], step["received"]) for step in steps] == [
        ("Stable", 2, nothing, nothing, ["t-0", "t-1", "t-2"]),
        ("UnrevokedPartitions", 2, ["t-2"], nothing, nothing),
        ("Stable", 3, nothing, ["t-2"], nothing),
        ("Stable", 3, nothing, nothing, ["t-2"]),
    ]


def test_a_newer_epoch_supersedes_a_rebalance_in_the_phase_it_is_in() -> None:
    world = World()
    shared(world)
    world.join("c", "t")
    world.pass_ms(INTERVAL_MS)
    for member_id in ("a", "b"):
        world.heartbeat(member_id, 3)
    world.pass_ms(50)
    world.join("d", "u")
    ended = only(told(world), "rebalance_aborted")
    assert (ended["outcome"], ended["ended_by"]["reason"], ended["ended_by"]["member_id"]) == (
        "superseded",
        "member_joined",
        "d",
    )
    assert phases(ended) == [1_000, 50, None]
    started = told(world)[-1]
    assert (started["type"], started["from_generation"], started["to_generation"]) == ("rebalance_started", 4, 5)


def test_who_falls_silent_holds_partitions_until_its_session_is_over() -> None:
    world = World()
    shared(world)
    for _ in range(3):
        world.pass_ms(SESSION_MS // 3)
        world.heartbeat("b", 3)
    documents = told(world)
    left = only(documents, "member_left")
    assert (left["reason"], left["trigger"]["member_id"]) == ("session_timeout", "a")
    ended = documents[-1]
    assert (ended["type"], ended["reason"], ended["trigger"]["member_id"]) == (
        "rebalance_completed",
        "session_timeout",
        "a",
    )
    gaps = ended["reconciliation"]["unowned"]
    assert {(gap["partition"], gap["from_member_id"], gap["to_member_id"]) for gap in gaps} == {
        (0, "a", "b"),
        (1, "a", "b"),
    }


def test_who_does_not_give_up_in_time_is_kicked() -> None:
    world = World()
    world.join("a", "t", timeout_ms=1_500)
    world.join("b", "t")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 2)
    world.pass_ms(1_500)
    ended = only(told(world), "rebalance_aborted")
    assert [(each["member_id"], each["reason"]) for each in ended["kicked"]] == [("a", "rebalance_timeout")]
    assert (ended["outcome"], phases(ended)) == ("superseded", [1_000, 1_500, None])


def test_the_last_member_that_leaves_aborts_its_rebalance_and_empties_the_group() -> None:
    world = World()
    world.join("a", "t")
    world.heartbeat("a", -1)
    documents = told(world)[-4:]
    assert types(documents) == ["member_left", "rebalance_started", "rebalance_aborted", "group_emptied"]
    assert [document["state_to"] for document in documents[1:]] == ["Empty"] * 3
    world.ask(DeleteGroupsRequest(groups_names=("g",)), 2)
    assert told(world)[-1]["type"] == "group_dead"


def test_a_static_member_that_leaves_for_now_begins_no_rebalance_but_its_partitions_have_no_owner() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    before = len(told(world))
    world.heartbeat("a", -2, instance_id="i")
    world.pass_ms(3_000)
    world.join("b", "t", instance_id="i")
    documents = told(world, before)
    assert types(documents) == ["member_left", "member_fenced", "member_reconciled"]
    left, fenced, back = documents
    assert (left["reason"], left["trigger"]["instance_id"]) == ("static_left", "i")
    assert (fenced["replaced_member_id"], fenced["trigger"]["member_id"]) == ("a", "b")
    assert {gap["unowned_ms"] for gap in back["reconciliation"]["unowned"]} == {3_000}


def test_a_member_that_is_refused_is_told_of_with_the_sentence_it_got() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    assert world.heartbeat("a", 7).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.join("b", "t", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    found = [document for document in told(world) if document["type"] == "member_refused"]
    assert [(each["reason"], each["trigger"]["member_id"]) for each in found] == [
        ("fenced_epoch", "a"),
        ("unreleased_instance_id", "b"),
    ]
    assert "greater member epoch (7)" in found[0]["reason_text"]


def test_loading_a_group_aborts_a_rebalance_that_was_open() -> None:
    world = World()
    world.join("a", "t")
    world.join("b", "t")
    world.restart()
    documents = told(world)[-2:]
    assert types(documents) == ["rebalance_aborted", "coordinator_loaded"]
    assert documents[0]["ended_by"]["reason"] == "coordinator_loaded"
