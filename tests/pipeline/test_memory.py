"""What the detector keeps of a group, and when it tells an incident."""

from __future__ import annotations

import json
from typing import Any

from kshim.explain.sources.group_records import GroupRecords
from kshim_pipeline.detector.memory import SETTLED_MS, Alert, Memory, Row
from kshim_protocol.codec import codec
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from kshim_protocol.internal.group_metadata import GroupMetadataValue, MemberMetadata
from kshim_protocol.internal.records import build_group_metadata_key, build_offset_commit_key, build_offset_commit_value
from kshim_protocol.records.record import Record
from tests.explain.test_epochs import two_members
from tests.history.told import told

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
START = 1_795_000_000_000
SESSION_MS = 10 * SECOND
SUBSCRIPTION = b"\0\0" + codec(ConsumerProtocolSubscription, 0).build(ConsumerProtocolSubscription(topics=("t",)))


def group_row(offset: int, at_ms: int, generation: int, *clients: str, owns: tuple[int, ...] = ()) -> Row:
    """The record of a rebalance that has ended. What stands behind a # tells a member from others of its client; `owns`: a partition of each."""
    members = tuple(
        MemberMetadata(
            member_id=f"{client}-id",
            client_id=client.partition("#")[0],
            client_host="/10.0.0.1",
            rebalance_timeout=60_000,
            session_timeout=SESSION_MS,
            subscription=SUBSCRIPTION,
            assignment=assignment(*owns[place : place + 1]),
        )
        for place, client in enumerate(clients)
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=generation, protocol="range", leader=f"{clients[0]}-id",
        current_state_timestamp=START + at_ms, members=members,
    )  # fmt: skip
    return Row(
        START + at_ms, offset, build_group_metadata_key("billing"), b"\0\3" + codec(GroupMetadataValue, 3).build(value)
    )


def assignment(*partitions: int) -> bytes:
    value = ConsumerProtocolAssignment(assigned_partitions=(TopicPartition(topic="t", partitions=partitions),))
    return b"\0\0" + codec(ConsumerProtocolAssignment, 0).build(value)


def commit_row(offset: int, at_ms: int, partition: int = 0) -> Row:
    value = build_offset_commit_value(offset=offset, leader_epoch=-1, metadata="", commit_timestamp_ms=START + at_ms)
    return Row(START + at_ms, offset, build_offset_commit_key("billing", "t", partition), value)


def event_rows(documents: list[dict[str, Any]]) -> list[Row]:
    return [
        Row(document["ts_ms"], offset, b"g", json.dumps(document).encode()) for offset, document in enumerate(documents)
    ]


def causes(alerts: list[Alert]) -> list[str]:
    return [alert.document["cause"] for alert in alerts]


def a_group() -> Memory:
    """Two members, half an hour old."""
    memory = Memory("billing")
    memory.add([group_row(0, 0, 1, "ann"), group_row(1, 500, 2, "ann", "ben")], [])
    assert causes(memory.told(START + 30 * MINUTE, START)) == ["one_by_one_start"]
    return memory


def test_an_incident_is_told_once_when_nothing_was_added_for_a_while() -> None:
    memory = a_group()
    memory.add([group_row(2, 40 * MINUTE, 3, "ann", "ben", "cleo")], [])
    assert memory.told(START + 40 * MINUTE + SETTLED_MS - 1, START) == []
    assert memory.is_waiting
    [alert] = memory.told(START + 40 * MINUTE + SETTLED_MS, START)
    assert (alert.document["cause"], alert.document["clients"]) == ("scale_up", ["cleo@10.0.0.1"])
    assert alert.document["id"] == alert.identity
    assert not memory.is_waiting
    assert memory.told(START + 41 * MINUTE, START) == []


def test_what_is_kept_in_a_store_is_all_that_is_needed() -> None:
    memory = Memory("billing", a_group().packed)
    memory.add([group_row(2, 40 * MINUTE, 3, "ann", "ben", "cleo")], [])
    memory = Memory("billing", memory.packed)
    assert memory.is_waiting
    first = memory.told(START + 41 * MINUTE, START)
    assert causes(first) == ["scale_up"]
    again = Memory("billing", memory.packed)
    assert again.told(START + 42 * MINUTE, START) == []
    again.add([group_row(3, 50 * MINUTE, 4, "ann", "ben", "cleo", "dan")], [])
    [second] = again.told(START + 51 * MINUTE, START)
    assert second.document["clients"] == ["dan@10.0.0.1"]
    assert second.identity != first[0].identity


def test_what_happened_before_the_watch_began_is_not_told() -> None:
    memory = Memory("billing")
    memory.add([group_row(0, 0, 1, "ann"), group_row(1, 500, 2, "ann", "ben")], [])
    assert memory.told(START + HOUR, START + MINUTE) == []
    memory.add([group_row(2, 2 * HOUR, 3, "ann", "ben", "cleo")], [])
    assert causes(memory.told(START + 3 * HOUR, START + MINUTE)) == ["scale_up"], "the watch was away meanwhile"


def test_commits_are_no_news_and_tell_how_a_member_was_gone() -> None:
    for silent_ms, expected in ((SESSION_MS, "killed"), (0, "scale_down")):
        memory = Memory("billing")
        memory.add([group_row(0, 0, 1, "ann", owns=(0,)), group_row(1, 500, 2, "ann", "ben", owns=(1, 0))], [])
        memory.told(START + MINUTE, START)
        gone_ms = 10 * MINUTE
        for at_ms in range(MINUTE, gone_ms, SECOND):
            partitions = (0, 1) if at_ms < gone_ms - silent_ms else (1,)
            memory.add([commit_row(at_ms + each, at_ms, each) for each in partitions], [])
        assert not memory.is_waiting
        assert len(memory.packed) < 5_000
        memory.add([group_row(gone_ms, gone_ms, 3, "ann", owns=(0, 1))], [])
        [alert] = memory.told(START + HOUR, START)
        assert alert.document["cause"] == expected


def test_a_group_that_is_in_a_rebalance_has_no_incident_that_has_ended() -> None:
    rows = event_rows(told(two_members()))
    begun_ms, ended_ms = rows[0].ts_ms, rows[-1].ts_ms
    memory = Memory("g")
    memory.add([], rows[:-2])
    assert memory.told(ended_ms + HOUR, begun_ms) == []
    assert memory.is_waiting
    memory.add([], rows[-2:])
    assert causes(memory.told(ended_ms + SETTLED_MS, begun_ms)) == ["one_by_one_start"]


def test_what_is_no_event_costs_nothing_else() -> None:
    memory = a_group()
    memory.add([], [Row(START + 31 * MINUTE, 9, b"billing", b"{"), Row(START + 31 * MINUTE, 10, b"billing", None)])
    assert memory.told(START + 40 * MINUTE, START) == []


def test_a_day_of_a_restless_group_takes_a_bounded_memory_and_each_change_is_told_once() -> None:
    memory = Memory("billing")
    sizes, alerts, offset = [], [], 0
    for minute in range(0, 24 * 60, 3):
        at_ms = minute * MINUTE
        clients = ["ann", "ben", *(["cleo#" + str(minute)] if minute % 2 else [])]
        memory.add([group_row(offset, at_ms, minute + 1, *clients)], [])
        memory.add([commit_row(offset + 1 + each, at_ms + each * SECOND) for each in range(60)], [])
        offset += 100
        alerts += memory.told(START + at_ms + SETTLED_MS, START)
        memory = Memory("billing", memory.packed)
        sizes.append(len(memory.packed))
    assert max(sizes[200:]) < 1.2 * max(sizes[20:40])
    assert max(sizes) < 50_000
    assert len({alert.identity for alert in alerts}) == len(alerts)
    assert 400 < len(alerts) < 500, "it comes and goes every three minutes"


def test_what_is_known_differently_because_older_things_were_forgotten_is_no_news() -> None:
    memory = Memory("billing")
    found: list[str] = []
    for hour in range(12):
        clients = ["ann", "ben", *(f"c{number}" for number in range(hour))]
        memory.add([group_row(100 * hour, hour * HOUR, hour + 1, *clients, owns=tuple(range(len(clients))))], [])
        found += causes(memory.told(START + hour * HOUR + MINUTE, START + MINUTE))
        commits = range(hour * HOUR + MINUTE, (hour + 1) * HOUR, MINUTE)
        memory.add([commit_row(100 * hour + 1 + place, at_ms) for place, at_ms in enumerate(commits)], [])
    assert found == ["scale_up"] * 11


def test_records_of_a_group_are_those_that_a_reader_of_the_topic_understands() -> None:
    records = GroupRecords(None, 10)
    for row in (group_row(0, 0, 1, "ann"), commit_row(1, SECOND)):
        records.add(Record(row.key, row.value, timestamp_ms=row.ts_ms, offset=row.offset))
    assert list(records.snapshots) == ["billing"]
    assert list(records.commits["billing"]) == [("t", 0)]
