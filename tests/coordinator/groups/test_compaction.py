"""A log of groups of every kind says the same wherever it is compacted: groups that changed their kind, and that ended."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Final

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.records.batch import build_key_value_batch, parse_batch_header, set_base_offset
from kshim_protocol.records.record import iter_records
from tests.coordinator.groups.consumer.test_golden_migration import GOLDEN
from tests.coordinator.groups.consumer.test_heartbeat import INTERVAL_MS, World
from tests.coordinator.groups.consumer.test_migration import Classic, assigned
from tests.coordinator.groups.test_replay import facts, in_runs

KINDS = {"up-and-down": "classic", "upgraded": "consumer", "made-new": "consumer", "made-classic": "classic"}
"""The groups that are left at the end of the log, and their kinds."""


@cache
def batches_of_all_kinds() -> tuple[bytes, ...]:
    """What a coordinator wrote about groups that go both ways, and about some that end."""
    world = World({"t": 3, "u": 4}, offsets_topic_num_partitions=1)
    everything = {"t": [0, 1, 2]}

    def classic(group_id: str, **options: str) -> Classic:
        member = Classic(world, f"c-{group_id}", group_id=group_id, **options)
        settle(member)
        return member

    def settle(member: Classic) -> None:
        member.joined()
        member.send_sync({member.member_id: assigned(everything)}, protocol_type="consumer")

    def joins(group_id: str, member_id: str, **fields: str) -> None:
        assert world.join(member_id, "t", group_id=group_id, **fields).error is ErrorCode.NONE

    there_and_back = classic("up-and-down")
    there_and_back.commit({("t", 0): 5})
    upgraded = classic("upgraded")
    joins("made-classic", "m")
    joins("ended", "e")
    joins("up-and-down", "n")
    there_and_back.joined()
    there_and_back.synced()
    joins("upgraded", "n")
    world.heartbeat("m", -1, group_id="made-classic")
    classic("made-classic", instance_id="i").commit({("t", 1): 7})
    world.heartbeat("n", 2, owned={}, group_id="up-and-down")
    there_and_back.commit({("t", 0): 6})
    world.heartbeat("n", -1, group_id="up-and-down")
    settle(there_and_back)
    classic("made-new").leave()
    joins("made-new", "a", instance_id="i")
    joins("made-new", "b")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 2, instance_id="i", group_id="made-new")
    world.heartbeat("a", 2, instance_id="i", group_id="made-new", owned={"t": [0]})
    world.heartbeat("a", -2, instance_id="i", group_id="made-new")
    upgraded.owns({"t": [0, 1]})
    upgraded.joined()
    world.heartbeat("e", -1, group_id="ended")
    classic("ended-too").leave()
    world.ask(DeleteGroupsRequest(groups_names=("ended", "ended-too")), 2)
    ((_, batches),) = world.logs.items()
    return tuple(batches)


def log_of_all_kinds() -> tuple[bytes, ...]:
    """The same, one batch for each record: compaction looks at records, not at what was written together."""
    return one_record_each(batches_of_all_kinds())


@cache
def golden_log(scene: str) -> tuple[bytes, ...]:
    """What a live Kafka wrote."""
    pairs = [(bytes.fromhex(k), None if v is None else bytes.fromhex(v)) for k, v in GOLDEN[scene]["records"]]
    return tuple(set_base_offset(build_key_value_batch([pair], 1), offset) for offset, pair in enumerate(pairs))


def one_record_each(batches: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(
        set_base_offset(build_key_value_batch([(record.key or b"", record.value)], record.timestamp_ms), record.offset)
        for batch in batches
        for record in iter_records(batch)
    )


def compacted(log: tuple[bytes, ...], *, keeps_tombstones: bool) -> tuple[bytes, ...]:
    """The last record of each key, where it is."""
    last = {}
    for batch in log:
        [record] = iter_records(batch)
        last[record.key] = record
    kept = {record.offset for record in last.values() if keeps_tombstones or record.value is not None}
    return tuple(batch for batch in log if parse_batch_header(batch).base_offset in kept)


LOGS: Final[dict[str, Callable[[], tuple[bytes, ...]]]] = {
    "all-kinds": log_of_all_kinds,
    **{name: partial(golden_log, name) for name in ("there_and_back", "replaced")},
}


def state(log: tuple[bytes, ...]) -> dict[str, object]:
    """What a log says; how many of its records are of no importance is left out."""
    found = facts(in_runs(log, 7))
    del found["skipped"]
    return found


def test_the_log_has_groups_that_went_both_ways_and_groups_that_ended() -> None:
    found = in_runs(log_of_all_kinds(), 1)
    assert {group_id: group.kind.value for group_id, group in found.groups.items()} == KINDS


@pytest.mark.parametrize("keeps_tombstones", [True, False])
@pytest.mark.parametrize("name", LOGS)
def test_a_log_that_is_compacted_up_to_anywhere_says_the_same(name: str, *, keeps_tombstones: bool) -> None:
    log = LOGS[name]()
    whole = state(log)
    for end in range(len(log) + 1):
        clean = compacted(log[:end], keeps_tombstones=keeps_tombstones)
        assert state(clean + log[end:]) == whole, end


@pytest.mark.parametrize("keeps_tombstones", [True, False])
def test_a_log_that_ends_with_any_batch_says_the_same_once_it_is_compacted(*, keeps_tombstones: bool) -> None:
    batches = batches_of_all_kinds()
    for end in range(len(batches) + 1):
        log = one_record_each(batches[:end])
        assert state(compacted(log, keeps_tombstones=keeps_tombstones)) == state(log), end
