"""Records in Parquet files, read and decoded by the workers themselves, so that rows do not go through the JVM twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kshim_pipeline.decode.columns import decode_batches
from kshim_pipeline.decode.types import WITHOUT_TOPIC, with_topic
from kshim_pipeline.inputs.files import one_to_a_task
from kshim_pipeline.records import RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_ROWS_A_BATCH: Final = 16_384


def decode_files(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """All records in Parquet files with the columns of RECORDS (the topic is ignored), as DECODED. One task a file.

    Workers open the files, so on a cluster they must be on a shared disk.
    """
    return with_topic(one_to_a_task(spark, paths).mapInArrow(_decoded, WITHOUT_TOPIC))


def _decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    columns = [name for name in RECORDS.names if name != "topic"]
    for batch in batches:
        for path in batch.column("path").to_pylist():
            with pq.ParquetFile(path) as file:
                yield from decode_batches(
                    file.iter_batches(batch_size=_ROWS_A_BATCH, columns=columns, use_threads=False)
                )
