"""Landed records, read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kshim_pipeline.decode import decode, decode_files
from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.folder import LocalFolder, folder_at
from kshim_pipeline.land.batches import Batches, Landed
from kshim_pipeline.land.compaction import is_stale
from kshim_pipeline.land.writing import read_files
from kshim_pipeline.records import DECODED
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


def landed_in(spark: SparkSession, folder: str) -> Landed:
    """What is landed in `folder` now. Raises PipelineError: nothing is, or some of it is gone."""
    try:
        landed = Batches(folder_at(spark, folder)).landed()
    except OSError as error:
        raise PipelineError(str(error), EXIT_UNAVAILABLE) from error
    if not landed.files:
        raise PipelineError(f"{folder} contains no landed records", EXIT_UNAVAILABLE)
    return landed


def newest_record_ms(spark: SparkSession, folder: str, landed: Landed) -> int:
    """When the newest record was written, ms since 1970."""
    newest = max(file.day for file in landed.files.values())
    files = [path for path, file in landed.files.items() if file.day == newest]
    found = read_files(spark, folder, files).agg(F.max("timestamp_ms")).collect()[0][0]
    return int(found or 0)


def read_landed(spark: SparkSession, folder: str, landed: Landed | None = None) -> DataFrame:
    """The records landed in `folder` (`landed`; None: what is now), as RECORDS. Raises PipelineError as `landed_in`."""
    landed = landed_in(spark, folder) if landed is None else landed
    return read_files(spark, folder, sorted(landed.files)).withColumn("source", F.lit(landed.source))


def decode_landed(spark: SparkSession, folder: str, landed: Landed | None = None) -> DataFrame:
    """The records of `__consumer_offsets` of `read_landed`, as DECODED. Raises PipelineError as `landed_in`.

    They were decoded when they were landed, so that only the columns that are used are read. Those of files that an older kshim
    landed are decoded now; where such files lie on this machine, without going through the JVM first.
    """
    landed = landed_in(spark, folder) if landed is None else landed
    files = [file for _, file in sorted(landed.files.items()) if file.topic == OFFSETS_TOPIC]
    decoded = read_files(spark, folder, [file.path for file in files if not is_stale(file)], DECODED)
    if stale := [file.path for file in files if is_stale(file)]:
        decoded = decoded.unionByName(_decoded_now(spark, folder, stale))
    return decoded.withColumn("source", F.lit(landed.source))


def is_decoded(landed: Landed) -> bool:
    """Whether `decode_landed` has nothing to decode."""
    return not any(map(is_stale, landed.files.values()))


def _decoded_now(spark: SparkSession, folder: str, paths: Sequence[str]) -> DataFrame:
    place = folder_at(spark, folder)
    if str(spark.sparkContext.master).startswith("local") and isinstance(place, LocalFolder):
        return decode_files(spark, [str(place.path / path) for path in paths])
    return decode(read_files(spark, folder, paths))
