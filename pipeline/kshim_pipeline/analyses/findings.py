"""Rows of analyses -> rows of the table findings; evidence packed so that it can be aggregated cheaply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kshim_pipeline.schemas import FINDINGS, MEMBER_REF

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_TOPICS: Final = ("__consumer_offsets", "__kshim_events", "log")
_OFFSET_BITS: Final = 44
_PARTITION_BITS: Final = 16


def awaited() -> Column:
    """Of rows of rebalances, the member that joined last, or of the new protocol gave up partitions last: the others waited for it."""
    return F.when(F.col("group_type") == "consumer", F.col("last_to_revoke")).otherwise(F.col("last_to_join"))


def packed(column: str = "evidence") -> Column:
    """Evidence as one number, ordered by topic, partition and offset. Offsets from 2^44 on lose their upper bits.

    Spark aggregates numbers in place; even the smallest structs and strings make it sort.
    """
    topic = F.array_position(F.array(*map(F.lit, _TOPICS)), F.col(f"{column}.topic")) - 1
    partition = F.coalesce(F.col(f"{column}.partition"), F.lit(0)).cast("long")
    offset = F.col(f"{column}.offset").bitwiseAND(F.lit((1 << _OFFSET_BITS) - 1))
    high = F.shiftleft(topic.cast("long"), _PARTITION_BITS).bitwiseOR(partition)
    return F.when(topic >= 0, F.shiftleft(high, _OFFSET_BITS).bitwiseOR(offset))


def unpacked(place: str | Column) -> Column:
    """The evidence of a packed number; null for null."""
    number = F.col(place) if isinstance(place, str) else place
    topic = F.shiftright(number, _OFFSET_BITS + _PARTITION_BITS).cast("int")
    partition = F.shiftright(number, _OFFSET_BITS).bitwiseAND(F.lit((1 << _PARTITION_BITS) - 1)).cast("int")
    return F.when(
        number.isNotNull(),
        F.struct(
            F.element_at(F.array(*map(F.lit, _TOPICS)), topic + 1).alias("topic"),
            F.when(topic != _TOPICS.index("log"), partition).alias("partition"),
            number.bitwiseAND(F.lit((1 << _OFFSET_BITS) - 1)).alias("offset"),
        ),
    )


def places(*numbers: str) -> Column:
    """The column `evidence` of findings, from packed places; without duplicates and nulls."""
    return F.array_compact(F.array_distinct(F.array(*(unpacked(number) for number in numbers))))


def finding(rows: DataFrame, **columns: Column | str) -> DataFrame:
    """Rows of findings. `columns` by name: a Column, or a text that is the same in all.

    Others are the columns of the same name in `rows`, else null; the evidence is that packed in `first` and `last`.
    """
    unknown = columns.keys() - set(FINDINGS.names)
    assert not unknown, unknown
    made = {name: F.col(name) for name in FINDINGS.names if name in rows.columns}
    made["evidence"] = places(*(name for name in ("first", "last") if name in rows.columns))
    made |= {name: F.lit(value) if isinstance(value, str) else value for name, value in columns.items()}
    return rows.select(
        *(made.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in FINDINGS.fields)
    )


def member(
    client_id: Column | str | None = None,
    client_host: Column | str | None = None,
    member_id: Column | str | None = None,
    group_instance_id: Column | str | None = None,
) -> Column:
    """The column `member` of findings, from columns or names of columns."""
    given = {
        "member_id": member_id,
        "group_instance_id": group_instance_id,
        "client_id": client_id,
        "client_host": client_host,
    }
    parts = ((name, F.col(part) if isinstance(part, str) else part) for name, part in given.items())
    return F.struct(*((F.lit(None) if part is None else part).cast("string").alias(name) for name, part in parts)).cast(
        MEMBER_REF
    )


def sentence(template: str, **columns: Column) -> Column:
    """`template` with its fields filled in from `columns`, else from the column of that name. Null becomes `unknown`.

    A field may have a format: `clock` (of ms since 1970, in UTC), `seconds` or `minutes` (of ms), `percent` (of a
    share).
    """
    parts: list[Column] = []
    for text, name, form, _ in Formatter().parse(template):
        parts.append(F.lit(text))
        if name is not None:
            value = _FORMATS[form or ""](columns.get(name, F.col(name)))
            parts.append(F.coalesce(value.cast("string"), F.lit("unknown")))
    return F.concat(*parts)


_FORMATS: Final[Mapping[str, Callable[[Column], Column]]] = {
    "": lambda value: value,
    "clock": lambda ts_ms: F.date_format(F.timestamp_millis(ts_ms), "yyyy-MM-dd HH:mm:ss"),
    "seconds": lambda ms: F.format_string("%.1f", ms / 1_000),
    "minutes": lambda ms: F.format_string("%.1f", ms / 60_000),
    "percent": lambda share: F.round(share * 100).cast("int"),
}
