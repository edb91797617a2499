"""Decoding by columns gives what kshim_protocol gives, for every record."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshim_pipeline.decode import columns, decode, decode_batches, store_batches
from kshim_pipeline.decode.epochs import EPOCH_KINDS
from kshim_pipeline.decode.rows import decode_row
from kshim_pipeline.records import DECODED, DECODER, KINDS, RECORDS, STORED, WISH
from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from kshim_protocol.internal.group_metadata import GroupMetadataValue, MemberMetadata
from kshim_protocol.internal.record_types import RECORD_TYPES, build_versioned_value
from kshim_protocol.internal.records import (
    build_group_metadata_key,
    build_group_metadata_value,
    build_offset_commit_key,
    build_offset_commit_value,
)
from kshim_protocol.internal.share_group import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from tests.pipeline.offsets_records import Bytes, damaged_records, encoded, whole_records
from tests.protocol import golden

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_KAFKA = {
    record["case"]: Bytes(
        bytes.fromhex(record["keyHex"]), None if record["valueHex"] is None else bytes.fromhex(record["valueHex"])
    )
    for record in golden.load("consumer_offsets.json")["records"]
    if record["recordType"] != "control"
}
GOLDEN = list(OF_KAFKA.values())
CARRIED = ("partition", "offset", "timestamp_ms", "source", "key_type", "value_version", "is_tombstone", "raw_value")
COMMIT = Bytes(
    build_offset_commit_key("g", "orders", 3),
    build_offset_commit_value(offset=5, leader_epoch=2, metadata="m", commit_timestamp_ms=1_000),
)


def a_batch(records: Sequence[Bytes]) -> pa.RecordBatch:
    """The records, offsets counting from 100."""
    count = len(records)
    return pa.record_batch(
        {
            "partition": pa.array([7] * count, pa.int32()),
            "offset": pa.array(range(100, 100 + count), pa.int64()),
            "timestamp_ms": pa.array(range(count), pa.int64()),
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "source": pa.array(["test"] * count),
        }
    )


def by_columns(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Decoded, in the order of offsets."""
    rows: list[dict[str, Any]] = [row for made in decode_batches([batch]) for row in made.to_pylist()]
    return sorted(rows, key=lambda row: int(row["offset"]))


def by_the_protocol(records: Sequence[Bytes]) -> list[dict[str, Any]]:
    """The same from kshim_protocol, one record at a time."""
    empty = dict.fromkeys(name for name in DECODED.names if name != "topic")
    return [
        empty | {"partition": 7, "offset": 100 + at, "timestamp_ms": at, "source": "test"} | decode_row(*record)
        for at, record in enumerate(records)
    ]


@given(st.lists(st.one_of(whole_records(), whole_records(), damaged_records()), min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_columns_are_equal_to_what_kshim_protocol_reads(records: list[Bytes]) -> None:
    assert by_columns(a_batch(records)) == by_the_protocol(records)


def test_records_of_kafka_are_equal_too() -> None:
    assert by_columns(a_batch(GOLDEN)) == by_the_protocol(GOLDEN)
    assert {row["kind"] for row in by_columns(a_batch(GOLDEN))} >= {"offset_commit", "group_metadata"}


def test_a_part_of_a_batch_is_decoded_like_a_whole_one() -> None:
    whole = a_batch([*GOLDEN, COMMIT])
    assert by_columns(whole.slice(3, 20)) == by_columns(whole)[3:23]


def test_small_batches_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_GATHERED_ROWS", 25)
    whole = a_batch([*GOLDEN, COMMIT])
    parts = [whole.slice(at, 10) for at in range(0, whole.num_rows, 10)]
    rows = [row for made in decode_batches(parts) for row in made.to_pylist()]
    assert sorted(rows, key=lambda row: int(row["offset"])) == by_columns(whole)


def test_columns_stand_beside_the_bytes_and_records_of_other_topics_are_kept_as_they_are() -> None:
    """What `land` stores: each record once, its bytes unchanged, in batches of any size."""
    records = [*GOLDEN, COMMIT, Bytes(None, b"x"), Bytes(b"\0\x63", None)]
    batch = a_batch(records)
    topics = [EVENTS_TOPIC if at % 5 == 2 else OFFSETS_TOPIC for at in range(len(records))]
    batch = batch.add_column(0, "topic", pa.array(topics))
    parts = [batch.slice(at, 7) for at in range(0, batch.num_rows, 7)]
    stored = pa.Table.from_batches(list(store_batches(parts)))
    assert stored.schema.names == STORED.names
    rows = sorted(stored.to_pylist(), key=lambda row: int(row["offset"]))
    assert [{name: row[name] for name in RECORDS.names} for row in rows] == [
        {name: row[name] for name in RECORDS.names} for row in batch.to_pylist()
    ]
    decoded = dict(enumerate(by_the_protocol(records)))
    for at, row in enumerate(rows):
        columns = {name: row[name] for name in DECODED.names if name not in RECORDS.names}
        if topics[at] == OFFSETS_TOPIC:
            assert columns == {name: decoded[at][name] for name in columns}
        else:
            assert set(columns.values()) == {None}


def test_a_mistake_of_the_decoder_loses_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it takes every record with a certain value for one that it cannot have."""
    whole = decode_row

    def fails(key: bytes | None, value: bytes | None) -> dict[str, Any]:
        if value == b"trap":
            raise ZeroDivisionError("division by zero")
        return whole(key, value)

    monkeypatch.setattr(columns, "decode_row", fails)
    records = [*GOLDEN, COMMIT, Bytes(b"\0\x63", b"trap"), a_group(2)]
    batch = a_batch(records).add_column(0, "topic", pa.array([OFFSETS_TOPIC] * len(records)))
    rows = sorted(pa.Table.from_batches(list(store_batches([batch]))).to_pylist(), key=lambda row: int(row["offset"]))
    assert [(row["key"], row["value"]) for row in rows] == list(map(tuple, records))
    failed = rows.pop(-2)
    assert failed["kind"] == "unreadable"
    assert "the decoder failed: ZeroDivisionError('division by zero')" in failed["problem"]
    names = [name for name in DECODED.names if name not in ("topic", "offset", "timestamp_ms")]
    expected = by_the_protocol([*GOLDEN, COMMIT, a_group(2)])
    assert [[row[name] for name in names] for row in rows] == [[row[name] for name in names] for row in expected]


def test_the_version_of_the_decoder_is_raised_with_what_it_makes() -> None:
    """Landed files name the version: those of another one are decoded again. Raise DECODER, then write down the new pair."""
    made = [STORED.names, by_columns(a_batch(GOLDEN))]
    assert (DECODER, zlib.crc32(repr(made).encode())) == (1, 414658301)


def test_common_records_are_read_by_columns_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(key: bytes | None, _: bytes | None) -> NoReturn:
        raise AssertionError(f"read one by one: {key!r}")

    monkeypatch.setattr(columns, "decode_row", never)
    records = [record for record in GOLDEN if record.key is not None and record.key[1] <= 2]
    records += [COMMIT, Bytes(COMMIT.key, None), a_group(3), a_group(4), a_group(0), *[a_group(40)] * 4]
    assert len(by_columns(a_batch(records))) == len(records)


def a_group(member_count: int) -> Bytes:
    """A group of consumers with two topics each, of which they held one before."""
    members = tuple(
        MemberMetadata(
            member_id=f"m-{at}",
            group_instance_id=f"i-{at}" if at % 2 else None,
            client_id="é",
            client_host="/10.0.0.1",
            rebalance_timeout=60_000,
            session_timeout=10_000,
            subscription=encoded(
                3,
                ConsumerProtocolSubscription(
                    topics=("t", "orders"),
                    owned_partitions=(TopicPartition(topic="t", partitions=(at,)),),
                    generation_id=4,
                    rack_id="r",
                ),
            ),
            assignment=encoded(
                1,
                ConsumerProtocolAssignment(
                    assigned_partitions=(
                        TopicPartition(topic="t", partitions=(at,)),
                        TopicPartition(topic="orders", partitions=(at, at + 100)),
                    )
                ),
            ),
        )
        for at in range(member_count)
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="m-0",
        current_state_timestamp=1_234,
        members=members,
    )
    return Bytes(build_group_metadata_key("g"), build_group_metadata_value(value))


def test_a_group_is_read_with_subscriptions_and_assignments() -> None:
    (row,) = by_columns(a_batch([a_group(2)]))
    assert (row["kind"], row["group_id"], row["generation_id"]) == ("group_metadata", "g", 5)
    assert row["members"][1] == {
        "member_id": "m-1",
        "group_instance_id": "i-1",
        "client_id": "é",
        "client_host": "/10.0.0.1",
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 10_000,
        "subscription": {
            "topics": ["t", "orders"],
            "owned": [{"topic": "t", "partitions": [1]}],
            "generation_id": 4,
            "rack_id": "r",
        },
        "assignment": [{"topic": "t", "partitions": [1]}, {"topic": "orders", "partitions": [1, 101]}],
    }


def test_one_long_group_among_short_ones_is_read_whole() -> None:
    rows = by_columns(a_batch([a_group(1), a_group(200), a_group(2)]))
    assert [len(row["members"]) for row in rows] == [1, 200, 2]
    assert rows == by_the_protocol([a_group(1), a_group(200), a_group(2)])


def test_a_commit_is_read() -> None:
    (row,) = by_columns(a_batch([COMMIT]))
    assert row["kind"] == "offset_commit"
    assert (row["committed_topic"], row["committed_partition"], row["committed_offset"]) == ("orders", 3, 5)
    assert (row["leader_epoch"], row["metadata"], row["commit_timestamp_ms"]) == (2, "m", 1_000)


def test_all_types_that_kafka_has_are_read() -> None:
    assert set(RECORD_TYPES) == set(KINDS)
    assert {number for number in KINDS if number > 2} == EPOCH_KINDS


def golden_row(case: str) -> dict[str, Any]:
    """A record of Kafka, without what every record has, and without nulls."""
    (row,) = by_columns(a_batch([OF_KAFKA[case]]))
    return {name: value for name, value in row.items() if value is not None and name not in CARRIED}


def test_records_of_a_member_of_the_new_protocol_are_read() -> None:
    member_id = "00000000-0000-0000-0000-000000000009"
    current = golden_row("ConsumerGroupCurrentMemberAssignment-pendingRevocation")
    topic_id = "acbcdd81547d4428878175205eff7402"
    assert current == {
        "kind": "consumer_group_current_member_assignment",
        "group_id": "golden-interop",
        "member_id": member_id,
        "epoch": 2,
        "previous_epoch": 2,
        "member_state": "UnrevokedPartitions",
        "owned": [{"topic_id": topic_id, "partitions": [0, 1], "epochs": [2, 2]}],
        "to_revoke": [{"topic_id": topic_id, "partitions": [2], "epochs": [2]}],
    }
    target = golden_row("ConsumerGroupTargetAssignmentMember")
    assert (target["kind"], target["member_id"]) == ("consumer_group_target_assignment_member", member_id)
    assert target["owned"] == [{"topic_id": topic_id, "partitions": [0, 1, 2], "epochs": []}]
    assert golden_row("ConsumerGroupMemberMetadata-classicMember")["wish"] == {
        "group_instance_id": None,
        "rack_id": None,
        "client_id": "probe",
        "client_host": "/127.0.0.1",
        "topics": ["t1"],
        "topic_regex": "",
        "rebalance_timeout_ms": 5_000,
        "server_assignor": None,
        "session_timeout_ms": 10_000,
        "process_id": None,
        "endpoint": None,
    }


def test_records_of_a_group_of_the_new_protocol_are_read() -> None:
    assert golden_row("ConsumerGroupMetadata") == {
        "kind": "consumer_group_metadata",
        "group_id": "k-7f8e",
        "epoch": 2,
        "metadata_hash": -2_652_904_633_552_283_203,
    }
    assert golden_row("ConsumerGroupTargetAssignmentMetadata") == {
        "kind": "consumer_group_target_assignment_metadata",
        "group_id": "k-7f8e",
        "epoch": 2,
        "computed_ms": 1_795_229_257_965,
    }
    assert golden_row("ConsumerGroupRegularExpression") == {
        "kind": "consumer_group_regular_expression",
        "group_id": "golden-consumer",
        "topic_regex": "t[12]",
        "topics": ["t1", "t2"],
        "metadata_version": 1115,
        "resolved_ms": 1_795_229_376_357,
    }
    assert golden_row("ConsumerGroupMetadata-tombstone") == {
        "kind": "consumer_group_metadata",
        "group_id": "golden-interop",
    }


def test_records_of_a_share_group_of_kafka_are_read() -> None:
    of_group = {"group_id": "golden-share"}
    of_member = of_group | {"member_id": "00000000-0000-0000-0000-000000000003"}
    member = golden_row("ShareGroupMemberMetadata")
    assert member.pop("wish") == dict.fromkeys(WISH.names) | {
        "client_id": "probe",
        "client_host": "/127.0.0.1",
        "topics": ["t1"],
    }
    assert member == of_member | {"kind": "share_group_member_metadata"}
    assert golden_row("ShareGroupMetadata") == of_group | {
        "kind": "share_group_metadata",
        "epoch": 2,
        "metadata_hash": -2_652_904_633_552_283_203,
    }
    assert golden_row("ShareGroupTargetAssignmentMetadata") == of_group | {
        "kind": "share_group_target_assignment_metadata",
        "epoch": 2,
        "computed_ms": 1_795_229_379_701,
    }
    assert golden_row("ShareGroupCurrentMemberAssignment") == of_member | {
        "kind": "share_group_current_member_assignment",
        "epoch": 2,
        "previous_epoch": 0,
        "member_state": "Stable",
        "owned": [],
    }
    topic = {"topic_id": "acbcdd81547d4428878175205eff7402", "topic": "t1", "partitions": [0, 1, 2]}
    assert golden_row("ShareGroupStatePartitionMetadata") == of_group | {
        "kind": "share_group_state_partition_metadata",
        "share_partitions": [topic | {"state": "initializing"}],
    }
    assert golden_row("ShareGroupMemberMetadata-tombstone") == of_member | {"kind": "share_group_member_metadata"}


def test_topics_whose_share_state_is_deleted_are_told_apart() -> None:
    of_topic: dict[str, Any] = {"topic_id": bytes(15) + b"\x01", "topic_name": "orders"}
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=(),
        initialized_topics=(TopicPartitionsInfo(**of_topic, partitions=(3,)),),
        deleting_topics=(TopicInfo(**of_topic),),
    )
    (row,) = by_columns(a_batch([Bytes(b"\0\x0f\0\1g", build_versioned_value(value))]))
    assert [(each["state"], each["topic"], each["partitions"]) for each in row["share_partitions"]] == [
        ("initialized", "orders", [3]),
        ("deleting", "orders", []),
    ]


def streams_rows(scene: str) -> list[dict[str, Any]]:
    """The records of a scene with a streams group that Kafka wrote, in order, as `golden_row`."""
    pairs = golden.load("streams_groups.json")[scene]["records"]
    records = [Bytes(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) for key, value in pairs]
    return [
        {name: value for name, value in row.items() if value is not None and name not in CARRIED}
        for row in by_columns(a_batch(records))
    ]


def test_records_of_a_streams_group_of_kafka_are_read() -> None:
    rows = streams_rows("endpoints")
    group, member_id = {"group_id": "golden-endpoints-g"}, {"member_id": "a"}
    member, topology, epoch, target, computed, current = rows[:6]
    assert member.pop("wish") == dict.fromkeys(WISH.names) | {
        "client_id": "streams-scene",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 60_000,
        "process_id": "process-a",
        "endpoint": "host-a:8080",
    }
    assert member == group | member_id | {"kind": "streams_group_member_metadata", "topology_epoch": 0}
    assert topology["kind"] == "streams_group_topology"
    assert [
        (part["subtopology_id"], part["source_topics"], part["state_changelog_topics"])
        for part in topology["subtopologies"]
    ] == [
        ("0", ["golden-endpoints-t", "golden-endpoints-u"], ["golden-endpoints-store"]),
        ("1", ["golden-endpoints-u"], []),
    ]
    assert epoch == group | {
        "kind": "streams_group_metadata",
        "epoch": 2,
        "metadata_hash": 665_761_879_966_969_186,
        "topology_epoch": 0,
    }
    tasks = [
        {"role": "active", "subtopology_id": "0", "partitions": [0, 1, 2]},
        {"role": "active", "subtopology_id": "1", "partitions": [0, 1]},
    ]
    of_target = {"kind": "streams_group_target_assignment_member", "tasks": [task | {"epochs": []} for task in tasks]}
    assert target == group | member_id | of_target
    of_computed = {"kind": "streams_group_target_assignment_metadata", "epoch": 2, "computed_ms": 1_795_634_907_710}
    assert computed == group | of_computed
    assert current == group | member_id | {
        "kind": "streams_group_current_member_assignment",
        "epoch": 2,
        "previous_epoch": 0,
        "member_state": "Stable",
        "tasks": [task | {"epochs": [2] * len(task["partitions"])} for task in tasks],
        "tasks_to_revoke": [],
    }


def test_tasks_that_a_member_has_to_give_up_and_standby_tasks_are_read() -> None:
    rows = streams_rows("endpoints")
    unrevoked = next(row for row in rows if row.get("member_state") == "UnrevokedTasks")
    assert [(task["subtopology_id"], task["partitions"]) for task in unrevoked["tasks_to_revoke"]] == [
        ("0", [2]),
        ("1", [1]),
    ]
    assert [task["partitions"] for task in unrevoked["tasks"] if task["role"] == "standby"] == [[2]]


def test_every_record_of_every_streams_group_of_kafka_is_read() -> None:
    scenes = [name for name, scene in golden.load("streams_groups.json").items() if "records" in scene]
    rows = [row for scene in scenes for row in streams_rows(scene)]
    assert len(rows) > 100
    assert "unreadable" not in {row["kind"] for row in rows}
    assert {row["kind"] for row in rows} >= {kind for kind in KINDS.values() if kind.startswith("streams_group")}


def test_a_commit_is_read_with_the_id_of_its_topic() -> None:
    value = build_offset_commit_value(
        offset=5, leader_epoch=2, metadata="", commit_timestamp_ms=1_000, topic_id=b"0123456789abcdef"
    )
    with_id, without = by_columns(a_batch([Bytes(COMMIT.key, value), COMMIT]))
    assert (with_id["committed_topic_id"], with_id["commit_timestamp_ms"]) == (b"0123456789abcdef", 1_000)
    assert without["committed_topic_id"] is None


def test_unknown_and_unreadable_records_are_rows_with_the_reason() -> None:
    unknown_version = Bytes(COMMIT.key, b"\0\x09")
    rows = by_columns(a_batch([Bytes(b"\0\x63", None), unknown_version, Bytes(None, b"x"), Bytes(b"\0", b"x")]))
    assert [row["kind"] for row in rows] == ["unknown", "unreadable", "unreadable", "unreadable"]
    assert rows[1]["value_version"] == 9
    assert rows[1]["group_id"] == "g"
    assert "unknown version 9" in rows[1]["problem"]


def test_it_runs_in_workers_of_spark_and_leaves_other_topics_out(spark: SparkSession) -> None:
    records = [a_group(3), COMMIT, Bytes(b"\0\x63", None)]
    rows = [{"topic": OFFSETS_TOPIC, **row} for row in a_batch(records).to_pylist()]
    rows.append({**rows[0], "topic": "__kshim_events", "offset": 200})
    found = decode(spark.createDataFrame([tuple(row[name] for name in RECORDS.names) for row in rows], RECORDS))
    assert found.schema.names == DECODED.names
    expected = [{"topic": OFFSETS_TOPIC, **row} for row in by_columns(a_batch(records))]
    assert [row.asDict(recursive=True) for row in found.orderBy("offset").collect()] == expected
