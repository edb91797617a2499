"""Records of `__consumer_offsets`, decoded: `decode(records)` gives a DataFrame of `kshim_pipeline.records.DECODED`.

Rows are read by columns (`columns.py`), odd ones by kshim_protocol (`rows.py`); a property test holds the two equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kshim_pipeline.decode.columns import decode_batches
from kshim_pipeline.decode.parquet import decode_files
from kshim_pipeline.decode.types import WITHOUT_TOPIC, with_topic
from kshim_pipeline.records import RECORDS
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["decode", "decode_batches", "decode_files"]


def decode(records: DataFrame) -> DataFrame:
    """Those of the `records` (columns of RECORDS) that are of `__consumer_offsets`, decoded.

    Their order within a partition is not kept.
    """
    of_offsets = records.where(F.col("topic") == OFFSETS_TOPIC)
    columns = [name for name in RECORDS.names if name != "topic"]  # it need not go to Python and back
    return with_topic(of_offsets.select(*columns).mapInArrow(decode_batches, WITHOUT_TOPIC))
