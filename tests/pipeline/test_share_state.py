"""Records of `__share_group_state` as rows of the table share_state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kshim_pipeline.decode.share_state import decode_share_row, decode_share_state
from kshim_pipeline.records import RECORDS
from kshim_pipeline.schemas import SHARE_STATE
from kshim_pipeline.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from kshim_protocol.internal.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from kshim_protocol.internal.share_state_records import build_share_key, build_share_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACE: dict[str, Any] = {"group_id": "g", "topic_id": bytes(15) + b"\x01", "partition": 3}
SNAPSHOT = (
    build_share_key(ShareSnapshotKey(**PLACE)),
    build_share_value(
        ShareSnapshotValue(
            snapshot_epoch=4,
            state_epoch=2,
            leader_epoch=7,
            start_offset=5,
            create_timestamp=1_000,
            write_timestamp=2_000,
            state_batches=(),
        )
    ),
)
UPDATE = (
    build_share_key(ShareUpdateKey(**PLACE)),
    build_share_value(
        ShareUpdateValue(
            snapshot_epoch=4,
            leader_epoch=8,
            start_offset=-1,
            delivery_complete_count=5,
            state_batches=(StateBatch(first_offset=5, last_offset=9, delivery_state=2, delivery_count=1),),
        )
    ),
)
OF_PLACE = {"group_id": "g", "shared_topic_id": "00000000000000000000000000000001", "shared_partition": 3}


def test_a_snapshot_an_update_and_a_tombstone_are_read() -> None:
    assert decode_share_row(*SNAPSHOT) == OF_PLACE | {
        "is_tombstone": False,
        "kind": "share_snapshot",
        "key_type": 0,
        "snapshot_epoch": 4,
        "state_epoch": 2,
        "leader_epoch": 7,
        "start_offset": 5,
        "delivery_complete_count": -1,
        "created_ms": 1_000,
        "written_ms": 2_000,
        "batches": [],
    }
    assert decode_share_row(*UPDATE) == OF_PLACE | {
        "is_tombstone": False,
        "kind": "share_update",
        "key_type": 1,
        "snapshot_epoch": 4,
        "leader_epoch": 8,
        "start_offset": -1,
        "delivery_complete_count": 5,
        "batches": [{"first_offset": 5, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}],
    }
    tombstone = OF_PLACE | {"is_tombstone": True, "kind": "share_snapshot", "key_type": 0}
    assert decode_share_row(SNAPSHOT[0], None) == tombstone


def test_unknown_and_unreadable_records_are_rows_too() -> None:
    assert decode_share_row(b"\0\x09rest", b"x") == {"is_tombstone": False, "kind": "unknown", "key_type": 9}
    unknown_version = decode_share_row(SNAPSHOT[0], b"\0\x09")
    assert (unknown_version["kind"], unknown_version["group_id"]) == ("unreadable", "g")
    assert "unknown version 9" in unknown_version["problem"]
    assert decode_share_row(None, b"x")["kind"] == "unreadable"


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_row_of_the_table(rest: bytes, value: bytes | None) -> None:
    for front in (b"\0\0", b"\0\1", b""):
        row = decode_share_row(front + rest, value)
        assert row["kind"] in ("share_snapshot", "share_update", "unknown", "unreadable")
        assert row.keys() <= set(SHARE_STATE.names)


def test_it_runs_in_workers_of_spark_and_leaves_other_topics_out(spark: SparkSession) -> None:
    pairs = [SNAPSHOT, UPDATE, (SNAPSHOT[0], None), (b"\0\x09", b"x")]
    rows: list[Any] = [(SHARE_STATE_TOPIC, 6, at, 10 * at, key, value, "here") for at, (key, value) in enumerate(pairs)]
    rows.append((OFFSETS_TOPIC, 0, 0, 0, b"x", None, "here"))
    found = decode_share_state(spark.createDataFrame(rows, RECORDS))
    assert found.schema.names == SHARE_STATE.names
    empty = dict.fromkeys(SHARE_STATE.names)
    carried = {"topic": SHARE_STATE_TOPIC, "partition": 6, "source": "here"}
    expected = [
        empty | carried | {"offset": at, "timestamp_ms": 10 * at} | decode_share_row(*pair)
        for at, pair in enumerate(pairs)
    ]
    assert [row.asDict(recursive=True) for row in found.orderBy("offset").collect()] == expected
