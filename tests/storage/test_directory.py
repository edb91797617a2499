"""The data directory: its lock, its two small files, and the folders of partitions."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from kshim.storage.directory import DataDirectory
from kshim.storage.directory_lock import DirectoryLocked
from kshim.storage.log import LogError
from kshim.storage.topic_spec import PartitionLeader, TopicSpec
from tests.storage.builders import FailingDisk, a_batch, values

ORDERS = TopicSpec("orders", bytes(range(16)), 3, {"cleanup.policy": "compact"})
AUDIT = TopicSpec("audit.log-1", b"\xff\xfe" * 8, 1, {})


def opened(
    path: Path, *, cluster_id: str = "cluster-a", node_id: int = 1, disk: FailingDisk | None = None
) -> DataDirectory:
    return DataDirectory.open(str(path), cluster_id=cluster_id, node_id=node_id, calls=disk)


def test_a_new_directory_is_made_and_keeps_its_cluster_id(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    directory = opened(path)
    assert (directory.cluster_id, directory.node_id, directory.topics, directory.partitions()) == (
        "cluster-a",
        1,
        {},
        [],
    )
    assert (path / "meta.properties").read_text().splitlines() == [
        "version=1",
        "cluster.id=cluster-a",
        "node.id=1",
        "kshim.format.version=2",
    ]
    directory.close()
    again = opened(path, cluster_id="cluster-b")
    assert again.cluster_id == "cluster-a"
    again.close()


def test_a_file_is_refused_as_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LogError, match="file: it is not a directory"):
        opened(tmp_path / "file")


def test_a_directory_in_use_is_refused_and_free_after_close(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    with pytest.raises(DirectoryLocked, match=f"{tmp_path} is in use by process {os.getpid()}"):
        opened(tmp_path)
    directory.close()
    directory.close()
    opened(tmp_path).close()


def test_the_lock_ends_with_the_process_that_held_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_open_and_die, args=(str(tmp_path),))
    process.start()
    process.join(60)
    assert process.exitcode == 7
    opened(tmp_path).close()


def _open_and_die(path: str) -> None:
    directory = DataDirectory.open(path, cluster_id="c", node_id=1)
    assert directory.cluster_id == "c"
    os._exit(7)


def test_topics_are_kept(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    directory.write_topics([ORDERS, AUDIT])
    assert directory.topics == {"orders": ORDERS, "audit.log-1": AUDIT}
    directory.close()
    again = opened(tmp_path)
    assert again.topics == {"orders": ORDERS, "audit.log-1": AUDIT}
    again.write_topics([AUDIT])
    again.close()
    last = opened(tmp_path)
    assert last.topics == {"audit.log-1": AUDIT}
    last.close()


def test_topic_ids_are_written_as_kafka_prints_them(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    directory.write_topics([ORDERS, AUDIT])
    rows = json.loads((tmp_path / "topics.json").read_text())["topics"]
    assert {row["name"]: row["topic_id"] for row in rows} == {
        "orders": "AAECAwQFBgcICQoLDA0ODw",
        "audit.log-1": "__7__v_-__7__v_-__7__g",
    }
    directory.close()


@pytest.mark.parametrize("call", ["open", "pwrite", "fdatasync", "rename", "sync_directory"])
def test_topics_that_cannot_be_written_leave_the_old_ones(tmp_path: Path, call: str) -> None:
    disk = FailingDisk()
    directory = opened(tmp_path, disk=disk)
    directory.write_topics([ORDERS])
    disk.broken.add(call)
    with pytest.raises(LogError, match=r"cannot write .*topics\.json: Input/output error"):
        directory.write_topics([ORDERS, AUDIT])
    assert directory.topics == {"orders": ORDERS}
    directory.close()
    again = opened(tmp_path)
    if call != "sync_directory":  # by then the new file has its name, and only power loss could undo that
        assert again.topics == {"orders": ORDERS}
    again.close()


def test_a_half_written_file_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "meta.properties.tmp").write_text("version=1\nclus")
    directory = opened(tmp_path)
    (tmp_path / "topics.json.tmp").write_text('{"version": 1, "topics": [{"name": "a very long leftover ..."')
    directory.write_topics([AUDIT])
    directory.close()
    again = opened(tmp_path)
    assert again.topics == {"audit.log-1": AUDIT}
    again.close()


def test_logs_live_in_folders_named_as_kafkas(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    for topic, partition in [("orders", 2), ("orders", 10), ("audit.log-1", 0)]:
        log = directory.log(topic, partition)
        log.append(a_batch("a"))
        log.close()
    directory.log("orders", 3).close()
    assert directory.partitions() == [("audit.log-1", 0), ("orders", 2), ("orders", 10)]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
        "audit.log-1-0",
        "orders-10",
        "orders-2",
    ]
    directory.close()
    again = opened(tmp_path)
    log = again.log("orders", 2)
    assert values(log.read(0, 1)) == ["a"]
    log.close()
    again.close()


@pytest.mark.parametrize("topic", ["", "../up", "a/b", "a b", "ü", "x" * 250])
def test_names_that_are_no_topics_get_no_folder(tmp_path: Path, topic: str) -> None:
    directory = opened(tmp_path)
    with pytest.raises(ValueError, match="is not a partition"):
        directory.log(topic, 0)
    with pytest.raises(ValueError, match="is not a partition"):
        directory.log("topic", -1)
    directory.close()


def test_the_partitions_of_a_topic_are_deleted_and_no_others(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    for topic, partition in [("a", 0), ("a", 1), ("a-1", 0), ("aa", 0)]:
        log = directory.log(topic, partition)
        log.append(a_batch("x"))
        log.close()
    remove = directory.delete_partitions(["a"])
    assert directory.partitions() == [("a-1", 0), ("aa", 0)]
    assert remove is not None
    remove()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["a-1-0", "aa-0"]
    assert directory.delete_partitions(["unknown"]) is None
    directory.close()


def test_folders_that_a_crash_kept_from_deletion_go_at_the_next_start(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.log("a", 0)
    log.append(a_batch("x"))
    log.close()
    (tmp_path / "a-0").rename(tmp_path / "a-0.0-delete")
    log = directory.log("a", 0)
    log.append(a_batch("y"))
    log.close()
    directory.close()
    again = opened(tmp_path)
    assert again.partitions() == [("a", 0)]
    assert not (tmp_path / "a-0.0-delete").exists()
    again.close()


def test_a_deletion_beside_leftovers_of_an_earlier_one_works(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    (tmp_path / "a-0.0-delete").mkdir()
    log = directory.log("a", 0)
    log.append(a_batch("x"))
    log.delete()
    log = directory.log("a", 0)
    log.append(a_batch("x"))
    log.close()
    remove = directory.delete_partitions(["a"])
    assert remove is not None
    remove()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["a-0.0-delete"]
    directory.close()


def test_a_folder_that_cannot_be_renamed_is_an_error(tmp_path: Path) -> None:
    disk = FailingDisk()
    directory = opened(tmp_path, disk=disk)
    log = directory.log("a", 0)
    log.append(a_batch("x"))
    log.close()
    disk.broken.add("rename")
    remove = directory.delete_partitions(["a"])
    assert remove is not None
    with pytest.raises(LogError, match="cannot delete a from"):
        remove()
    assert directory.partitions() == [("a", 0)]
    directory.close()


def test_a_folder_with_topics_of_an_unknown_cluster_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text('{"version": 2, "topics": []}')
    with pytest.raises(LogError, match="has topics but no meta"):
        DataDirectory.open(str(tmp_path), cluster_id="c", node_id=1)
    assert not (tmp_path / "meta.properties").exists()


def test_files_of_others_may_lie_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("...")
    (tmp_path / "lost+found").mkdir()
    directory = DataDirectory.open(str(tmp_path), cluster_id="c", node_id=1)
    assert directory.partitions() == []
    directory.close()
    assert (tmp_path / "thesis.tex").read_text() == "..."


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        ("version=1\nnode.id=1\ncluster.id=c\n", "belongs to another program"),
        (
            "kshim.format.version=3\nnode.id=1\ncluster.id=c\n",
            "has kshim.format.version 3; this kshim supports versions up to 2",
        ),
        ("kshim.format.version=1\nnode.id=2\ncluster.id=c\n", "belongs to node 2, not to 1"),
        ("kshim.format.version=1\ncluster.id=c\n", "belongs to node None"),
        ("kshim.format.version=1\nnode.id=1\n", "has no cluster.id"),
    ],
)
def test_a_directory_of_somebody_else_is_refused_and_unlocked_again(tmp_path: Path, meta: str, reason: str) -> None:
    (tmp_path / "meta.properties").write_text(meta)
    for _ in range(2):
        with pytest.raises(LogError, match=reason) as caught:
            opened(tmp_path)
        assert not isinstance(caught.value, DirectoryLocked)
    assert (tmp_path / "meta.properties").read_text() == meta


def test_comments_and_spaces_in_meta_properties_are_read_over(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("#\n# Fri\n\n node.id = 1 \ncluster.id=a=b\nkshim.format.version=1\n")
    directory = opened(tmp_path)
    assert directory.cluster_id == "a=b"
    directory.close()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 1, "topics": [{"name": "a"}]}',
        '{"version": 1, "topics": [{"name": "a/b", "topic_id": "AAECAwQFBgcICQoLDA0ODw", "partitions": 1, "configs": {}}]}',
        '{"version": 1, "topics": [{"name": "a", "topic_id": "AAEC", "partitions": 1, "configs": {}}]}',
        '{"version": 1, "topics": [{"name": "a", "topic_id": "?", "partitions": 1, "configs": {}}]}',
        '{"version": 1, "topics": [{"name": "a", "topic_id": "AAECAwQFBgcICQoLDA0ODw", "partitions": 0, "configs": {}}]}',
        '{"version": 1, "topics": [{"name": "a", "topic_id": "AAECAwQFBgcICQoLDA0ODw", "partitions": 1, "configs": []}]}',
        '{"version": 1, "topics": [{"name": "a", "topic_id": "AAECAwQFBgcICQoLDA0ODw", "partitions": 1, "configs": {"a": 1}}]}',
    ],
)
def test_a_damaged_topics_file_is_an_error(tmp_path: Path, text: str) -> None:
    opened(tmp_path).close()
    (tmp_path / "topics.json").write_text(text)
    with pytest.raises(LogError, match=r"topics\.json is damaged"):
        opened(tmp_path)


def test_a_newer_topics_file_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "topics.json").write_text('{"version": 3, "topics": []}')
    with pytest.raises(LogError, match="has version 3; this kshim supports 2"):
        opened(tmp_path)


def test_files_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(b"\xff\xfe")
    with pytest.raises(LogError, match="is damaged"):
        opened(tmp_path)


def test_a_path_that_cannot_be_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="cannot use"):
        opened(tmp_path / "file" / "data")


def test_leaders_and_their_epochs_outlive_the_process(tmp_path: Path) -> None:
    led = ORDERS._replace(
        leaders=(PartitionLeader(1, 2, 3, ((1, 10), (3, 25))), PartitionLeader(2, 2), PartitionLeader(3, 3, 1))
    )
    directory = opened(tmp_path)
    directory.write_topics([led, AUDIT])
    directory.close()
    again = opened(tmp_path)
    assert again.topics == {"orders": led, "audit.log-1": AUDIT}
    again.close()
