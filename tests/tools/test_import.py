"""`kshim import` from folders: the same batches in a new directory, whole or not at all."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from kshim.storage.directory import DataDirectory
from kshim.tools.import_logs import target
from kshim.tools.import_logs.run import run_import
from kshim.tools.import_logs.target import TargetError
from kshim.tools.logs import SourceError
from kshim.tools.logs.folder import FolderLogs
from kshim_protocol.internal.records import build_offset_commit_key
from kshim_protocol.records.scan import Batch
from tests.tools.logs import batch_of, write_log

TOPIC = "__consumer_offsets"
KEY = build_offset_commit_key("g", "t", 0)


def imported(source: Path, data_dir: Path, *topics: str) -> str:
    """Import; returns what was said."""
    messages = io.StringIO()
    run_import(directories=[str(source)], data_dir=str(data_dir), topics=topics, messages=messages)
    return messages.getvalue()


def batches(directory: Path, partition: int, topic: str = TOPIC) -> list[bytes]:
    found = FolderLogs([str(directory)]).read(topic, partition)
    return [batch.data for batch in found if isinstance(batch, Batch)]


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*.log"))


def test_batches_arrive_byte_for_byte_with_their_gaps(tmp_path: Path) -> None:
    source = tmp_path / "kafka"
    first = [batch_of(17, (KEY, b"\0\0"), last_offset_delta=8), batch_of(40, (KEY, None), delete_horizon_ms=9)]
    write_log(source, 0, first, [batch_of(90, (KEY, None))], bases=(17, 50))
    write_log(source, 1, [])
    said = imported(source, tmp_path / "new")
    assert batches(tmp_path / "new", 0) == [*first, batch_of(90, (KEY, None))]
    assert names(tmp_path / "new") == [f"{TOPIC}-0/{17:020d}.log", f"{TOPIC}-1/{0:020d}.log"]
    assert "__consumer_offsets: 2 partitions, 3 batches, 3 records" in said


def test_an_empty_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    write_log(tmp_path / "kafka", 0, [], bases=(500,))
    imported(tmp_path / "kafka", tmp_path / "new")
    assert names(tmp_path / "new") == [f"{TOPIC}-0/{500:020d}.log"]


def test_long_logs_become_several_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [batch_of(offset, (KEY, bytes(100))) for offset in range(10)]
    monkeypatch.setattr(target, "SEGMENT_BYTES", 3 * len(whole[0]))
    write_log(tmp_path / "kafka", 0, whole)
    imported(tmp_path / "kafka", tmp_path / "new")
    assert names(tmp_path / "new") == [f"{TOPIC}-0/{base:020d}.log" for base in (0, 3, 6, 9)]
    assert batches(tmp_path / "new", 0) == whole


def test_a_segment_spans_no_more_offsets_than_its_index_can_name(tmp_path: Path) -> None:
    write_log(tmp_path / "kafka", 0, [batch_of(0, (KEY, None)), batch_of(1 << 31, (KEY, None))])
    imported(tmp_path / "kafka", tmp_path / "new")
    assert names(tmp_path / "new") == [f"{TOPIC}-0/{base:020d}.log" for base in (0, 1 << 31)]


def test_kafkas_cluster_and_topic_ids_come_along(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "kafka", 0, [])
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: rLzdgVR9RCiHgXUgXv90Ag\n")
    (tmp_path / "kafka" / "meta.properties").write_text("#\nnode.id=7\nversion=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n")
    imported(tmp_path / "kafka", tmp_path / "new")
    new = FolderLogs([str(tmp_path / "new")])
    assert (new.topic_id(TOPIC), new.cluster_id()) == ("rLzdgVR9RCiHgXUgXv90Ag", "AAAAAAAAAAAAAAAAAAAAAQ")


def test_kshim_opens_the_directory_as_its_own(tmp_path: Path) -> None:
    write_log(tmp_path / "kafka", 0, [batch_of(17, (KEY, None))], bases=(17,))
    write_log(tmp_path / "kafka", 1, [])
    write_log(tmp_path / "kafka", 0, [batch_of(3, (b"key", b"value"))], topic="orders")
    said = imported(tmp_path / "kafka", tmp_path / "new", "orders")
    assert "the folders of orders do not contain its configuration" in said
    directory = DataDirectory.open(str(tmp_path / "new"), cluster_id="not used", node_id=1)
    try:
        assert {name: spec.partition_count for name, spec in directory.topics.items()} == {TOPIC: 2, "orders": 1}
        assert directory.topics[TOPIC].configs["cleanup.policy"] == "compact"
        assert directory.topics["orders"].configs == {"retention.ms": "-1", "retention.bytes": "-1"}
        log = directory.log(TOPIC, 0)
        assert (log.end_offset, list(log.batches())) == (18, [batch_of(17, (KEY, None))])
        log.close()
    finally:
        directory.close()


def test_a_directory_of_kshim_brings_its_settings(tmp_path: Path) -> None:
    write_log(tmp_path / "kafka", 0, [])
    write_log(tmp_path / "kafka", 0, [], topic="orders")
    imported(tmp_path / "kafka", tmp_path / "first", "orders")
    (tmp_path / "first" / "topics.json").write_text(
        (tmp_path / "first" / "topics.json").read_text().replace('"-1"', '"9"')
    )
    said = imported(tmp_path / "first", tmp_path / "second", "orders")
    assert "do not contain its configuration" not in said
    first, second = (FolderLogs([str(tmp_path / name)]) for name in ("first", "second"))
    assert second.configs("orders") == {"retention.ms": "9", "retention.bytes": "9"}
    assert (second.topic_id("orders"), second.cluster_id()) == (first.topic_id("orders"), first.cluster_id())


@pytest.mark.parametrize("entry", ["meta.properties", "lost+found", "__consumer_offsets-0"])
def test_a_directory_that_holds_something_is_refused_and_kept(tmp_path: Path, entry: str) -> None:
    write_log(tmp_path / "kafka", 0, [])
    (tmp_path / "new" / entry).mkdir(parents=True)
    with pytest.raises(TargetError, match=rf"is not empty \({re.escape(entry)}\)"):
        imported(tmp_path / "kafka", tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == [entry]


def test_an_import_that_was_killed_is_told(tmp_path: Path) -> None:
    write_log(tmp_path / "kafka", 0, [])
    target.Target(str(tmp_path / "new"))
    with pytest.raises(TargetError, match="contains an incomplete import"):
        imported(tmp_path / "kafka", tmp_path / "new")


def test_a_torn_write_is_left_out_and_told(tmp_path: Path) -> None:
    whole = batch_of(0, (KEY, None))
    write_log(tmp_path / "kafka", 0, [whole, whole[:30]])
    said = imported(tmp_path / "kafka", tmp_path / "new")
    assert "skipped an incomplete write of 30 bytes" in said
    assert batches(tmp_path / "new", 0) == [whole]


def test_damage_ends_the_import_and_nothing_stays(tmp_path: Path) -> None:
    whole = batch_of(0, (KEY, None))
    write_log(tmp_path / "kafka", 0, [whole])
    write_log(tmp_path / "kafka", 1, [whole[:-1] + b"!", batch_of(1, (KEY, None))])
    with pytest.raises(
        SourceError, match=r"damaged bytes, .*-1/0{20}\.log at byte 0: the CRC of the batch at offset 0"
    ):
        imported(tmp_path / "kafka", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "mounted").mkdir()
    with pytest.raises(SourceError):
        imported(tmp_path / "kafka", tmp_path / "mounted")
    assert list((tmp_path / "mounted").iterdir()) == []


def test_a_topic_of_which_partitions_are_missing_is_refused(tmp_path: Path) -> None:
    for partition in (0, 3):
        write_log(tmp_path / "one", partition, [])
    with pytest.raises(SourceError, match="lacks partitions 1, 2 of __consumer_offsets"):
        imported(tmp_path / "one", tmp_path / "new")
    for partition in (1, 2):
        write_log(tmp_path / "two", partition, [])
    directories = [str(tmp_path / "one"), str(tmp_path / "two")]
    run_import(directories=directories, data_dir=str(tmp_path / "new"), messages=io.StringIO())
    assert FolderLogs([str(tmp_path / "new")]).partitions(TOPIC) == [0, 1, 2, 3]


def test_partitions_that_kshim_never_wrote_to_are_empty(tmp_path: Path) -> None:
    write_log(tmp_path / "kshim", 1, [batch_of(0, (KEY, None))])
    (tmp_path / "kshim" / "topics.json").write_text(
        json.dumps({"topics": [{"name": TOPIC, "partitions": 3, "topic_id": "rLzdgVR9RCiHgXUgXv90Ag", "configs": {}}]})
    )
    imported(tmp_path / "kshim", tmp_path / "new")
    assert names(tmp_path / "new") == [f"{TOPIC}-{partition}/{0:020d}.log" for partition in range(3)]
    assert batches(tmp_path / "new", 1) == [batch_of(0, (KEY, None))]


def test_other_topics_come_along_when_asked_for(tmp_path: Path) -> None:
    write_log(tmp_path / "kafka", 0, [])
    write_log(tmp_path / "kafka", 0, [batch_of(0, (b"key", b"value"))], topic="orders")
    imported(tmp_path / "kafka", tmp_path / "without")
    assert names(tmp_path / "without") == [f"{TOPIC}-0/{0:020d}.log"]
    imported(tmp_path / "kafka", tmp_path / "with", "orders")
    assert batches(tmp_path / "with", 0, "orders") == [batch_of(0, (b"key", b"value"))]
