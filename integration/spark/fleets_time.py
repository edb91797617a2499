"""What a broker with a real clock wrote, as one would have written it whose clock runs as fast as the fleet lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, NumericType, StructType

from integration.incidents.clock import Clock, Pace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_INSTANT_MS: Final = 10**12
"""More than this is an instant, ms since 1970; less is a duration."""


def in_fleets_time(rows: DataFrame, clock: Clock) -> DataFrame:
    """All columns and fields whose names end in `_ms`: instants as `clock` shows them, durations as many times as long."""
    if clock.pace is Pace.BROKER:
        return rows
    return rows.select(*(_slower(F.col(each.name), each.name, each.dataType, clock) for each in rows.schema.fields))


def _slower(value: Column, name: str, kind: DataType, clock: Clock) -> Column:
    if isinstance(kind, StructType):
        fields = (_slower(value[each.name], each.name, each.dataType, clock) for each in kind.fields)
        return F.when(value.isNotNull(), F.struct(*fields)).alias(name)
    if isinstance(kind, ArrayType) and isinstance(element := kind.elementType, StructType):
        return F.transform(value, lambda each: _slower(each, "", element, clock)).alias(name)
    if name.endswith("_ms") and isinstance(kind, NumericType):
        instant = clock.shown_ms + (value - clock.real_ms) * clock.rate
        return F.when(value > _INSTANT_MS, instant).otherwise(value * clock.rate).cast(kind).alias(name)
    return value.alias(name)
