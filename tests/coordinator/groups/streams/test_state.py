"""The state of a streams group, and those of its members as records have them."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.streams.reconciliation import Current
from kshim.coordinator.groups.streams.state import MemberState, StreamsGroupState, state_of
from kshim.coordinator.groups.streams.updates import MemberCurrent, build_streams_update, parse_streams_update
from tests.coordinator.groups.streams.world import World, pairs, stateful

Members = tuple[tuple[int, MemberState], ...]

_STATE_AT = 2 + 4 + 4
"""Where the state is in a record: behind the version and two epochs."""

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS


def at_once() -> World:
    """A target is computed whenever it can be."""
    return World(initial_rebalance_delay_ms=0, assignment_interval_ms=0)


@pytest.mark.parametrize(
    ("members", "is_ready", "group_epoch", "target_epoch", "state"),
    [
        ((), True, 3, 3, "Empty"),
        ((), False, 4, 3, "Empty"),
        (((3, STABLE),), False, 3, 3, "NotReady"),
        (((3, UNREVOKED),), False, 4, 3, "NotReady"),
        (((3, STABLE),), True, 4, 3, "Assigning"),
        (((2, UNREVOKED),), True, 4, 3, "Assigning"),
        (((3, STABLE), (2, STABLE)), True, 3, 3, "Reconciling"),
        (((3, STABLE), (3, UNREVOKED)), True, 3, 3, "Reconciling"),
        (((3, UNRELEASED), (3, STABLE)), True, 3, 3, "Reconciling"),
        (((-2, STABLE),), True, 3, 3, "Reconciling"),
        (((3, STABLE), (3, STABLE)), True, 3, 3, "Stable"),
        (((3, STABLE),), True, 2, 3, "Stable"),
    ],
)
def test_the_state_of_a_group_follows_from_epochs(
    members: Members, is_ready: bool, group_epoch: int, target_epoch: int, state: str
) -> None:
    found = state_of(is_ready=is_ready, group_epoch=group_epoch, target_epoch=target_epoch, members=members)
    assert found is StreamsGroupState(state)
    assert str(found) == state


def test_a_group_goes_through_its_states() -> None:
    world = World({"t": 2}, topology=stateful("t"), initial_rebalance_delay_ms=0)

    def state() -> str:
        return world.described().group_state

    world.join("a")
    assert state() == "NotReady"  # its changelog is only made after the answer
    world.beat("a")
    assert state() == "Assigning"  # the interval is not over
    world.pass_ms(1_000)
    world.beat("a")
    assert state() == "Stable"
    world.join("b")
    assert state() == "Assigning"
    world.pass_ms(1_000)
    world.beat("a")
    assert state() == "Reconciling"
    world.report("a")
    world.beat("b")
    assert state() == "Stable"
    world.leave("a")
    world.leave("b")
    assert state() == "Empty"


def test_records_have_kafkas_numbers_of_the_states_of_members() -> None:
    world = at_once()

    def written() -> tuple[str, int]:
        (*_, (key, value)) = ((key, value) for key, value in pairs(world) if key[:2] == b"\x00\x16")
        assert value is not None
        return key[-1:].decode(), value[_STATE_AT]

    world.join("a")
    assert written() == ("a", 1)
    world.join("b")
    assert written() == ("b", 3)
    world.beat("a")
    assert written() == ("a", 2)
    world.report("a")
    assert written() == ("a", 1)


@pytest.mark.parametrize(
    ("name", "number"), [("STABLE", 1), ("UNREVOKED_TASKS", 2), ("UNRELEASED_TASKS", 3), ("UNKNOWN", 127)]
)
def test_a_state_is_read_as_it_was_written(name: str, number: int) -> None:
    update = MemberCurrent("a", Current(3, 2, MemberState[name]))
    key, value = build_streams_update("g", update)
    assert parse_streams_update(key, value) == ("g", update)
    assert value is not None
    assert value[_STATE_AT] == number


@pytest.mark.parametrize("number", [0, 4, 126, 127])
def test_a_state_of_a_newer_kafka_is_one_that_nobody_knows(number: int) -> None:
    key, value = build_streams_update("g", MemberCurrent("a", Current(3, 2)))
    assert value is not None
    newer = value[:_STATE_AT] + bytes([number]) + value[_STATE_AT + 1 :]
    assert parse_streams_update(key, newer) == ("g", MemberCurrent("a", Current(3, 2, MemberState.UNKNOWN)))
