"""The session finds Java and jars, and its workers run our Python."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from kshim_pipeline.setup.session import fit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_workers_run_the_interpreter_of_the_driver(spark: SparkSession) -> None:
    def executable(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"python": pa.array([sys.executable] * batch.num_rows)})

    rows = spark.range(3).mapInArrow(executable, "python string").distinct().collect()
    assert [row.python for row in rows] == [sys.executable]


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
