"""A fleet's records as `land` would have left them: a directory with a batch a day."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from bench.fleet.commits import commits
from bench.fleet.fleet import Fleet, groups
from bench.fleet.records import group_metadata
from bench.fleet.timeline import timelines
from kshim_pipeline.folder import LocalFolder
from kshim_pipeline.land.batches import NOTHING, Batch, Batches, Landed, LandedFile
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.records import DECODED, DECODER, STORED
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DAY_MS: Final = 86_400_000
_DRAWN: Final = "drawn"


def records(spark: SparkSession, fleet: Fleet, *, tasks: int = 8) -> DataFrame:
    """Columns of STORED without the bytes, which nothing reads again: all records of all groups of `fleet`."""
    everyone = groups(spark, fleet, tasks=tasks)
    committed = commits(timelines(everyone, fleet), everyone, fleet)
    made = committed.select(
        F.lit(OFFSETS_TOPIC).alias("topic"),
        F.col("evidence.partition").alias("partition"),
        F.col("evidence.offset").alias("offset"),
        F.col("ts_ms").alias("timestamp_ms"),
        F.lit("synthetic").alias("source"),
        F.lit("offset_commit").alias("kind"),
        F.lit(1).alias("key_type"),
        F.lit(3).alias("value_version"),
        F.lit(False).alias("is_tombstone"),
        "group_id",
        F.col("topic").alias("committed_topic"),
        F.col("partition").alias("committed_partition"),
        "committed_offset",
        F.lit(0).alias("leader_epoch"),
        F.lit("").alias("metadata"),
        F.col("ts_ms").alias("commit_timestamp_ms"),
        F.lit(-1).alias("expire_timestamp_ms"),
    )
    return shaped(group_metadata(everyone, fleet).unionByName(shaped(made, DECODED)), STORED)


def draw(spark: SparkSession, fleet: Fleet, folder: Path) -> None:
    """Write the records of each day to `folder`, from where `land_day` takes them."""
    day = F.floor((F.col("timestamp_ms") - fleet.start_ms) / _DAY_MS)
    rows = records(spark, fleet).withColumns(
        {"number": F.least(day, F.lit(fleet.days - 1)), "day": F.to_date(F.timestamp_millis("timestamp_ms"))}
    )
    written = rows.repartition("number").sortWithinPartitions("number", "kind", "partition", "offset")
    written.write.option("compression", "zstd").partitionBy("number", "topic", "day").parquet(str(folder / _DRAWN))


def land_day(spark: SparkSession, folder: Path, number: int) -> int:
    """Land a day (from 0) that was drawn, after those before it; returns its records."""
    batches = Batches(LocalFolder(folder.absolute()))
    landed = batches.landed() if number else NOTHING
    batch = _batch(landed, number)
    attempt = batches.new_attempt(batch)
    drawn = folder / _DRAWN / f"number={number}"
    for topic in drawn.glob("topic=*"):
        shutil.move(topic, folder / attempt / topic.name)
    (folder / attempt / "_SUCCESS").touch()
    files = []
    for path in sorted((folder / attempt).glob("topic=*/day=*/*.parquet")):
        rows = spark.read.parquet(str(path)).count()
        name, day = (part.partition("=")[2] for part in path.parts[-3:-1])
        files.append(LandedFile(str(path.relative_to(folder)), name, day, rows))
    batches.add(attempt, batch.with_files(landed, files))
    return sum(file.records for file in files)


def _batch(landed: Landed, number: int) -> Batch:
    end = {OFFSETS_TOPIC: {0: number + 1}}  # the offsets of a fleet are not in the order of time
    return Batch(landed.number, number == 0, "synthetic", "synthetic", {}, landed.end, end, (), DECODER)
