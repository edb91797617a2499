"""Records of `__kshim_events` -> the table events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kshim_pipeline.model.shape import evidence, shaped
from kshim_pipeline.schemas import EVENTS
from kshim_pipeline.topics import EVENT_VERSIONS, EVENTS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_IN_JSON: Final = StructType([field for field in EVENTS.fields if field.name != "evidence"])


def parsed(records: DataFrame) -> DataFrame:
    """One row a record: `event` (a struct, its fields null where the JSON is malformed) and `evidence`.

    Keeps no state, so it works on streams, too. Fields that the newest of `EVENT_VERSIONS` does not have are skipped.
    """
    return records.select(
        F.from_json(F.col("value").cast("string"), _IN_JSON).alias("event"),
        evidence("topic", "partition", "offset"),
    )


def events(records: DataFrame) -> DataFrame:
    """The table events, from `records` (columns of RECORDS) of the topic of events; other records are ignored.

    An event that was delivered or read twice is one row. Malformed values and versions that are not in
    `EVENT_VERSIONS` are left out, and counted by `unreadable_events`.
    """
    rows = parsed(_of_the_topic(records)).where(_readable()).select("event.*", "evidence")
    once = Window.partitionBy("group", "event_id").orderBy("evidence.partition", "evidence.offset")
    first = rows.withColumn("_n", F.row_number().over(once)).where("_n = 1")
    return shaped(first, EVENTS)


def unreadable_events(records: DataFrame) -> DataFrame:
    """`problem`, `count`: records of the topic that `events` leaves out, by reason."""
    problem = (
        F.when(F.col("event.v").isNull(), "malformed")
        .when(~F.col("event.v").isin(*EVENT_VERSIONS), F.concat(F.lit("version "), F.col("event.v").cast("string")))
        .otherwise("incomplete")
    )
    rows = parsed(_of_the_topic(records)).where(~_readable())
    return rows.groupBy(problem.alias("problem")).agg(F.count("*").alias("count"))


def _of_the_topic(records: DataFrame) -> DataFrame:
    return records.where(F.col("topic") == EVENTS_TOPIC)


def _readable() -> Column:
    needed = ("event_id", "run", "seq", "ts_ms", "group", "epoch", "type")
    readable = F.coalesce(F.col("event.v").isin(*EVENT_VERSIONS), F.lit(False))
    for name in needed:
        readable &= F.col(f"event.{name}").isNotNull()
    return readable
