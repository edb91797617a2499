"""Starting on a data directory: after a clean end, after a crash, on an older format, on folders of a Kafka."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kshim.storage.directory import DataDirectory
from kshim.storage.log import CorruptLog, LogError
from kshim.storage.os_calls import OsCalls
from kshim.storage.recovery import Recover
from kshim.storage.repairs import DamageSkipped, IndexRebuilt, Repair, TailCut
from kshim.storage.stores import DirectoryStorage
from kshim.storage.topic_spec import TopicSpec
from tests.storage.builders import FailingDisk, a_batch, values
from tests.storage.file_logs import FIRST, UNLIMITED

ORDERS = TopicSpec("orders", bytes(range(16)), 2, {})
ORDERS_ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"
CLOSED = ".kafka_cleanshutdown"


class Store:
    """A store on a directory, with what it reported."""

    def __init__(self, path: Path, *, calls: OsCalls | None = None, recover: Recover = "refuse") -> None:
        self.repairs: list[Repair] = []
        self.directory = DataDirectory.open(
            str(path), cluster_id="c", node_id=1, calls=calls, new_topic_id=lambda: b"new".ljust(16)
        )
        self.storage = DirectoryStorage(self.directory, recover=recover, on_repair=self.repairs.append)

    def checked(self) -> Store:
        try:
            self.storage.check()
        except LogError:
            self.storage.close()
            raise
        return self

    def texts(self, topic: str, partition: int = 0) -> list[str]:
        """The values in a partition."""
        log = self.storage.open_log(topic, partition)
        try:
            return values(log.read(log.start_offset, UNLIMITED))
        finally:
            log.close()


def filled(path: Path, *texts: str) -> None:
    """A directory with these records in orders-0, closed properly."""
    store = Store(path)
    store.storage.save_topics([ORDERS])
    log = store.storage.open_log("orders", 0)
    for text in texts:
        log.append(a_batch(text))
    log.close()
    store.storage.close()


# How the process before ended


def test_a_clean_end_is_remembered_until_the_next_start(tmp_path: Path) -> None:
    filled(tmp_path, "a")
    assert (tmp_path / CLOSED).exists()
    store = Store(tmp_path)
    assert store.directory.was_closed
    assert not (tmp_path / CLOSED).exists()
    log = store.storage.open_log("orders", 0)
    assert (log.durable_offset, log.begin_sync()) == (1, None)
    log.close()
    store.storage.close()
    assert (tmp_path / CLOSED).exists()


def crashed(path: Path) -> None:
    (path / CLOSED).unlink()


def test_after_a_crash_what_was_not_synced_by_then_is_not_durable(tmp_path: Path) -> None:
    filled(tmp_path, "a", "b")
    crashed(tmp_path)
    store = Store(tmp_path).checked()
    assert not store.directory.was_closed
    log = store.storage.open_log("orders", 0)
    assert (log.durable_offset, log.end_offset) == (0, 2)
    log.sync()
    assert log.durable_offset == 2
    log.close()
    store.storage.close()
    assert (tmp_path / CLOSED).exists()


def test_a_start_that_has_checked_nothing_after_a_crash_tells_the_next_one_to(tmp_path: Path) -> None:
    filled(tmp_path, "a")
    crashed(tmp_path)
    Store(tmp_path).storage.close()
    assert not (tmp_path / CLOSED).exists()


def test_a_log_that_was_left_open_or_could_not_be_synced_is_no_clean_end(tmp_path: Path) -> None:
    filled(tmp_path, "a")
    store = Store(tmp_path)
    store.storage.open_log("orders", 0).append(a_batch("b"))
    store.storage.close()
    assert not (tmp_path / CLOSED).exists()
    disk = FailingDisk()
    store = Store(tmp_path, calls=disk).checked()
    log = store.storage.open_log("orders", 0)
    disk.broken.add("fdatasync")
    with pytest.raises(LogError, match="cannot sync"):
        log.close()
    store.storage.close()
    assert not (tmp_path / CLOSED).exists()


def test_the_torn_tails_of_all_partitions_are_cut_before_they_are_used(tmp_path: Path) -> None:
    filled(tmp_path, "a", "b")
    crashed(tmp_path)
    with (tmp_path / "orders-0" / FIRST).open("ab") as file:
        file.write(a_batch("torn")[:-1])
    store = Store(tmp_path).checked()
    cut = TailCut(
        str(tmp_path / "orders-0" / FIRST), 2 * len(a_batch("a")), len(a_batch("torn")) - 1, "no batch header"
    )
    assert store.repairs == [cut]
    assert "Removed an incomplete write of" in cut.sentence
    assert store.texts("orders") == ["a", "b"]
    store.storage.close()


def corrupted(path: Path, position: int) -> None:
    """Flip a bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(bytes(data))


def test_corruption_keeps_the_store_from_being_used_unless_it_is_to_be_skipped(tmp_path: Path) -> None:
    filled(tmp_path, "a", "b", "c")
    crashed(tmp_path)
    size = len(a_batch("a"))
    path = tmp_path / "orders-0" / FIRST
    corrupted(path, 2 * size - 1)
    damaged = path.read_bytes()[size : 2 * size]
    for _ in range(2):
        with pytest.raises(CorruptLog) as caught:
            Store(tmp_path).checked()
        assert (caught.value.path, caught.value.offset, caught.value.position) == (str(path), 1, size)
        assert str(caught.value) == f"{path} is damaged at byte {size}, offset 1: CRC differs"
    store = Store(tmp_path, recover="skip-corrupt").checked()
    skipped = DamageSkipped(str(path), size, 1, size, "CRC differs", f"{FIRST}.{size}.damaged")
    assert store.repairs == [skipped]
    assert f"Skipped {size} damaged bytes at byte {size}, offset 1" in skipped.sentence
    assert (path.parent / skipped.kept_in).read_bytes() == damaged
    assert store.texts("orders") == ["a", "c"]
    store.storage.close()
    store = Store(tmp_path).checked()
    assert store.texts("orders") == ["a", "c"]
    store.storage.close()


def test_skipping_looks_for_damage_everywhere_even_after_a_clean_end(tmp_path: Path) -> None:
    filled(tmp_path, *map(str, range(200)))
    path = tmp_path / "orders-0" / FIRST
    corrupted(path, 200)
    clean = Store(tmp_path).checked()
    assert clean.repairs == []
    with pytest.raises(CorruptLog):
        list(clean.storage.open_log("orders", 0).batches())
    clean.storage.close()
    store = Store(tmp_path, recover="skip-corrupt").checked()
    assert [type(repair) for repair in store.repairs] == [DamageSkipped]
    assert len(store.texts("orders")) == 199
    store.storage.close()


# An older format


def test_a_directory_of_version_1_is_upgraded(tmp_path: Path) -> None:
    filled(tmp_path, *map(str, range(100)))
    crashed(tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=old\nnode.id=1\nkshim.format.version=1\n")
    row = {"name": "orders", "topic_id": ORDERS_ID_TEXT, "partitions": 2, "configs": {}}
    (tmp_path / "topics.json").write_text(json.dumps({"version": 1, "topics": [row]}))
    for name in (FIRST.replace(".log", ".index"), FIRST.replace(".log", ".timeindex")):
        (tmp_path / "orders-0" / name).unlink()
    store = Store(tmp_path).checked()
    assert (store.directory.cluster_id, store.directory.topics, store.directory.adopted) == (
        "old",
        {"orders": ORDERS},
        [],
    )
    assert "kshim.format.version=2" in (tmp_path / "meta.properties").read_text()
    assert store.repairs == [IndexRebuilt(str(tmp_path / "orders-0" / FIRST), "was missing")]
    assert store.texts("orders") == [str(i) for i in range(100)]
    store.storage.close()
    assert (tmp_path / "orders-0" / FIRST.replace(".log", ".index")).stat().st_size > 0


# Deleted topics


def test_folders_of_a_topic_whose_deletion_a_crash_interrupted_go_and_do_not_come_back(tmp_path: Path) -> None:
    filled(tmp_path, "a")
    store = Store(tmp_path)
    store.storage.save_topics([])
    store.storage.close()
    assert (tmp_path / "orders-0").exists()
    again = Store(tmp_path)
    assert (again.directory.topics, again.directory.partitions()) == ({}, [])
    again.storage.close()
    assert json.loads((tmp_path / "topics.json").read_text()) == {"version": 2, "topics": []}


def test_a_folder_brought_in_after_its_topic_was_deleted_is_taken_over(tmp_path: Path) -> None:
    filled(tmp_path / "here", "a")
    filled(tmp_path / "there", "b")
    store = Store(tmp_path / "here")
    store.storage.save_topics([])
    store.storage.delete_topics(["orders"])
    store.storage.close()
    (tmp_path / "there" / "orders-0").rename(tmp_path / "here" / "orders-0")
    again = Store(tmp_path / "here").checked()
    assert again.directory.adopted == ["orders"]
    assert again.texts("orders") == ["b"]
    again.storage.close()


# Folders of a Kafka


def kafka_folder(path: Path, name: str, *texts: str, topic_id: str | None = ORDERS_ID_TEXT) -> None:
    """A partition as a killed Kafka leaves it: indexes of 10 MB, mostly zeros, and files of its own."""
    filled(path.parent / "elsewhere", *texts)
    folder = path / name
    folder.mkdir(parents=True)
    os.rename(path.parent / "elsewhere" / "orders-0" / FIRST, folder / FIRST)
    (folder / FIRST.replace(".log", ".index")).write_bytes(b"\0\0\0\7\0\0\0\7" + bytes(1 << 20))
    (folder / FIRST.replace(".log", ".timeindex")).write_bytes(bytes(12 << 16))
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (folder / f"{5:020}.snapshot").write_bytes(b"snapshot")
    if topic_id is not None:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    for left in sorted((path.parent / "elsewhere").rglob("*"), reverse=True):
        left.unlink() if left.is_file() else left.rmdir()


def test_the_folders_of_a_stopped_kafka_are_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for partition in range(50):
        kafka_folder(path, f"__consumer_offsets-{partition}", f"v{partition}", "w")
    kafka_folder(path, "plain-1", "x", topic_id=None)
    (path / "__cluster_metadata-0").mkdir()
    store = Store(path).checked()
    assert store.directory.adopted == ["__consumer_offsets", "plain"]
    offsets = store.directory.topics["__consumer_offsets"]
    assert (offsets.topic_id, offsets.partition_count) == (bytes(range(16)), 50)
    assert offsets.configs["cleanup.policy"] == "compact"
    plain = store.directory.topics["plain"]
    assert (plain.topic_id, plain.partition_count, plain.configs) == (b"new".ljust(16), 2, {})
    assert store.texts("__consumer_offsets", 49) == ["v49", "w"]
    assert store.texts("plain", 1) == ["x"]
    assert store.texts("plain", 0) == []
    assert store.repairs == []
    store.storage.close()
    folder = path / "__consumer_offsets-49"
    assert (folder / "leader-epoch-checkpoint").exists()
    assert (folder / f"{5:020}.snapshot").read_bytes() == b"snapshot"
    assert (folder / FIRST.replace(".log", ".index")).stat().st_size == 0
    again = Store(path)
    assert (again.directory.adopted, again.directory.was_closed) == ([], True)
    assert again.directory.topics.keys() == {"__consumer_offsets", "plain"}
    again.storage.close()


def test_every_batch_of_a_folder_that_is_taken_over_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "data"
    kafka_folder(path, "orders-0", "a", "b", "c")
    corrupted(path / "orders-0" / FIRST, len(a_batch("a")) - 1)
    for _ in range(2):
        with pytest.raises(CorruptLog, match="byte 0, offset 0: CRC differs"):
            Store(path).checked()


def test_the_offsets_topic_has_fifty_partitions_when_some_folders_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for partition in (0, 3):
        kafka_folder(path, f"__consumer_offsets-{partition}", "v")
    store = Store(path)
    assert store.directory.topics["__consumer_offsets"].partition_count == 50
    store.storage.close()


def test_folders_of_different_topics_under_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    kafka_folder(path, "orders-0", "a")
    kafka_folder(path, "orders-1", "a", topic_id="AQECAwQFBgcICQoLDA0ODw")
    with pytest.raises(LogError, match="their ids differ"):
        Store(path)
    assert not (path / "meta.properties").exists()


@pytest.mark.parametrize("text", ["", "version: 0\n", "topic_id: x\n", "rubbish"])
def test_a_damaged_partition_metadata_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "data"
    kafka_folder(path, "orders-0", "a")
    (path / "orders-0" / "partition.metadata").write_text(text)
    with pytest.raises(LogError, match=r"partition\.metadata is damaged"):
        Store(path)


def test_the_whole_directory_of_a_kafka_is_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "data"
    kafka_folder(path, "orders-0", "a")
    (path / "meta.properties").write_text("#\n#Sat\ncluster.id=abc\nversion=1\ndirectory.id=x\nnode.id=1\n")
    with pytest.raises(LogError, match="copy their folders, such as __consumer_offsets-0, into a new directory"):
        Store(path)
    assert (path / "orders-0" / FIRST.replace(".log", ".index")).stat().st_size > 1 << 20


def test_a_marker_of_a_clean_end_says_nothing_of_folders_brought_in(tmp_path: Path) -> None:
    path = tmp_path / "data"
    kafka_folder(path, "orders-0", "a")
    (path / CLOSED).write_text('{"version":0,"brokerEpoch":-1}')
    store = Store(path)
    log = store.storage.open_log("orders", 0)
    assert (log.durable_offset, log.end_offset) == (0, 1)
    log.close()
    store.storage.close()


class Crash(Exception):
    """The process ends here."""


def crashing(count: int) -> OsCalls:
    """A disk whose `count`-th change is the last one that happens."""
    calls = OsCalls()
    left = [count]

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            if not left[0]:
                raise Crash
            left[0] -= 1
            return real(*arguments)

        return call

    for name in ("pwrite", "ftruncate", "rename", "unlink", "sync_directory", "fdatasync"):
        setattr(calls, name, counted(getattr(calls, name)))
    return calls


def test_a_crash_while_folders_are_taken_over_is_made_good_by_the_next_start(tmp_path: Path) -> None:
    for count in range(40):
        path = tmp_path / str(count) / "data"
        kafka_folder(path, "orders-0", "a", "b")
        try:
            Store(path, calls=crashing(count)).storage.close()
            is_done = True
        except Crash:
            is_done = False
        store = Store(path).checked()
        assert store.directory.topics.keys() == {"orders"}
        assert store.texts("orders") == ["a", "b"]
        store.storage.close()
        if is_done:
            return
    pytest.fail("it never got to its end")


def test_a_directory_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.error = OSError(30, "Read-only file system")
    disk.broken = {"open", "pwrite", "rename", "unlink"}
    with pytest.raises(LogError, match=r"cannot write .*meta\.properties: Read-only file system"):
        Store(tmp_path / "new", calls=disk)
    filled(tmp_path / "old", "a")
    with pytest.raises(LogError, match=r"cannot remove .*: Read-only file system"):
        Store(tmp_path / "old", calls=disk)
