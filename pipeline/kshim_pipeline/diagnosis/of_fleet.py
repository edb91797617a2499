"""Records, events, log lines -> incidents: causes, affected groups, and responsible clients.

The code of `kshim why` says what they are, for one group after the other, and then of those of several groups which are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from kshim_pipeline.by_group import Row, by_group
from kshim_pipeline.diagnosis.entries import ENTRIES, entry_rows, packed, unpacked
from kshim_pipeline.diagnosis.explained import found_of, incident_rows
from kshim_pipeline.diagnosis.facts import Entry, entries_of
from kshim_pipeline.diagnosis.neighbours import neighbours
from kshim_pipeline.diagnosis.sessions import sessions_of
from kshim_pipeline.diagnosis.told import told
from kshim_pipeline.diagnosis.typed_rows import rows_of, schema_of
from kshim_pipeline.materialize import Materialize, cached
from kshim_pipeline.schemas import INCIDENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FOUND: Final = StructType([StructField("culprit", StringType()), StructField("packed", BinaryType())])


def known_of_fleet(
    decoded: DataFrame,
    events: DataFrame | None = None,
    log_lines: DataFrame | None = None,
    *,
    materialize: Materialize = cached,
) -> DataFrame:
    """ENTRIES: what is known of each session of each group, from `decoded` (columns of DECODED) and other sources (EVENTS,
    LOG_LINES), if there are any.

    `decoded` and `events` are read several times and should be cached. `materialize` stores frames that are read several times.
    """
    rows = told(decoded, events, log_lines, materialize)
    return materialize("entries", by_group(rows, ["group_id"], _entries_of_group, ENTRIES, order=["ts_ms"]))


def incidents_of_fleet(
    known: DataFrame, *, since_ms: int | None = None, materialize: Materialize = cached
) -> DataFrame:
    """The table INCIDENTS, from what `known_of_fleet` says.

    `since_ms`: sessions in which nothing happened from then on are not explained, only known.
    """
    own = known.withColumns({"asked": F.col("group"), "asked_session": F.col("session")})
    asked = own.unionByName(neighbours(known, materialize)).select("asked", "asked_session", "packed")
    if since_ms is not None:
        lively = own.where(F.col("ts_ms") >= since_ms).select("asked", "asked_session").distinct()
        asked = asked.join(lively, ["asked", "asked_session"], "left_semi")
    asked = asked.crossJoin(known.agg(F.max("ts_ms").alias("until_ms")))
    found = by_group(asked, ["asked", "asked_session"], _found, _FOUND)
    return by_group(found, ["culprit"], _together, INCIDENTS)


def entries_of_groups(known: DataFrame, groups: Iterable[str]) -> DataFrame:
    """Rows of Entry as `typed_rows` makes them, which other programs can read: what is known of these groups."""
    mine = known.where(F.col("group").isin(*groups) & ~F.col("is_before"))
    return by_group(mine, ["group"], lambda rows: rows_of(unpacked(rows)), schema_of(Entry), order=["session", "ts_ms"])


def _entries_of_group(said: Iterator[Row]) -> Iterable[Row]:
    first = next(said)
    for number, session in enumerate(sessions_of(chain([first], said))):
        yield from entry_rows(entries_of(first["group_id"], session, number))


def _found(asked: Iterator[Row]) -> Iterable[Row]:
    first = next(asked)
    for found in found_of(first["asked"], unpacked(chain([first], asked)), first["until_ms"]):
        yield {"culprit": found.culprit, "packed": packed(found)}


def _together(found: Iterator[Row]) -> Iterable[Row]:
    return incident_rows(unpacked(found))
