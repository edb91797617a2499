"""Landed files have the columns of the decoder beside the bytes: read as they were decoded, only those that are used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from kshim_pipeline.decode import decode
from kshim_pipeline.folder import LocalFolder
from kshim_pipeline.inputs.kafka import Cluster
from kshim_pipeline.land.batches import PLAN, Batch, Batches, Landed, LandedFile, Offsets
from kshim_pipeline.land.checks import Seen
from kshim_pipeline.land.reading import decode_landed, is_decoded, read_landed
from kshim_pipeline.land.steps import Landing
from kshim_pipeline.land.writing import landed_files, rewrite, write
from kshim_pipeline.records import DECODER, RECORDS
from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC
from tests.pipeline.test_decode import GOLDEN, a_group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS = 86_400_000
MIDNIGHT_MS = 20_000 * DAY_MS
PLACE = ("topic", "partition", "offset")


@pytest.fixture(scope="module")
def records(spark: SparkSession) -> DataFrame:
    """Records of Kafka and of a group before and after midnight, and events between them."""
    pairs = [*GOLDEN, a_group(3), a_group(40)]
    rows: list[Any] = [
        (OFFSETS_TOPIC, at % 3, at, MIDNIGHT_MS + (at % 2 - 1) * 1_000, key, value, "here")
        for at, (key, value) in enumerate(pairs)
    ]
    rows += [(EVENTS_TOPIC, 0, at, MIDNIGHT_MS, b"g", b'{"v": 2}', "here") for at in range(4)]
    return spark.createDataFrame(rows, RECORDS).cache()


def landed(spark: SparkSession, lake: Path, records: DataFrame, *, decoder: int = DECODER, batches: int = 1) -> Landed:
    """`records` in batches, as this kshim lands them, or with `decoder` 0 as an earlier one did."""
    named = Batches(LocalFolder(lake))
    for number in range(batches):
        part = records.where(F.col("offset") % batches == number)
        ends = {OFFSETS_TOPIC: {0: number + 1}}
        begins: Offsets = {OFFSETS_TOPIC: {0: number}} if number else {}
        plan = Batch(number, number == 0, "east", "here", {}, begins, ends, (), decoder)
        attempt = named.new_attempt(plan, PLAN)
        if decoder:
            write(spark, part, f"{lake}/{attempt}")
        else:
            day = F.to_date(F.timestamp_millis("timestamp_ms"))
            raw = part.withColumn("day", day).coalesce(1).write.mode("append")
            raw.partitionBy("topic", "day").parquet(f"{lake}/{attempt}")
        named.add(attempt, plan.with_files(named.landed(), landed_files(spark, str(lake), attempt)))
    return named.landed()


class _OnlyFiles:
    """As `Copying`, of which a compaction asks only this."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = folder

    def look(self) -> Seen:
        raise AssertionError("it asks the cluster")

    def copy(self, attempt: str, begin: Offsets, end: Offsets, source: str) -> int:
        raise AssertionError("it copies from the cluster")

    def rewrite(self, attempt: str, files: tuple[LandedFile, ...]) -> None:
        rewrite(self._spark, self._folder, attempt, files)

    def files(self, attempt: str) -> tuple[LandedFile, ...]:
        return landed_files(self._spark, self._folder, attempt)


def compact(spark: SparkSession, lake: Path) -> Landed:
    """As `land` does after it has landed; what is landed then."""
    landing = Landing(Batches(LocalFolder(lake)), _OnlyFiles(spark, str(lake)), Cluster("east:9092"))
    landing.landed = Batches(LocalFolder(lake)).landed()
    landing.compact(MIDNIGHT_MS)
    return Batches(LocalFolder(lake)).landed()


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.orderBy(*PLACE).collect()]


@pytest.mark.parametrize("decoder", [DECODER, 0], ids=["decoded when landed", "of an earlier version"])
def test_what_is_landed_is_read_as_it_was(
    spark: SparkSession, tmp_path: Path, records: DataFrame, decoder: int
) -> None:
    found = landed(spark, tmp_path, records, decoder=decoder)
    assert is_decoded(found) == bool(decoder)
    assert rows_of(read_landed(spark, str(tmp_path), found)) == rows_of(records)
    assert rows_of(decode_landed(spark, str(tmp_path), found)) == rows_of(decode(records))


def test_only_the_columns_that_are_used_are_read_and_no_worker_is_asked(
    spark: SparkSession, tmp_path: Path, records: DataFrame
) -> None:
    found = landed(spark, tmp_path, records)
    commits = decode_landed(spark, str(tmp_path), found).where("kind = 'offset_commit'").select("group_id", "offset")
    plan = commits._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<offset:bigint,kind:string,group_id:string>" in plan
    assert "MapInArrow" not in plan
    assert "PushedFilters: [IsNotNull(kind), EqualTo(kind,offset_commit)]" in plan


@pytest.mark.parametrize("decoder", [DECODER, 0], ids=["small files", "files of an earlier version"])
def test_files_that_are_written_again_hold_the_same_in_order(
    spark: SparkSession, tmp_path: Path, records: DataFrame, monkeypatch: pytest.MonkeyPatch, decoder: int
) -> None:
    monkeypatch.setattr("kshim_pipeline.land.compaction.TOGETHER", 2)
    before = landed(spark, tmp_path, records, decoder=decoder, batches=4)
    after = compact(spark, tmp_path)
    assert len(after.files) < len(before.files)
    assert is_decoded(after)
    assert rows_of(read_landed(spark, str(tmp_path), after)) == rows_of(records)
    assert rows_of(decode_landed(spark, str(tmp_path), after)) == rows_of(decode(records))
    new = next(file for file in after.files.values() if file.path not in before.files and file.topic == OFFSETS_TOPIC)
    rows = spark.read.parquet(str(tmp_path / new.path)).collect()
    places = [(row.kind, row.partition, row.offset) for row in rows]
    assert places == sorted(places)
