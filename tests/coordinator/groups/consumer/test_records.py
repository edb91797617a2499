"""The records of a group of the new protocol, in the order and with the values of a live Kafka 4.4 for the same requests."""

from __future__ import annotations

from kshim.coordinator.groups.consumer.reconciliation import Current
from kshim.coordinator.groups.consumer.state import MemberState
from kshim.coordinator.groups.consumer.updates import (
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    TargetEpoch,
    Update,
)
from tests.coordinator.groups.consumer.test_heartbeat import INTERVAL_MS, World

Row = tuple[object, ...]


def rows(world: World) -> list[list[Row]]:
    """Each batch, with what matters of its records."""
    return [[row(update) for update in batch] for batch in world.updates()]


def row(update: Update) -> Row:
    match update:
        case MemberMetadata(member_id, None):
            return 5, member_id
        case MemberMetadata(member_id, value) if value is not None:
            return 5, member_id, value.instance_id, value.subscribed_topic_names, value.server_assignor
        case GroupEpoch(value):
            return 3, None if value is None else value.epoch
        case MemberTarget(member_id, partitions):
            return 7, member_id, None if partitions is None else sorted(index for _, index in partitions)
        case TargetEpoch(value):
            return 6, None if value is None else (value.assignment_epoch, value.assignment_timestamp > 0)
        case MemberCurrent(member_id, current):
            return 8, member_id, None if current is None else current_row(current)
        case _:
            raise AssertionError(update)


def current_row(current: Current) -> Row:
    """(epoch, previous epoch, state, epochs of assigned partitions, of those to be given up)."""
    return (
        current.epoch,
        current.previous_epoch,
        current.state,
        {index: epoch for (_, index), epoch in current.assigned.items()},
        {index: epoch for (_, index), epoch in current.pending_revocation.items()},
    )


STABLE, UNREVOKED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS


def test_a_member_comes_asks_for_an_assignor_and_goes() -> None:
    world = World()
    world.join("a", "t")
    world.heartbeat("a", 2, server_assignor="range")
    world.heartbeat("a", 2, rack_id="x", names=("u", "t", "t"), timeout_ms=5)
    world.heartbeat("a", -1)
    assert rows(world) == [
        [
            (5, "a", None, ("t",), None),
            (3, 2),
            (7, "a", [0, 1, 2]),
            (6, (2, True)),
            (8, "a", (2, 0, STABLE, {0: 2, 1: 2, 2: 2}, {})),
        ],
        [(5, "a", None, ("t",), "range"), (3, 3)],
        [(5, "a", None, ("t", "u"), "range"), (3, 4)],
        [(8, "a", None), (7, "a", None), (5, "a"), (3, 5), (6, (5, False))],
    ]


def test_members_without_topics_have_records_of_their_own_only() -> None:
    world = World()
    world.join("a")
    world.join("b", server_assignor="range")
    assert rows(world) == [
        [(5, "a", None, (), None), (8, "a", (1, 0, STABLE, {}, {}))],
        [
            (5, "b", None, (), "range"),
            (3, 2),
            (7, "a", []),
            (7, "b", []),
            (6, (2, True)),
            (8, "b", (2, 0, STABLE, {}, {})),
        ],
    ]


def test_a_static_member_goes_while_it_revokes_and_comes_back_twice() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    world.join("d", "t")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 2, owned={"t": [0, 1, 2]}, instance_id="i")
    world.heartbeat("a", -2, instance_id="i")
    world.join("a2", "t", instance_id="i")
    world.heartbeat("d", 2, owned={})
    world.heartbeat("a2", -2, instance_id="i")
    world.join("a2", "u", instance_id="i")
    assert rows(world)[1:] == [
        [(5, "d", None, ("t",), None), (3, 3), (8, "d", (2, 0, STABLE, {}, {}))],
        [
            (7, "a", [0, 1]),
            (7, "d", [2]),
            (6, (3, True)),
            (8, "a", (2, 2, UNREVOKED, {0: 2, 1: 2}, {2: 2})),
        ],
        [(8, "a", (-2, 2, UNREVOKED, {0: 0, 1: 0}, {}))],
        [
            (8, "a", None),
            (7, "a", None),
            (5, "a"),
            (5, "a2", "i", ("t",), None),
            (7, "a2", [0, 1]),
            (8, "a2", (0, 0, UNREVOKED, {0: 0, 1: 0}, {})),
            (8, "a2", (3, 0, STABLE, {0: 0, 1: 0}, {})),
        ],
        [(8, "d", (3, 2, STABLE, {2: 3}, {}))],
        [(8, "a2", (-2, 0, STABLE, {0: 0, 1: 0}, {}))],
        [
            (8, "a2", None),
            (7, "a2", None),
            (5, "a2"),
            (5, "a2", "i", ("t",), None),
            (7, "a2", [0, 1]),
            (8, "a2", (0, 0, STABLE, {0: 0, 1: 0}, {})),
            (5, "a2", "i", ("u",), None),
            (3, 4),
            (8, "a2", (3, 0, STABLE, {}, {})),
        ],
    ]


def test_another_instance_id_is_written_without_an_epoch() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    world.join("a", "t", instance_id="k")
    world.join("a", "t")
    assert rows(world)[1:] == [[(5, "a", "k", ("t",), None)]]
