"""Files of a directory, wherever Spark can write."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kshim_pipeline.folder import Folder, LocalFolder, StorageFolder, folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_written_once_and_found(folder: Folder, path: Path) -> None:
    assert folder.find("batches/*.json") == []
    folder.write_new("batches/1.json", "one \u00e9")
    folder.write_new("batches/2.json", "two")
    with pytest.raises(FileExistsError):
        folder.write_new("batches/1.json", "another")
    assert folder.find("batches/*.json") == ["batches/1.json", "batches/2.json"]
    assert folder.read_text("batches/1.json") == "one \u00e9"
    left = {found.name for found in (path / "batches").iterdir() if found.suffix != ".crc"}
    assert left == {"1.json", "2.json"}, "nothing aside"
    with pytest.raises(FileNotFoundError):
        folder.read_text("none")
    folder.delete("batches/1.json")
    folder.delete("none")
    assert folder.find("batches/*.json") == ["batches/2.json"]
    folder.delete("batches")
    assert folder.find("*/*") == []


def test_a_file_of_this_machine_is_written_once_and_found(tmp_path: Path) -> None:
    is_written_once_and_found(LocalFolder(tmp_path / "a lake"), tmp_path / "a lake")


def test_a_file_is_written_once_where_the_disk_has_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    is_written_once_and_found(LocalFolder(tmp_path), tmp_path)


def test_a_file_elsewhere_is_written_once_and_found(spark: SparkSession, tmp_path: Path) -> None:
    is_written_once_and_found(StorageFolder(spark, f"file://{tmp_path}/a lake"), tmp_path / "a lake")


@pytest.mark.parametrize("address", ["{}", "file://{}"], ids=["a path", "an address"])
def test_a_path_and_its_address_are_the_same_directory(spark: SparkSession, tmp_path: Path, address: str) -> None:
    assert folder_at(spark, address.format(tmp_path / "a lake")).address == str(tmp_path / "a lake")


def test_a_storage_that_is_not_there_is_said(spark: SparkSession) -> None:
    said = r"cannot use nowhere://bucket/lake: .*jars have to be named in spark-defaults\.conf$"
    with pytest.raises(OSError, match=said):
        folder_at(spark, "nowhere://bucket/lake")


def test_a_folder_elsewhere_that_cannot_be_written_is_said_in_one_line(spark: SparkSession) -> None:
    with pytest.raises(OSError, match=r"^file:/dev/null/lake: \w+Exception: .+$") as caught:
        StorageFolder(spark, "file:///dev/null/lake").write_new("1.json", "one")
    assert len(str(caught.value).splitlines()) == 1
