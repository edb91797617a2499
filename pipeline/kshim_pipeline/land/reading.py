"""Landed records, read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType

from kshim_pipeline.decode import decode, decode_files
from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.folder import LocalFolder, folder_at
from kshim_pipeline.land.batches import Batches, Landed
from kshim_pipeline.land.writing import DAY
from kshim_pipeline.records import DECODED, RECORDS
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_STORED = StructType([*RECORDS.fields, StructField(DAY, DateType())])


def landed_in(spark: SparkSession, folder: str) -> Landed:
    """What is landed in `folder` now. Raises PipelineError: nothing is, or some of it is gone."""
    try:
        landed = Batches(folder_at(spark, folder)).landed()
    except OSError as error:
        raise PipelineError(f"{folder} cannot be read: {error}", EXIT_UNAVAILABLE) from error
    if not landed.files:
        raise PipelineError(f"{folder} contains no landed records", EXIT_UNAVAILABLE)
    return landed


def read_landed(spark: SparkSession, folder: str, landed: Landed | None = None) -> DataFrame:
    """The records landed in `folder` (`landed`; None: what is now), as RECORDS. Raises PipelineError as `landed_in`."""
    landed = landed_in(spark, folder) if landed is None else landed
    return read_files(spark, folder, sorted(landed.files)).withColumn("source", F.lit(landed.source))


def decode_landed(spark: SparkSession, folder: str, landed: Landed | None = None) -> DataFrame:
    """The records of `__consumer_offsets` of `read_landed`, as DECODED. Raises PipelineError as `landed_in`.

    Files on a local disk, read by local workers, are decoded without going through the JVM first.
    """
    landed = landed_in(spark, folder) if landed is None else landed
    place = folder_at(spark, folder)
    if not str(spark.sparkContext.master).startswith("local") or not isinstance(place, LocalFolder):
        return decode(read_landed(spark, folder, landed))
    files = sorted(file.path for file in landed.files.values() if file.topic == OFFSETS_TOPIC)
    if not files:
        return spark.createDataFrame([], DECODED)
    decoded = decode_files(spark, [str(place.path / path) for path in files])
    return decoded.withColumn("source", F.lit(landed.source))


def read_files(spark: SparkSession, folder: str, paths: Sequence[str]) -> DataFrame:
    """The records in some of the files of `folder`, as RECORDS."""
    records = spark.createDataFrame([], RECORDS)
    for is_of_batch in (True, False):  # their directories differ by a level
        addresses = [f"{folder}/{path}" for path in paths if path.startswith("records/batch=") == is_of_batch]
        if addresses:
            reader = spark.read.schema(_STORED).option("basePath", f"{folder}/records")
            records = records.unionByName(reader.parquet(*addresses).select(*RECORDS.names))
    return records
