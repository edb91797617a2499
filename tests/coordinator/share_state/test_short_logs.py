"""The log of a shard stays short: cold share partitions are written again, and what is behind all snapshots is removed."""

from __future__ import annotations

from kshim.coordinator.step import Step
from kshim_protocol.errors import ErrorCode
from tests.coordinator.harness import START_WALL_MS
from tests.coordinator.share_state.test_share_state_coordinator import T, World, state_of_the_only_partition

FIVE_MINUTES = 300_000


def a_world(**config: int) -> World:
    """All share partitions are in one log."""
    return World(state_topic_num_partitions=1, **config)


def accept(world: World, partition: int, *offsets: int) -> None:
    """Each is a record."""
    for offset in offsets:
        assert world.write(partition, 1, 0, -1, 0, (offset, offset, 2, 1)) == "done"


def kinds(world: World) -> list[str]:
    return [record.split()[0] for record in world.records()]


# Cold share partitions


def test_a_share_partition_whose_snapshot_is_five_minutes_old_is_written_again_as_it_is() -> None:
    world = a_world()
    world.initialize(0, 1, 7)
    accept(world, 0, 8, 9)
    world.pass_ms(FIVE_MINUTES - 1)
    assert kinds(world) == ["snapshot", "update", "update"]
    world.pass_ms(1)
    assert world.records()[-1] == "snapshot 1 state 1 leader 0 from 7 done 0 8-9:2x1"
    found = state_of_the_only_partition(world)
    assert (found.create_ms, found.write_ms) == (START_WALL_MS, START_WALL_MS + FIVE_MINUTES)
    assert world.read(0, 0) == "state 1 from 7 8-9:2x1"


def test_a_younger_snapshot_stays() -> None:
    world = a_world()
    world.initialize(0, 1, 0)
    world.pass_ms(1)
    world.initialize(1, 1, 0)
    world.pass_ms(FIVE_MINUTES - 1)
    assert kinds(world) == ["snapshot", "snapshot", "snapshot"]
    world.pass_ms(FIVE_MINUTES)
    assert world.records()[-2:] == [
        "snapshot 2 state 1 leader 0 from 0 done 0 ",
        "snapshot 1 state 1 leader 0 from 0 done 0 ",
    ]


def test_where_all_were_written_again_nothing_is_until_one_has_another_snapshot() -> None:
    world = a_world(snapshot_update_records_per_snapshot=2)
    world.initialize(0, 1, 0)
    world.initialize(1, 1, 0)
    world.pass_ms(3 * FIVE_MINUTES)
    assert world.records() == ["snapshot 1 state 1 leader 0 from 0 done 0 "] * 2
    accept(world, 0, 0, 1)
    world.pass_ms(3 * FIVE_MINUTES)
    assert kinds(world) == ["snapshot", "snapshot", "update", "update"]
    accept(world, 0, 2)
    world.pass_ms(FIVE_MINUTES)
    assert world.records()[-2:] == [
        "snapshot 3 state 1 leader 0 from 0 done 0 0-2:2x1",
        "snapshot 2 state 1 leader 0 from 0 done 0 ",
    ]


def test_what_cannot_be_written_again_stays_and_is_tried_later() -> None:
    world = a_world()
    world.initialize(0, 1, 0)
    world.append_errors.append(ErrorCode.KAFKA_STORAGE_ERROR)
    world.pass_ms(FIVE_MINUTES)
    assert kinds(world) == ["snapshot"]
    assert state_of_the_only_partition(world).write_ms == START_WALL_MS
    world.pass_ms(FIVE_MINUTES)
    assert kinds(world) == ["snapshot", "snapshot"]


# What is removed


def test_the_log_begins_with_the_snapshot_of_the_share_partition_that_was_written_the_longest_time_ago() -> None:
    world = a_world(snapshot_update_records_per_snapshot=2)
    world.initialize(0, 1, 0)
    world.initialize(1, 1, 0)
    accept(world, 0, 0, 1, 2, 3)  # a snapshot at offset 4
    accept(world, 1, 0, 1, 2, 3)  # one at 8
    world.pass_ms(FIVE_MINUTES)
    assert world.starts == {0: 4}
    assert kinds(world)[0] == "snapshot"
    world.restart()
    assert world.read(0, 0) == world.read(1, 0) == "state 1 from 0 0-3:2x1"


def test_a_share_partition_that_has_ended_keeps_nothing() -> None:
    world = a_world()
    world.initialize(0, 1, 0)
    accept(world, 0, 0, 1)
    world.initialize(1, 1, 0)
    world.delete(0)
    world.pass_ms(FIVE_MINUTES)
    assert world.starts == {0: 3}


def test_of_a_log_whose_share_partitions_have_all_ended_the_last_end_is_left() -> None:
    world = a_world()
    world.initialize(0, 1, 0)
    world.initialize(1, 1, 0)
    world.delete(0)
    world.delete(1)
    world.pass_ms(FIVE_MINUTES)
    assert world.starts == {0: 3}
    assert world.records() == ["end"]


def test_a_log_that_begins_with_what_is_needed_stays_as_it_is() -> None:
    world = a_world()
    world.initialize(0, 1, 0)
    accept(world, 0, *range(3))
    world.pass_ms(FIVE_MINUTES)
    assert world.starts == {}


def test_what_was_needed_before_a_restart_is_known_after_it() -> None:
    world = a_world(snapshot_update_records_per_snapshot=2)
    world.initialize(0, 1, 0)
    accept(world, 0, 0, 1, 2, 3)
    world.restart()
    world.pass_ms(FIVE_MINUTES)
    assert world.starts == {0: 3}
    world.restart()
    accept(world, 0, 4, 5)
    assert world.read(0, 0) == "state 1 from 0 0-5:2x1"
    world.pass_ms(2 * FIVE_MINUTES)
    assert kinds(world) == ["snapshot"]


def test_ends_that_were_read_from_the_log_are_removed_but_for_the_last() -> None:
    world = a_world()
    world.initialize(0, 1, 0)
    world.delete(0)
    world.restart()
    world.pass_ms(FIVE_MINUTES)
    assert world.starts == {0: 1}


def test_both_intervals_can_be_set() -> None:
    world = a_world(state_topic_prune_interval_ms=3_000, cold_partition_snapshot_interval_ms=1_000)
    world.initialize(0, 1, 0)
    world.pass_ms(1_000)
    assert kinds(world) == ["snapshot", "snapshot"]
    world.pass_ms(2_000)
    assert kinds(world) == ["snapshot"]


# Timers


def test_a_shard_without_share_partitions_has_no_timer() -> None:
    world = a_world()
    world.summary(0)
    assert world.coordinator.next_deadline() is None
    world.initialize(0, 1, 0)
    world.delete(0)
    world.pass_ms(FIVE_MINUTES)
    assert world.coordinator.next_deadline() is None
    world.restart()
    world.pass_ms(FIVE_MINUTES)
    assert world.coordinator.next_deadline() is None
    world.initialize(0, 1, 0)
    assert world.coordinator.next_deadline() == world.now.mono_ms + FIVE_MINUTES


def test_the_end_of_all_share_partitions_and_a_new_one_begin_no_second_timer() -> None:
    world = a_world()
    world.initialize(0, 1, 0)
    world.pass_ms(1_000)
    for step in world.coordinator.topics_deleted([T], world.now):
        world.apply(step)
    world.initialize(0, 1, 0)
    assert world.coordinator.next_deadline() == world.now.mono_ms + FIVE_MINUTES - 1_000


def test_a_shard_that_is_unloaded_has_no_timer() -> None:
    world = a_world()
    world.initialize(0, 1, 0)
    assert isinstance(world.coordinator.unload(0), Step)
    world.pass_ms(2 * FIVE_MINUTES)
    assert kinds(world) == ["snapshot"]
    world.coordinator.begin_load(0)
    world.coordinator.replay(0, world.logs[0])
    world.apply(world.coordinator.finish_load(0, world.now))
    world.pass_ms(FIVE_MINUTES)
    assert kinds(world) == ["snapshot", "snapshot"]
