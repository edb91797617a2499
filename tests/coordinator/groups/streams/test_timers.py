"""How long members of a streams group have, and what of it is heard elsewhere."""

from __future__ import annotations

from kshim.coordinator.groups.events import AppendFailed, GroupLoaded
from kshim_protocol.errors import ErrorCode
from tests.coordinator.groups.streams.world import SESSION_MS, World


def at_once() -> World:
    """A target is computed whenever it can be."""
    return World(initial_rebalance_delay_ms=0, assignment_interval_ms=0)


def about_to_give_up() -> World:
    """Member a has been told to give up tasks for b, and has a second."""
    world = at_once()
    world.join("a", rebalance_timeout_ms=1_000)
    world.join("b", rebalance_timeout_ms=5_000)
    assert world.beat("a") == "2 0:01"
    return world


def test_who_does_not_give_up_tasks_within_its_rebalance_timeout_is_removed() -> None:
    world = about_to_give_up()
    assert world.deadline_ms("rebalance", "g", "a") == 1_000
    assert world.deadline_ms("rebalance", "g", "b") is None  # it waits for tasks and has none to give up
    world.pass_ms(999)
    assert world.beat("a") == "2 -"
    world.pass_ms(1)
    assert list(world.streams_group.members) == ["b"]
    assert world.beat("b") == "4 0:0123"


def test_who_has_given_up_its_tasks_stays() -> None:
    world = about_to_give_up()
    world.pass_ms(999)
    assert world.report("a") == "3 -"
    assert world.deadline_ms("rebalance", "g", "a") is None
    world.pass_ms(1_000)
    assert list(world.streams_group.members) == ["a", "b"]


def test_a_static_member_that_will_be_back_has_nothing_to_give_up() -> None:
    world = at_once()
    world.join("a", rebalance_timeout_ms=1_000, instance_id="i")
    world.join("b")
    assert world.beat("a") == "2 0:01"
    world.leave("a", -2, instance_id="i")
    assert world.streams_group.members["a"].current.pending_revocation.is_empty


def test_who_leaves_takes_its_timers_along() -> None:
    world = about_to_give_up()
    assert world.deadline_ms("session", "g", "a") == SESSION_MS
    world.leave("a")
    assert world.deadline_ms("session", "g", "a") is None
    assert world.deadline_ms("rebalance", "g", "a") is None
    assert world.deadline_ms("session", "g", "b") == SESSION_MS


def test_the_settings_of_the_group_say_how_long_a_session_is() -> None:
    world = World(initial_rebalance_delay_ms=0, session_timeout_ms=50_000)
    world.join("a")
    assert world.deadline_ms("session", "g", "a") == 50_000
    world.pass_ms(49_999)
    world.beat("a")
    assert world.deadline_ms("session", "g", "a") == 50_000
    world.restart()
    assert world.deadline_ms("session", "g", "a") == 50_000
    assert world.deadline_ms("rebalance", "g", "a") is None


def test_a_member_is_told_the_settings_of_the_broker() -> None:
    world = at_once()
    world.join("a")
    reply = world.heartbeat("a", 2).reply
    assert (reply.heartbeat_interval_ms, reply.task_offset_interval_ms, reply.acceptable_recovery_lag) == (
        5_000,
        60_000,
        10_000,
    )


def test_a_group_that_is_read_from_the_log_says_so() -> None:
    world = at_once()
    world.join("a")
    world.restart()
    (event,) = [event for event in world.events if isinstance(event, GroupLoaded)]
    assert (event.group_id, event.member_count, event.protocol_type, str(event.state)) == ("g", 1, "streams", "Stable")


def test_that_nothing_could_be_written_is_in_the_history() -> None:
    world = at_once()
    world.join("a")
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    world.join("b")
    event = world.events[-1]
    assert isinstance(event, AppendFailed)
    assert (event.group_id, event.error, event.what) == (
        "g",
        ErrorCode.KAFKA_STORAGE_ERROR,
        "the changes of a heartbeat",
    )
