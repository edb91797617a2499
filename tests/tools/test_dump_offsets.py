"""What `kshim dump-offsets` says of Kafka's own records, of damage, and of what it does not know."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kshim.tools.dump_offsets.run import run_dump_offsets
from kshim.tools.logs import SourceError
from kshim_protocol.internal.record_types import RECORD_TYPES, SHARE_STATE_TYPES
from kshim_protocol.internal.records import build_group_metadata_key, build_offset_commit_key, build_offset_commit_value
from kshim_protocol.internal.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from kshim_protocol.internal.share_state_records import build_share_key, build_share_value
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tests.tools.logs import GOLDEN_RECORDS, batch_of, golden_logs, write_log

SHARE_STATE_TOPIC = "__share_group_state"
KEY = build_offset_commit_key("g", "t", 0)
VALUE = build_offset_commit_value(offset=7, leader_epoch=-1, metadata="m", commit_timestamp_ms=5)
PAGE = Path(__file__).parents[2] / "docs" / "dump-offsets.md"


def commit(group: str, offset: int = 7) -> tuple[bytes, bytes]:
    value = build_offset_commit_value(offset=offset, leader_epoch=-1, metadata="", commit_timestamp_ms=5)
    return build_offset_commit_key(group, "t", 0), value


def dump(directory: Path, **options: Any) -> tuple[int, list[dict[str, Any]], str]:
    """(exit code, documents, what was said on stderr)."""
    stream, messages = io.StringIO(), io.StringIO()
    code = run_dump_offsets(directories=[str(directory)], output="json", stream=stream, messages=messages, **options)
    return code, [json.loads(line) for line in stream.getvalue().splitlines()], messages.getvalue()


def text(directory: Path, **options: Any) -> list[str]:
    stream = io.StringIO()
    run_dump_offsets(directories=[str(directory)], stream=stream, messages=io.StringIO(), **options)
    return stream.getvalue().splitlines()


def test_every_record_kafka_writes_is_decoded(tmp_path: Path) -> None:
    count = golden_logs(tmp_path)
    code, documents, said = dump(tmp_path)
    assert code == 0
    assert "41 records, including 12 tombstones and 2 transaction markers" in said
    assert len(documents) == count
    by_place = {(document["partition"], document["offset"]): document for document in documents}
    for record in GOLDEN_RECORDS:
        document = by_place[record["partition"], record["offset"]]
        if record["recordType"] == "control":
            expected = {"control-commit": "commit", "control-abort": "abort"}[record["case"]]
            assert (document["kind"], document["control_type"]) == ("marker", expected)
            continue
        assert (document["key"]["type"], document["key"]["name"]) == (record["keyVersion"], record["recordType"])
        assert document["key"]["group"] == (record["key"].get("group") or record["key"]["GroupId"])
        assert document["value_version"] == record["valueVersion"]
        assert (document["value"] is None) == (record["value"] is None)


def test_documents_stand_in_the_order_of_the_partitions_and_their_offsets(tmp_path: Path) -> None:
    golden_logs(tmp_path)
    _, documents, _ = dump(tmp_path)
    places = [(document["partition"], document["offset"]) for document in documents]
    assert places == sorted(places)


def test_members_subscriptions_and_assignments_are_decoded(tmp_path: Path) -> None:
    golden_logs(tmp_path)
    _, documents, _ = dump(tmp_path, group="golden-classic")
    (member,) = next(document["value"]["members"] for document in documents if document["offset"] == 1)
    assert member["client_host"] == "/127.0.0.1"
    assert (member["session_timeout_ms"], member["rebalance_timeout_ms"]) == (10_000, 5_000)
    assert member["subscription"] == {"version": 0, "topics": ["t1", "t2"], "user_data": None}
    assert member["assignment"]["assigned_partitions"] == [{"topic": "t1", "partitions": [0, 1, 2]}]


def test_a_classic_member_of_a_new_group_shows_its_subscription_and_others_none(tmp_path: Path) -> None:
    golden_logs(tmp_path)
    _, documents, _ = dump(tmp_path)
    members = [
        d["value"]["classic_member_metadata"] for d in documents if d.get("key", {}).get("type") == 5 and d["value"]
    ]
    (classic,) = [member for member in members if member is not None]
    assert classic["supported_protocols"][0]["metadata"]["topics"] == ["t1"]


def test_group_leaves_out_other_groups_and_the_markers_of_their_transactions(tmp_path: Path) -> None:
    def marker(offset: int, producer_id: int) -> bytes:
        return build_end_transaction_batch(
            EndTransactionMarker(ControlType.COMMIT, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=5,
            base_offset=offset,
        )

    pending = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    batches = [
        batch_of(0, commit("mine"), producer_id=1, **pending),
        batch_of(1, commit("other"), producer_id=2, **pending),
        marker(2, 2),
        marker(3, 1),
        marker(4, 1),
    ]
    write_log(tmp_path, 3, batches)
    _, documents, _ = dump(tmp_path, group="mine")
    assert [(document["kind"], document["offset"]) for document in documents] == [("record", 0), ("marker", 3)]
    assert documents[0]["batch"]["is_transactional"]


def test_partition_and_offsets_narrow_what_is_shown(tmp_path: Path) -> None:
    write_log(tmp_path, 0, [batch_of(0, commit("g"))])
    pairs = [commit("g", offset) for offset in range(4)]
    write_log(tmp_path, 1, [batch_of(0, *pairs)], [batch_of(4, *pairs)], bases=(0, 4))
    _, documents, _ = dump(tmp_path, partition=1, start=2, end=6)
    assert [document["offset"] for document in documents] == [2, 3, 4, 5]


@pytest.mark.parametrize("codec", Compression)
def test_compressed_batches_are_read(tmp_path: Path, codec: Compression) -> None:
    write_log(tmp_path, 0, [batch_of(0, commit("g"), (KEY, None), compression=codec)])
    code, documents, _ = dump(tmp_path)
    assert code == 0
    assert [document["batch"]["compression"] for document in documents] == [codec.name.lower()] * 2
    assert [document["value"] is None for document in documents] == [False, True]


def test_an_unknown_key_type_is_a_warning_that_is_counted(tmp_path: Path) -> None:
    write_log(tmp_path, 0, [batch_of(0, (b"\x00\x63future", b"value"), (b"\x00\x63future", None), (KEY, VALUE))])
    code, documents, said = dump(tmp_path)
    assert code == 0
    assert documents[0]["warning"] == "key type 99 is unknown"
    assert documents[0]["key"] == {"type": 99, "name": None}
    assert documents[2]["key"]["group"] == "g"
    assert "WARNING: 2 records of key type 99, which is unknown" in said
    assert "WARNING key type 99 is unknown" in text(tmp_path)[0]


def test_an_unknown_value_version_is_told_and_the_dump_goes_on(tmp_path: Path) -> None:
    write_log(tmp_path, 4, [batch_of(10, (KEY, b"\0\x63whatever"), (KEY, VALUE))])
    code, documents, said = dump(tmp_path)
    assert code == 1
    assert documents[0]["value_version"] == 99
    assert documents[0]["error"] == "OffsetCommitValue v99: version at byte 0: unknown version 99"
    assert documents[0]["key"]["group"] == "g"
    assert documents[1]["value"]["offset"] == 7
    assert "1 value of an unknown version" in said
    assert re.match(
        r" 4@10 \S+ OffsetCommit group=g topic=t partition=0 UNREADABLE value: .*unknown version 99", text(tmp_path)[0]
    )


@pytest.mark.parametrize(
    "pair", [(None, VALUE), (b"\0", VALUE), (KEY[:-1], VALUE), (KEY, VALUE + b"\0"), (KEY, b"")], ids=str
)
def test_malformed_records_are_told_and_the_dump_goes_on(tmp_path: Path, pair: tuple[bytes | None, bytes]) -> None:
    write_log(tmp_path, 0, [batch_of(0, pair, (KEY, VALUE))])
    code, documents, said = dump(tmp_path)
    assert code == 1
    assert "error" in documents[0]
    assert documents[1]["value"]["offset"] == 7
    assert "1 records or batches that are malformed" in said
    assert len(text(tmp_path)) == 2


def test_a_torn_tail_is_told_as_such(tmp_path: Path) -> None:
    whole = batch_of(0, (KEY, VALUE))
    for cut in range(1, len(whole)):
        folder = write_log(tmp_path / str(cut), 0, [whole, batch_of(1, (KEY, VALUE))[:cut]])
        code, documents, said = dump(tmp_path / str(cut))
        assert code == 1
        assert [document["kind"] for document in documents] == ["record", "damage"]
        assert documents[1]["is_torn_tail"]
        assert documents[1]["size_bytes"] == cut
        assert documents[1]["place"] == f"{folder}/{0:020d}.log at byte {len(whole)}"
        assert "1 places with damaged bytes" in said


def test_damage_at_any_byte_hides_no_other_batch(tmp_path: Path) -> None:
    batches = [batch_of(offset, commit(f"group-{offset}")) for offset in range(3)]
    start = len(batches[0])
    for at in range(len(batches[1])):
        data = bytearray(b"".join(batches))
        data[start + at] ^= 0x41
        write_log(tmp_path, 0, [bytes(data)])
        _, documents, _ = dump(tmp_path)
        groups = [document["key"]["group"] for document in documents if document["kind"] == "record"]
        # Base offset and leader epoch lie outside the CRC: an absurd offset is found out by the next batch.
        assert groups[0] == "group-0"
        if at >= 8 and not 12 <= at < 16:
            assert [document["kind"] for document in documents] == ["record", "damage", "record"]
            assert not documents[1]["is_torn_tail"]
            assert groups[-1] == "group-2"


def test_damage_in_an_earlier_segment_is_no_torn_tail(tmp_path: Path) -> None:
    batch = batch_of(0, (KEY, VALUE))
    write_log(tmp_path, 0, [batch, batch[:20]], [batch_of(1, (KEY, VALUE))], bases=(0, 1))
    _, documents, _ = dump(tmp_path)
    assert [document["kind"] for document in documents] == ["record", "damage", "record"]
    assert not documents[1]["is_torn_tail"]


def test_a_batch_that_does_not_decompress_is_told_and_the_dump_goes_on(tmp_path: Path) -> None:
    honest = batch_of(0, (KEY, VALUE))
    claims_gzip = bytearray(honest)
    claims_gzip[22] |= Compression.GZIP
    from kshim_protocol.records.crc import crc32c

    claims_gzip[17:21] = crc32c(bytes(claims_gzip[21:])).to_bytes(4, "big")
    write_log(tmp_path, 0, [bytes(claims_gzip), batch_of(1, (KEY, VALUE))])
    code, documents, _ = dump(tmp_path)
    assert code == 1
    assert [document["kind"] for document in documents] == ["malformed_batch", "record"]
    assert "gzip" in text(tmp_path)[0]


def test_nothing_is_written_and_no_lock_is_asked_for(tmp_path: Path) -> None:
    golden_logs(tmp_path)
    (tmp_path / ".lock").touch(mode=0o000)
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    dump(tmp_path)
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_other_files_and_folders_are_left_alone(tmp_path: Path) -> None:
    folder = write_log(tmp_path, 0, [batch_of(0, (KEY, VALUE))])
    for name in ("00000000000000000000.index", "00000000000000000001.log.cleaned", "leader-epoch-checkpoint", "x.log"):
        (folder / name).write_bytes(b"not a batch")
    write_log(tmp_path, 7, [b"not a batch"], topic="orders")
    (tmp_path / "__consumer_offsets-3.0f-delete").mkdir()
    (tmp_path / "__consumer_offsets-9").write_text("a file")
    code, documents, _ = dump(tmp_path)
    assert code == 0
    assert len(documents) == 1


def test_where_there_is_nothing_to_read_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no partition of __consumer_offsets"):
        dump(tmp_path)
    with pytest.raises(SourceError, match=r"cannot list .*missing: No such file or directory"):
        dump(tmp_path / "missing")
    write_log(tmp_path, 0, [])
    with pytest.raises(SourceError, match="has no partition 5 of __consumer_offsets"):
        dump(tmp_path, partition=5)


def test_text_shows_what_could_be_misread_in_quotes(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        0,
        [batch_of(0, commit("a b"), commit("-"), commit("line\nfeed"), (build_group_metadata_key("g"), None))],
    )
    lines = text(tmp_path)
    assert all(
        shown in line for shown, line in zip(('group="a b"', 'group="-"', r'group="line\nfeed"'), lines, strict=False)
    )
    assert lines[3].endswith("GroupMetadata group=g tombstone")


def test_the_page_names_every_type_and_every_field(tmp_path: Path) -> None:
    page = PAGE.read_text()
    assert {
        type_.name for type_ in (*RECORD_TYPES.values(), *SHARE_STATE_TYPES.values()) if f"`{type_.name}`" not in page
    } == set()
    golden_logs(tmp_path)
    write_log(tmp_path, 1, [batch_of(0, (b"\0\x63", b""), (KEY, b"\0\x63")), b"torn"])
    _, documents, _ = dump(tmp_path)
    fields = {name for document in documents for name in (*document, *document.get("batch", {}))}
    assert {name for name in fields if f"`{name}`" not in page} == set()


def test_what_share_groups_made_of_records_is_read_from_their_topic(tmp_path: Path) -> None:
    place: dict[str, Any] = {"group_id": "g", "topic_id": bytes(15) + b"\x01", "partition": 3}
    batch = StateBatch(first_offset=5, last_offset=9, delivery_state=2, delivery_count=1)
    snapshot = ShareSnapshotValue(
        snapshot_epoch=0,
        state_epoch=2,
        leader_epoch=0,
        start_offset=5,
        create_timestamp=1_000,
        write_timestamp=2_000,
        state_batches=(),
    )
    update = ShareUpdateValue(
        snapshot_epoch=0, leader_epoch=0, start_offset=5, delivery_complete_count=5, state_batches=(batch,)
    )
    key = build_share_key(ShareSnapshotKey(**place))
    records = (
        (key, build_share_value(snapshot)),
        (build_share_key(ShareUpdateKey(**place)), build_share_value(update)),
        (key, None),
    )
    write_log(tmp_path, 7, [batch_of(offset, record) for offset, record in enumerate(records)], topic=SHARE_STATE_TOPIC)
    code, documents, said = dump(tmp_path, topic=SHARE_STATE_TOPIC)
    assert code == 0
    assert "3 records, including 1 tombstone" in said
    about = {"group": "g", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partition": 3}
    assert [document["key"] for document in documents] == [
        {"type": 0, "name": "ShareSnapshot", **about},
        {"type": 1, "name": "ShareUpdate", **about},
        {"type": 0, "name": "ShareSnapshot", **about},
    ]
    first, second, last = [document["value"] for document in documents]
    assert (first["state_epoch"], first["create_timestamp_ms"], first["write_timestamp_ms"]) == (2, 1_000, 2_000)
    assert second["state_batches"] == [{"first_offset": 5, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}]
    assert last is None
    assert text(tmp_path, topic=SHARE_STATE_TOPIC, group="another") == []
