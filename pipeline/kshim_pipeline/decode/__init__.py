"""Records of `__consumer_offsets`, decoded: `decode(records)` gives a DataFrame of `kshim_pipeline.records.DECODED`.

Rows are read by columns (`columns.py`), odd ones by kshim_protocol (`rows.py`); a property test holds the two equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kshim_pipeline.decode.columns import decode_batches
from kshim_pipeline.records import DECODED, OFFSETS_TOPIC, RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["decode", "decode_batches"]


_WITHOUT_TOPIC = StructType([field for field in DECODED.fields if field.name != "topic"])


def decode(records: DataFrame) -> DataFrame:
    """Those of the `records` (columns of RECORDS) that are of `__consumer_offsets`, decoded.

    Their order within a partition is not kept.
    """
    of_offsets = records.where(F.col("topic") == OFFSETS_TOPIC)
    columns = [name for name in RECORDS.names if name != "topic"]  # it need not go to Python and back
    decoded = of_offsets.select(*columns).mapInArrow(decode_batches, _WITHOUT_TOPIC)
    return decoded.select(F.lit(OFFSETS_TOPIC).alias("topic"), *_WITHOUT_TOPIC.names)
