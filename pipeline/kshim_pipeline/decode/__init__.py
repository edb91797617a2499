"""Records of `__consumer_offsets`, decoded: `decode(records)` gives a DataFrame of `kshim_pipeline.records.DECODED`.

Rows are read by columns (`columns.py`), odd ones by kshim_protocol (`rows.py`); a property test holds the two equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim_pipeline.decode.columns import decode_batches
from kshim_pipeline.records import DECODED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["decode", "decode_batches"]


def decode(records: DataFrame) -> DataFrame:
    """Each of the `records` (columns of RECORDS) decoded. Their order within a partition is not kept."""
    columns = ["topic", "partition", "offset", "timestamp_ms", "key", "value", "source"]
    return records.select(*columns).mapInArrow(decode_batches, DECODED)
