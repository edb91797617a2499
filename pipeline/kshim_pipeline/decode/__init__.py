"""Records of `__consumer_offsets`, decoded: `decode(records)` returns a DataFrame of `kshim_pipeline.records.DECODED`.

Rows are decoded by columns (`columns.py`), unusual ones by kshim_protocol (`rows.py`); a property test compares the
two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kshim_pipeline.decode.columns import decode_batches, store_batches
from kshim_pipeline.decode.parquet import decode_files
from kshim_pipeline.decode.types import WITHOUT_TOPIC, with_topic
from kshim_pipeline.records import RECORDS, STORED
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["decode", "decode_batches", "decode_files", "store_batches", "with_columns"]


def decode(records: DataFrame) -> DataFrame:
    """The decoded records of `__consumer_offsets` among `records` (columns of RECORDS).

    Their order within a partition is not kept.
    """
    of_offsets = records.where(F.col("topic") == OFFSETS_TOPIC)
    columns = [name for name in RECORDS.names if name != "topic"]  # it need not go to Python and back
    return with_topic(of_offsets.select(*columns).mapInArrow(decode_batches, WITHOUT_TOPIC))


def with_columns(records: DataFrame) -> DataFrame:
    """`records` (columns of RECORDS, of any topic), those of `__consumer_offsets` decoded beside their bytes, as STORED."""
    return records.select(*RECORDS.names).mapInArrow(store_batches, STORED)
