"""Rows in the shape of a table: its columns, in its order, with its types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kshim_pipeline.schemas import EVIDENCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def shaped(rows: DataFrame, schema: StructType) -> DataFrame:
    """`rows` as `schema`: columns by name, cast, in order; columns that `rows` lacks are null."""
    present = set(rows.columns)
    return rows.select(
        *(
            (F.col(field.name) if field.name in present else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in schema.fields
        )
    )


def evidence(topic: str | Column, partition: str | Column, offset: str | Column) -> Column:
    """The column `evidence`, from columns or names of columns."""
    parts = (F.col(part) if isinstance(part, str) else part for part in (topic, partition, offset))
    return F.struct(*(part.alias(name) for part, name in zip(parts, EVIDENCE.names, strict=True))).alias("evidence")


def host(address: str | Column) -> Column:
    """A client's address, a column or its name, without the slash that Java puts before it."""
    return F.regexp_replace(address, "^/", "")


def group_type() -> Column:
    """The type of the group of an event; version 1 knew classic ones only."""
    return F.coalesce(F.col("group_type"), F.lit("classic"))


def null(kind: str) -> Column:
    """A null of an SQL type."""
    return F.lit(None).cast(kind)


def text(template: str, *columns: Column) -> Column:
    """`template` with each `{}` replaced by a column; null becomes a question mark."""
    pieces = template.split("{}")
    assert len(pieces) == len(columns) + 1, template
    parts: list[Column] = [F.lit(pieces[0])]
    for column, piece in zip(columns, pieces[1:], strict=True):
        parts += [F.coalesce(column.cast("string"), F.lit("?")), F.lit(piece)]
    return F.concat(*parts)
