"""What the history says of each way a rebalance begins, goes on and ends."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.classic.state import GroupState
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.coordinator.peers import GroupSim, a_group, subscription
from tests.history.told import only, told, types


def so_far(sim: GroupSim) -> int:
    """How many events there are by now."""
    return len(told(sim))


def remove(sim: GroupSim, *entries: MemberIdentity) -> None:
    sim.ask(LeaveGroupRequest(group_id="g", members=entries), 5)


# A whole rebalance


def test_a_first_member_makes_one_rebalance_from_its_join_to_its_assignment() -> None:
    sim = a_group().stable("a")
    assert types(told(sim)) == [
        "member_joined",
        "rebalance_started",
        "join_completed",
        "rebalance_completed",
    ]


def test_an_event_has_the_whole_story_of_its_rebalance() -> None:
    sim = a_group().stable("a", "b", reason="rolling deploy")
    before = so_far(sim)
    a, b = sim["a"], sim["b"]
    a.send_join()
    sim.pass_ms(400)
    joined = b.join()
    b.take(joined)
    a.generation_id = b.generation_id
    sim.pass_ms(30)
    b.send_sync()
    sim.pass_ms(20)
    a.send_sync({})
    event = only(told(sim, before), "rebalance_completed")
    member = {"instance_id": None, "host": "127.0.0.1"}
    assert event == {
        "v": 2,
        "event_id": f"{event['run']}-{before + 3}",
        "run": "0123456789abcdef0123456789abcdef",
        "seq": before + 3,
        "ts_ms": sim.wall_ms,
        "mono_ms": sim.mono_ms,
        "broker": 1,
        "group": "g",
        "protocol_type": "consumer",
        "group_type": "classic",
        "epoch": 3,
        "from_generation": 2,
        "to_generation": 3,
        "type": "rebalance_completed",
        "state_from": "CompletingRebalance",
        "state_to": "Stable",
        "reason": "leader_rejoined",
        "reason_text": f"leader {a.member_id} re-joining; client reason: rolling deploy",
        "trigger": {"member_id": a.member_id, "client_id": "a", "client_reason": "rolling deploy", **member},
        "replaced_member_id": None,
        "leader_id": a.member_id,
        "members": {"expected": 2, "joined": 2, "kicked": 0, "pending_sync": 0},
        "join_ms": 400,
        "sync_ms": 50,
        "total_ms": 450,
        "last_to_join": {
            "member_id": b.member_id,
            "client_id": "b",
            "is_new": False,
            "wait_ms": 400,
            "told_ms": None,
            **member,
        },
        "last_to_sync": {
            "member_id": a.member_id,
            "client_id": "a",
            "is_new": False,
            "wait_ms": 50,
            "told_ms": None,
            **member,
        },
        "waits": [
            {"member_id": a.member_id, "client_id": "a", "is_new": False, "wait_ms": 0, "told_ms": None, **member},
            {"member_id": b.member_id, "client_id": "b", "is_new": False, "wait_ms": 400, "told_ms": None, **member},
        ],
        "waits_omitted": 0,
        "kicked": [],
        "kicked_omitted": 0,
        "initial_delay_ms": None,
        "protocol": "range",
        "outcome": "completed",
        "ended_by": {
            "reason": "assignment_received",
            "text": f"assignment received from leader {a.member_id}",
            "member_id": a.member_id,
        },
        "reconciliation": None,
        "activity": None,
        "subscription": None,
        "topic_changes": None,
        "records": None,
        "injected_fault": None,
    }


def test_the_events_of_a_rebalance_repeat_why_it_began_and_who_began_it() -> None:
    sim = a_group().stable("a", "b")
    of_last = [event for event in told(sim) if event["epoch"] == 2]
    assert {(event["reason"], event["trigger"]["client_id"]) for event in of_last} == {("member_joined", "b")}
    assert len(of_last) == 3


def test_a_member_event_carries_the_epoch_before_the_rebalance_it_begins() -> None:
    sim = a_group().stable("a", "b")
    found = [event for event in told(sim) if event["type"] in ("member_joined", "rebalance_started")]
    assert [(event["type"], event["epoch"]) for event in found] == [
        ("member_joined", 0),
        ("rebalance_started", 1),
        ("member_joined", 1),
        ("rebalance_started", 2),
    ]


# Why it begins


def started(sim: GroupSim, before: int) -> tuple[str, str | None]:
    """Reason and client behind the one rebalance since then."""
    event = only(told(sim, before), "rebalance_started")
    return event["reason"], None if event["trigger"] is None else event["trigger"]["client_id"]


def test_a_leader_that_joins_again_is_named() -> None:
    sim = a_group().stable("a", "b")
    before = so_far(sim)
    sim["a"].send_join()
    assert started(sim, before) == ("leader_rejoined", "a")


def test_a_follower_with_another_subscription_is_named() -> None:
    sim = a_group().stable("a", "b")
    before = so_far(sim)
    sim["b"].protocols = {"range": subscription("audit")}
    sim["b"].send_join()
    assert started(sim, before) == ("metadata_changed", "b")


def test_a_member_that_leaves_is_named_with_its_own_words() -> None:
    sim = a_group().stable("a", "b")
    before = so_far(sim)
    sim["b"].leave(reason="the consumer is being closed")
    assert started(sim, before) == ("member_left", "b")
    for type_ in ("member_left", "rebalance_started"):
        assert only(told(sim, before), type_)["trigger"]["client_reason"] == "the consumer is being closed"


def test_a_member_that_falls_silent_is_named() -> None:
    sim = a_group().stable("a", "b")
    before = so_far(sim)
    sim.pass_ms(9_000)
    sim["a"].heartbeat()
    sim.pass_ms(1_000)
    assert started(sim, before) == ("session_timeout", "b")
    assert only(told(sim, before), "member_left")["reason"] == "session_timeout"


def test_a_member_removed_by_instance_id_alone_was_removed_by_an_administrator() -> None:
    sim = a_group().stable("a", "s", static=["s"])
    before = so_far(sim)
    remove(sim, MemberIdentity(member_id="", group_instance_id="s-instance"))
    assert started(sim, before) == ("admin", "s")
    assert only(told(sim, before), "member_left")["reason"] == "admin"


@pytest.mark.parametrize("words", ["member was removed by an admin", "member was removed by an admin: too slow"])
def test_a_member_removed_with_the_reason_of_kafkas_admin_was_removed_by_an_administrator(words: str) -> None:
    sim = a_group().stable("a", "b")
    before = so_far(sim)
    remove(sim, MemberIdentity(member_id=sim["b"].member_id, reason=words))
    assert started(sim, before) == ("admin", "b")


def test_a_static_member_that_comes_back_is_told_of_though_nobody_rebalances() -> None:
    sim = a_group().stable("a", "s", static=["s"])
    before, old_id = so_far(sim), sim["s"].member_id
    sim["s"].member_id = ""
    sim["s"].take(sim["s"].join())
    [event] = told(sim, before)
    assert (event["type"], event["reason"], event["epoch"]) == ("member_fenced", "static_replaced", 2)
    assert (event["replaced_member_id"], event["trigger"]["member_id"]) == (old_id, sim["s"].member_id)
    assert event["trigger"]["instance_id"] == "s-instance"


def test_a_static_member_that_comes_back_with_another_vote_begins_a_rebalance() -> None:
    both = {"range": subscription("orders"), "sticky": b"?"}
    sim = a_group().stable("s", static=["s"], protocols=both)
    before = so_far(sim)
    sim["s"].member_id = ""
    sim["s"].protocols = {"sticky": b"?", "range": subscription("orders")}
    sim["s"].send_join()
    assert types(told(sim, before))[:2] == ["member_fenced", "rebalance_started"]
    assert started(sim, before) == ("static_replaced", "s")


def test_a_rebalance_because_the_group_was_loaded_too_large_has_nobody_behind_it() -> None:
    sim = a_group().stable("a", "b")
    sim.config.group_max_size = 1
    before = so_far(sim)
    sim.restart()
    assert types(told(sim, before)) == ["coordinator_loaded", "rebalance_started"]
    assert started(sim, before) == ("group_too_large", None)


def test_assignments_that_cannot_be_written_supersede_their_rebalance() -> None:
    sim = a_group().completing("a")
    before = so_far(sim)
    sim.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    sim["a"].send_sync({})
    ended, begun = told(sim, before)
    assert (ended["type"], ended["outcome"], ended["ended_by"]["reason"]) == (
        "rebalance_aborted",
        "superseded",
        "append_failed",
    )
    assert (begun["type"], begun["reason"]) == ("rebalance_started", "append_failed")


# The join phase


def test_only_the_rebalance_of_an_empty_group_has_an_initial_delay() -> None:
    sim = a_group(group_initial_rebalance_delay_ms=3_000)
    first = sim.peer("a").join()
    sim.pass_ms(3_000)
    sim["a"].take(first)
    sim.settle()
    sim["a"].send_join()
    begun = [event for event in told(sim) if event["type"] == "rebalance_started"]
    assert [event["initial_delay_ms"] for event in begun] == [3_000, None]
    ended = next(event for event in told(sim) if event["type"] == "join_completed")
    assert (ended["join_ms"], ended["ended_by"]["reason"]) == (3_000, "initial_delay_over")


def test_who_comes_while_the_phase_runs_is_expected_from_then_on_and_marked_as_new() -> None:
    sim = a_group().preparing("a", "b")
    sim.pass_ms(100)
    newcomer = sim.peer("c")
    newcomer.join()
    sim.pass_ms(50)
    sim["b"].join()
    event = told(sim)[-1]
    assert event["type"] == "join_completed"
    assert event["members"] == {"expected": 3, "joined": 3, "kicked": 0, "pending_sync": 3}
    assert event["last_to_join"] == {
        "member_id": sim["b"].member_id,
        "instance_id": None,
        "client_id": "b",
        "host": "127.0.0.1",
        "is_new": False,
        "wait_ms": 150,
        "told_ms": None,
    }
    sim["a"].take(sim["a"].join())
    for peer in (sim["b"], newcomer):
        peer.take(peer.join())
    sim.settle()
    waits = told(sim)[-1]["waits"]
    assert [(wait["client_id"], wait["is_new"], wait["wait_ms"]) for wait in waits] == [
        ("a", False, 0),
        ("b", False, 150),
        ("c", True, 100),
    ]


def test_a_join_sent_twice_counts_from_the_first() -> None:
    sim = a_group().preparing("a", "b", "c")
    sim.pass_ms(100)
    sim["b"].send_join()
    sim.pass_ms(100)
    sim["b"].send_join()
    sim.pass_ms(100)
    sim["c"].send_join()
    event = told(sim)[-1]
    assert event["join_ms"] == 300
    assert event["last_to_join"]["client_id"] == "c"
    for name in ("a", "b", "c"):
        sim[name].generation_id = sim.group.generation_id
    sim.settle()
    waits = {wait["client_id"]: wait["wait_ms"] for wait in told(sim)[-1]["waits"]}
    assert waits == {"a": 0, "b": 100, "c": 300}


def test_a_wait_says_when_a_heartbeat_first_told_the_member_of_the_rebalance() -> None:
    sim = a_group().preparing("a", "b", "c")
    sim.pass_ms(100)
    assert sim["b"].heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    sim.pass_ms(100)
    assert sim["b"].heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    sim.pass_ms(100)
    sim["b"].send_join()
    sim["c"].send_join()
    for name in ("a", "b", "c"):
        sim[name].generation_id = sim.group.generation_id
    sim.settle()
    waits = {wait["client_id"]: (wait["wait_ms"], wait["told_ms"]) for wait in told(sim)[-1]["waits"]}
    assert waits == {"a": (0, None), "b": (300, 100), "c": (300, None)}


def test_who_does_not_join_in_time_is_kicked() -> None:
    sim = a_group().preparing("a", "b", session_timeout_ms=90_000)
    before = so_far(sim)
    sim.pass_ms(60_000)
    left, ended = told(sim, before)
    assert (left["type"], left["reason"], left["trigger"]["client_id"]) == ("member_left", "rebalance_timeout", "b")
    assert (ended["type"], ended["join_ms"]) == ("join_completed", 60_000)
    assert ended["ended_by"] == {
        "reason": "rebalance_timeout",
        "text": "the rebalance timeout is over",
        "member_id": None,
    }
    assert ended["members"] == {"expected": 2, "joined": 1, "kicked": 1, "pending_sync": 1}
    assert [(kicked["client_id"], kicked["reason"], kicked["was_pending"]) for kicked in ended["kicked"]] == [
        ("b", "rebalance_timeout", False)
    ]


def test_a_static_member_that_does_not_come_back_is_expected_but_neither_joined_nor_kicked() -> None:
    sim = a_group().preparing("a", "s", static=["s"], session_timeout_ms=90_000)
    sim.pass_ms(60_000)
    event = told(sim)[-1]
    assert event["type"] == "join_completed"
    assert event["members"] == {"expected": 2, "joined": 1, "kicked": 0, "pending_sync": 2}


def test_an_issued_id_that_never_comes_back_is_named_as_what_was_waited_for() -> None:
    sim = a_group().preparing("a", "b")
    sim.peer("ghost").send_join()
    sim["b"].join()
    before = so_far(sim)
    sim["a"].heartbeat()
    sim.pass_ms(10_000)
    [event] = told(sim, before)
    assert (event["type"], event["join_ms"]) == ("join_completed", 10_000)
    assert event["ended_by"]["reason"] == "all_joined"
    [kicked] = event["kicked"]
    assert (kicked["client_id"], kicked["reason"], kicked["was_pending"]) == ("ghost", "session_timeout", True)
    assert event["members"]["expected"] == 2


def test_a_member_that_leaves_while_others_join_ends_the_phase_and_is_not_kicked() -> None:
    sim = a_group().preparing("a", "b")
    before = so_far(sim)
    sim["b"].leave()
    left, ended = told(sim, before)
    assert (left["type"], left["epoch"]) == ("member_left", ended["epoch"])
    assert ended["members"] == {"expected": 2, "joined": 1, "kicked": 0, "pending_sync": 1}
    assert ended["ended_by"]["member_id"] == sim["b"].member_id


# The sync phase


def test_a_follower_that_syncs_late_is_told_of_after_the_group_is_stable() -> None:
    sim = a_group().completing("a", "b")
    before = so_far(sim)
    sim["a"].send_sync({})
    sim.pass_ms(70)
    sim["b"].send_sync()
    completed, synced = told(sim, before)
    assert (completed["type"], completed["members"]["pending_sync"]) == ("rebalance_completed", 1)
    assert (completed["last_to_sync"]["client_id"], completed["sync_ms"]) == ("a", 0)
    assert (synced["type"], synced["members"]["pending_sync"]) == ("sync_completed", 0)
    assert (synced["last_to_sync"]["client_id"], synced["last_to_sync"]["wait_ms"]) == ("b", 70)
    assert (synced["sync_ms"], synced["total_ms"], synced["epoch"]) == (70, 70, completed["epoch"])
    assert synced["last_to_sync"]["is_new"]
    assert (synced["waits"], synced["outcome"], synced["ended_by"]) == (None, None, None)


def test_a_second_sync_of_a_stable_group_says_nothing_new() -> None:
    sim = a_group().stable("a", "b")
    before = so_far(sim)
    sim["b"].send_sync()
    assert told(sim, before) == []


def test_a_leader_that_never_syncs_is_kicked_and_the_rebalance_superseded() -> None:
    sim = a_group().completing("a", "b", session_timeout_ms=90_000)
    sim["b"].send_sync()
    before = so_far(sim)
    sim.pass_ms(60_000)
    left, ended, begun = told(sim, before)
    assert (left["type"], left["reason"], left["trigger"]["client_id"]) == ("member_left", "sync_timeout", "a")
    assert (ended["outcome"], ended["state_from"], ended["state_to"]) == (
        "superseded",
        "CompletingRebalance",
        "PreparingRebalance",
    )
    assert (ended["ended_by"]["reason"], ended["ended_by"]["member_id"]) == ("sync_timeout", sim["a"].member_id)
    assert [kicked["reason"] for kicked in ended["kicked"]] == ["sync_timeout"]
    assert (ended["join_ms"], ended["sync_ms"], ended["total_ms"]) == (0, 60_000, 60_000)
    assert [wait["client_id"] for wait in ended["waits"]] == ["a", "b"]
    assert (begun["reason"], begun["trigger"]["client_id"]) == ("sync_timeout", "a")
    assert begun["members"]["expected"] == 1


def test_a_follower_that_never_syncs_begins_another_rebalance_though_its_own_was_completed() -> None:
    sim = a_group().completing("a", "b", session_timeout_ms=90_000)
    sim["a"].send_sync({})
    before = so_far(sim)
    sim.pass_ms(60_000)
    assert types(told(sim, before)) == ["member_left", "rebalance_started"]
    assert started(sim, before) == ("sync_timeout", "b")


def test_a_newcomer_supersedes_a_rebalance_that_waits_for_its_assignment() -> None:
    sim = a_group().completing("a", "b")
    sim["b"].send_sync()
    before = so_far(sim)
    sim.pass_ms(25)
    sim.peer("c").join()
    joined, ended, begun = told(sim, before)
    assert types([joined, ended, begun]) == ["member_joined", "rebalance_aborted", "rebalance_started"]
    assert (ended["outcome"], ended["sync_ms"], ended["members"]["pending_sync"]) == ("superseded", 25, 1)
    assert (ended["ended_by"]["reason"], ended["reason"]) == ("member_joined", "member_joined")
    assert ended["ended_by"]["member_id"] == sim["c"].member_id
    assert ended["trigger"]["client_id"] == "b"
    assert (begun["epoch"], begun["from_generation"]) == (ended["epoch"] + 1, ended["to_generation"])


# Nobody left


def test_the_last_member_that_leaves_aborts_a_rebalance_and_empties_the_group() -> None:
    sim = a_group().stable("a")
    before = so_far(sim)
    sim["a"].leave()
    left, begun, ended, emptied = told(sim, before)
    assert types([left, begun, ended, emptied]) == [
        "member_left",
        "rebalance_started",
        "rebalance_aborted",
        "group_emptied",
    ]
    assert (ended["outcome"], ended["state_to"], ended["ended_by"]["reason"]) == ("aborted", "Empty", "member_left")
    assert (ended["join_ms"], ended["sync_ms"], ended["total_ms"]) == (0, None, 0)
    assert (emptied["reason"], emptied["from_generation"], emptied["to_generation"]) == ("member_left", 2, 2)


def test_a_group_that_falls_silent_in_the_join_phase_aborts_it() -> None:
    sim = a_group().preparing("a", "b")
    sim["a"].leave()
    before = so_far(sim)
    sim.pass_ms(10_000)
    ended = only(told(sim, before), "rebalance_aborted")
    assert (ended["outcome"], ended["join_ms"], ended["ended_by"]["reason"]) == ("aborted", 10_000, "session_timeout")
    assert [(kicked["client_id"], kicked["reason"]) for kicked in ended["kicked"]] == [("b", "session_timeout")]


def test_a_deleted_group_is_dead_and_a_new_one_of_its_name_counts_anew() -> None:
    sim = a_group().empty()
    sim.ask(DeleteGroupsRequest(groups_names=("g",)), 2)
    dead = told(sim)[-1]
    assert (dead["type"], dead["reason"], dead["state_from"], dead["state_to"]) == (
        "group_dead",
        "group_deleted",
        "Empty",
        "Dead",
    )
    before = so_far(sim)
    sim.peer("a").join()
    assert [(event["seq"], event["epoch"]) for event in told(sim, before)] == [(1, 0), (2, 1), (3, 1)]


def test_a_group_that_expires_is_dead_for_that_reason() -> None:
    sim = a_group().empty()
    sim.pass_ms(sim.config.offsets_retention_check_interval_ms)
    assert (told(sim)[-1]["type"], told(sim)[-1]["reason"]) == ("group_dead", "expired")


# Loading


def test_a_loaded_group_says_what_it_has_and_goes_on_counting() -> None:
    sim = a_group().stable("a", "b")
    before = so_far(sim)
    sim.restart()
    [event] = told(sim, before)
    assert (event["type"], event["reason"]) == ("coordinator_loaded", "coordinator_loaded")
    assert (event["state_from"], event["state_to"], event["protocol_type"]) == (None, "Stable", "consumer")
    assert (event["from_generation"], event["to_generation"], event["seq"]) == (2, 2, before + 1)
    assert event["members"] == {"expected": 2, "joined": None, "kicked": 0, "pending_sync": None}
    sim["a"].send_join()
    assert told(sim)[-1]["epoch"] == 3


@pytest.mark.parametrize("state", [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE])
def test_loading_aborts_a_rebalance_that_was_open(state: GroupState) -> None:
    sim = a_group().preparing("a", "b")
    if state is GroupState.COMPLETING_REBALANCE:
        sim["b"].join()
    sim.pass_ms(40)
    before = so_far(sim)
    sim.restart()
    ended, loaded = told(sim, before)
    assert (ended["type"], ended["outcome"]) == ("rebalance_aborted", "aborted")
    assert (ended["state_from"], ended["state_to"], ended["total_ms"]) == (str(state), "Stable", 40)
    assert ended["ended_by"]["reason"] == "coordinator_loaded"
    assert loaded["type"] == "coordinator_loaded"


def test_a_sync_that_is_late_beyond_a_restart_is_not_mistaken_for_one_of_the_last_rebalance() -> None:
    sim = a_group().completing("a", "b")
    sim["a"].send_sync({})
    sim.restart()
    before = so_far(sim)
    sim["b"].send_sync()
    assert told(sim, before) == []


def test_a_member_that_was_lost_and_is_still_there_is_told_of() -> None:
    sim = a_group().stable("a", "b", session_timeout_ms=10_000)
    for _ in range(2):
        sim.pass_ms(5_000)
        sim["b"].heartbeat()
    before = so_far(sim)
    sim["a"].heartbeat()
    [event] = told(sim, before)
    assert (event["type"], event["reason"], event["trigger"]["member_id"]) == (
        "member_refused",
        "unknown_member_id",
        sim["a"].member_id,
    )


def test_who_offers_no_assignor_that_all_members_have_is_told_of_once_in_ten_seconds() -> None:
    sim = a_group().stable("a", protocols={"range": subscription("orders")})
    before = len(told(sim))
    stranger = sim.peer("b", protocols={"sticky": subscription("orders")})
    for pause_ms in (0, 5_000, 4_999, 1):
        sim.pass_ms(pause_ms)
        sim["a"].heartbeat()
        stranger.send_join()
    first, second = [event for event in told(sim, before) if event["type"] == "member_refused"]
    assert (first["reason"], first["trigger"]["client_id"]) == ("inconsistent_group_protocol", "b")
    assert first["reason_text"] == "its protocols are sticky, and all members of the group have range"
    assert first["subscription"]["assignors"] == ["sticky"]
    assert second["mono_ms"] - first["mono_ms"] == 10_000


def test_who_does_not_fit_into_a_group_is_told_of() -> None:
    sim = a_group(group_max_size=1).stable("a")
    before = len(told(sim))
    sim.peer("b").send_join()
    refused = only(told(sim, before), "member_refused")
    assert (refused["reason"], refused["trigger"]["client_id"]) == ("group_max_size_reached", "b")
    assert refused["reason_text"] == "group.max.size is 1"


def test_a_worker_of_connect_in_a_group_of_consumers_is_told_of_without_a_subscription() -> None:
    sim = a_group().stable("a")
    before = len(told(sim))
    sim.peer("w", protocol_type="connect").send_join()
    refused = only(told(sim, before), "member_refused")
    assert refused["subscription"] is None
    assert refused["reason_text"] == "it has the protocol type connect, and the group consumer"
