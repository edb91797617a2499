"""Records into new files, counted by reading them again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType

from kshim_pipeline.decode import with_columns
from kshim_pipeline.folder import folder_at
from kshim_pipeline.land.batches import LandedFile
from kshim_pipeline.land.compaction import is_stale
from kshim_pipeline.records import RECORDS, STORED

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

DAY: Final = "day"
_OF_RECORDS: Final = re.compile(r"records/(batch=[^/]+/)?topic=[^/]+/day=[^/]+/[^/]+$")


def write(spark: SparkSession, records: DataFrame, directory: str) -> None:
    """Write records (columns of RECORDS), decoded beside their bytes, into a directory that has no records yet."""
    # Else every partition of the topic makes a file in every batch.
    _write(_with_day(with_columns(records.coalesce(spark.sparkContext.defaultParallelism))), directory)


def rewrite(spark: SparkSession, folder: str, attempt: str, files: Sequence[LandedFile]) -> None:
    """Write the records of landed files of one topic and day into the directory `attempt` as one file.

    They are in the order of kinds, so that who wants a kind skips the rest, and then of partitions and offsets.
    """
    paths = [file.path for file in files]
    if any(map(is_stale, files)):
        stored = with_columns(read_files(spark, folder, paths)).repartition(1)  # else one task would decode all of it
    else:
        stored = read_files(spark, folder, paths, STORED).coalesce(1)
    one = _with_day(stored).sortWithinPartitions("topic", DAY, "kind", "partition", "offset")
    _write(one, f"{folder}/{attempt}")


def _with_day(stored: DataFrame) -> DataFrame:
    return stored.withColumn(DAY, F.to_date(F.timestamp_millis("timestamp_ms")))


def _write(stored: DataFrame, directory: str) -> None:
    writer = stored.write.mode("append").option("compression", "zstd")  # the batch's plan is there already
    writer.partitionBy("topic", DAY).parquet(directory)


def read_files(spark: SparkSession, folder: str, paths: Sequence[str], columns: StructType = RECORDS) -> DataFrame:
    """Some columns of STORED of the records in some of the files of `folder`; a column that a file lacks is null."""
    found = []
    for is_of_batch in (True, False):  # their directories differ by a level
        addresses = [f"{folder}/{path}" for path in paths if path.startswith("records/batch=") == is_of_batch]
        if addresses:
            with_day = StructType([*columns.fields, StructField(DAY, DateType())])
            reader = spark.read.schema(with_day).option("basePath", f"{folder}/records")
            found.append(reader.parquet(*addresses).select(*columns.names))
    return reduce(DataFrame.unionByName, found) if found else spark.createDataFrame([], columns)


def landed_files(spark: SparkSession, folder: str, attempt: str) -> tuple[LandedFile, ...]:
    """The files that were written to a directory `attempt` of `folder`."""
    paths = folder_at(spark, folder).find(f"{attempt}/topic=*/day=*/*.parquet")
    found = _record_counts(spark.read, folder, paths)
    return tuple(_landed_file(path, found.get(path, 0)) for path in paths)


def readable_records(spark: SparkSession, folder: str, paths: Sequence[str]) -> dict[str, int]:
    """How many records are read from each of some files of `folder`; those that are damaged are left out."""
    return _record_counts(spark.read.option("ignoreCorruptFiles", "true"), folder, paths)


def _record_counts(reader: DataFrameReader, folder: str, paths: Sequence[str]) -> dict[str, int]:
    if not paths:
        return {}
    read = reader.schema("offset long").parquet(*(f"{folder}/{path}" for path in paths))
    rows = read.groupBy(F.col("_metadata.file_path").alias("path")).count().collect()
    return {_path_of(row["path"]): row["count"] for row in rows}


def _path_of(address: str) -> str:
    """The path of a file of records from the directory on."""
    found = _OF_RECORDS.search(address)
    assert found is not None, address
    return found[0]


def _landed_file(path: str, records: int) -> LandedFile:
    _, _, topic, day, _ = path.split("/")
    return LandedFile(path, topic.partition("=")[2], day.partition("=")[2], records)
