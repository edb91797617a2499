"""The file that says up to where logs are compacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.storage.cleaner_checkpoint import CleanerCheckpoint
from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls
from tests.storage.builders import FailingDisk

FILE = "cleaner-offset-checkpoint"


def saved(offsets: CleanerCheckpoint) -> None:
    save = offsets.to_save()
    assert save is not None
    save()


def test_what_was_noted_is_there_after_a_restart_in_kafkas_own_format(tmp_path: Path) -> None:
    offsets = CleanerCheckpoint(str(tmp_path), OsCalls())
    offsets.note("orders", 1, 50)
    offsets.note("a.topic_with-all", 0, 7)
    saved(offsets)
    assert (tmp_path / FILE).read_text() == "0\n2\na.topic_with-all 0 7\norders 1 50\n"
    again = CleanerCheckpoint(str(tmp_path), OsCalls())
    assert (again.get("orders", 1), again.get("a.topic_with-all", 0), again.get("orders", 0)) == (50, 7, 0)


def test_nothing_is_written_without_news(tmp_path: Path) -> None:
    offsets = CleanerCheckpoint(str(tmp_path), OsCalls())
    assert offsets.get("orders", 0) == 0
    assert offsets.to_save() is None
    offsets.note("orders", 0, 5)
    saved(offsets)
    assert offsets.to_save() is None


def test_a_topic_of_the_same_name_inherits_nothing(tmp_path: Path) -> None:
    offsets = CleanerCheckpoint(str(tmp_path), OsCalls())
    for topic in ("orders", "orders-2"):
        offsets.note(topic, 0, 5)
    saved(offsets)
    offsets.forget(["orders"])
    again = CleanerCheckpoint(str(tmp_path), OsCalls())
    assert (again.get("orders", 0), again.get("orders-2", 0)) == (0, 5)


def test_a_save_that_ends_after_a_deletion_does_not_bring_the_topic_back(tmp_path: Path) -> None:
    offsets = CleanerCheckpoint(str(tmp_path), OsCalls())
    offsets.note("orders", 0, 5)
    offsets.note("clicks", 0, 7)
    save = offsets.to_save()
    assert save is not None
    offsets.forget(["orders"])
    save()
    again = CleanerCheckpoint(str(tmp_path), OsCalls())
    assert (again.get("orders", 0), again.get("clicks", 0)) == (0, 7)


def test_what_could_not_be_written_is_written_with_the_next_save_or_deletion(tmp_path: Path) -> None:
    disk = FailingDisk()
    offsets = CleanerCheckpoint(str(tmp_path), disk)
    for topic in ("orders", "clicks"):
        offsets.note(topic, 0, 5)
    saved(offsets)
    disk.broken.add("pwrite")
    with pytest.raises(LogError):
        offsets.forget(["orders"])
    with pytest.raises(LogError):
        saved(offsets)
    disk.broken.clear()
    offsets.forget(["orders"])
    again = CleanerCheckpoint(str(tmp_path), OsCalls())
    assert (again.get("orders", 0), again.get("clicks", 0)) == (0, 5)


@pytest.mark.parametrize("content", ["", "1\n0\n", "0\n1\norders x 5\n", "0\n1\norders 5\n", "0\n1\n\udcff"])
def test_a_damaged_file_counts_as_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_bytes(content.encode("utf-8", "surrogateescape"))
    assert CleanerCheckpoint(str(tmp_path), OsCalls()).get("orders", 0) == 0


def test_a_failing_disk_is_reported_and_the_old_file_remains(tmp_path: Path) -> None:
    disk = FailingDisk()
    offsets = CleanerCheckpoint(str(tmp_path), disk)
    offsets.note("orders", 0, 5)
    saved(offsets)
    disk.broken.add("pwrite")
    offsets.note("orders", 0, 6)
    with pytest.raises(LogError, match="Input/output error"):
        saved(offsets)
    assert CleanerCheckpoint(str(tmp_path), OsCalls()).get("orders", 0) == 5
