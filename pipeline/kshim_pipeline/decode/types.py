"""The schemas of `kshim_pipeline.records` as Arrow types: declared once, for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from kshim_pipeline import records
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WITHOUT_TOPIC: Final = StructType([field for field in records.DECODED.fields if field.name != "topic"])
"""What workers make: the topic is known and need not go to Python and back."""

_SCALARS: dict[type[DataType], Any] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    ShortType: pa.int16(),
    StringType: pa.string(),
}


def _arrow(kind: DataType) -> Any:
    if isinstance(kind, ArrayType):
        return pa.list_(_arrow(kind.elementType))
    if isinstance(kind, StructType):
        return pa.struct([pa.field(field.name, _arrow(field.dataType)) for field in kind])
    return _SCALARS[type(kind)]


def schema_of(table: StructType) -> pa.Schema:
    """The columns of a table, whose types are those that DECODED uses."""
    return pa.schema([pa.field(field.name, _arrow(field.dataType)) for field in table.fields])


MEMBER = _arrow(records.MEMBER)
SUBSCRIPTION = _arrow(records.SUBSCRIPTION)
TOPIC_PARTITIONS = _arrow(records.TOPIC_PARTITIONS)
DECODED = schema_of(WITHOUT_TOPIC)
STORED = schema_of(records.STORED)


def with_topic(decoded: DataFrame) -> DataFrame:
    """The columns of DECODED from those that workers make."""
    return decoded.select(F.lit(OFFSETS_TOPIC).alias("topic"), *WITHOUT_TOPIC.names)
