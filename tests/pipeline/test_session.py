"""The session finds Java and jars, and its workers run our Python."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zipimport import zipimporter

import pyarrow as pa
import pytest

from kshim_pipeline.python_daemon import leave_out_archives
from kshim_pipeline.setup.session import fit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_workers_run_the_interpreter_of_the_driver(spark: SparkSession) -> None:
    def executable(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"python": pa.array([sys.executable] * batch.num_rows)})

    rows = spark.range(3).mapInArrow(executable, "python string").distinct().collect()
    assert [row.python for row in rows] == [sys.executable]


def test_workers_find_modules_in_no_archive_of_spark_and_look_for_no_garbage_in_them(spark: SparkSession) -> None:
    """Each of the two took a tenth of a second of every task."""

    def archives_and_frozen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        finders = [finder for finder in sys.path_importer_cache.values() if isinstance(finder, zipimporter)]
        found = {finder.archive for finder in finders if "pyspark" in finder.archive}
        for _ in batches:
            yield pa.record_batch({"archives": [sorted(found)], "is_frozen": [gc.get_freeze_count() > 10_000]})

    rows = spark.range(1).mapInArrow(archives_and_frozen, "archives array<string>, is_frozen boolean").collect()
    assert [(row.archives, row.is_frozen) for row in rows] == [([], True)]


def test_workers_look_for_garbage_only_when_they_have_made_much(spark: SparkSession) -> None:
    def threshold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"threshold": [gc.get_threshold()[0]]})

    (row,) = spark.range(1).mapInArrow(threshold, "threshold long").collect()
    assert row.threshold > 10_000


def test_archives_of_spark_are_kept_where_pyspark_is_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archive, folder = tmp_path / "python" / "lib" / "pyspark.zip", tmp_path / "elsewhere"
    for file in (archive, folder / "pyspark" / "__init__.py"):
        file.parent.mkdir(parents=True)
        file.touch()
    monkeypatch.setattr(sys, "path", [str(archive)])
    leave_out_archives(tmp_path)
    assert sys.path == [str(archive)]
    monkeypatch.setattr(sys, "path", [str(archive), str(folder)])
    leave_out_archives(tmp_path)
    assert sys.path == [str(folder)]


def test_times_are_utc_whatever_the_machine_says(spark: SparkSession) -> None:
    (row,) = spark.sql("select cast(timestamp_millis(0) as string) as text").collect()
    assert row.text == "1970-01-01 00:00:00"


def test_a_session_is_fitted_to_few_rows_and_otherwise_left_as_it_is(spark: SparkSession) -> None:
    small, large = spark.newSession(), spark.newSession()
    for session in (small, large):
        session.conf.set("spark.sql.shuffle.partitions", "16")
    fit(small, 1_000)
    fit(large, 1_000_000)
    assert small.conf.get("spark.sql.shuffle.partitions") == "1"
    assert large.conf.get("spark.sql.shuffle.partitions") == "16"
