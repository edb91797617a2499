"""Records, events, log lines -> incidents: causes, affected groups, and responsible clients.

The code of `kshim why` says what they are, for one group after the other, and then of those of several groups which are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from kshim_pipeline.by_group import Row, by_group
from kshim_pipeline.diagnosis.explained import Found, found_of, incident_rows
from kshim_pipeline.diagnosis.facts import Entry, Told, entries_of
from kshim_pipeline.diagnosis.neighbours import ENTRIES, neighbours
from kshim_pipeline.diagnosis.told import in_sessions, told
from kshim_pipeline.diagnosis.typed_rows import rows_of, schema_of, values_of
from kshim_pipeline.materialize import Materialize, cached
from kshim_pipeline.schemas import INCIDENTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_FOUND: Final = schema_of(Found)


def incidents_of_fleet(
    decoded: DataFrame,
    events: DataFrame | None = None,
    log_lines: DataFrame | None = None,
    *,
    since_ms: int | None = None,
    materialize: Materialize = cached,
) -> DataFrame:
    """The table INCIDENTS from `decoded` (columns of DECODED) and other sources (EVENTS, LOG_LINES), if there are any.

    `decoded` and `events` are read several times and should be cached. `materialize` stores intermediate frames that
    are read several times. `since_ms`: sessions in which nothing happened from then on are not explained, only known.
    """
    entries = materialize("entries", _entries(decoded, events, log_lines, materialize))
    own = entries.withColumns({"asked": F.col("group"), "asked_session": F.col("session")})
    until = entries.agg(F.max("fact.ts_ms").alias("until_ms"))
    asked = own.unionByName(neighbours(entries)).crossJoin(until)
    if since_ms is not None:
        lively = own.where(F.col("fact.ts_ms") >= since_ms).select("asked", "asked_session").distinct()
        asked = asked.join(lively, ["asked", "asked_session"], "left_semi")
    found = by_group(asked, ["asked", "asked_session"], _found, _FOUND)
    return by_group(found, ["culprit"], _together, INCIDENTS)


def known_of_groups(
    groups: Iterable[str], decoded: DataFrame, events: DataFrame | None, log_lines: DataFrame | None
) -> DataFrame:
    """ENTRIES: what is known of these groups, from the same sources."""
    names = list(groups)

    def is_mine(column: str) -> Column:
        return F.col(column).isin(*names) if names else F.lit(False)

    return _entries(
        decoded.where(is_mine("group_id")),
        None if events is None else events.where(is_mine("group")),
        # Some lines name no group.
        None if log_lines is None else log_lines.where(F.col("group_id").isNull() | is_mine("group_id")),
        lambda _, frame: frame,
    ).where("not is_before")


def _entries(
    decoded: DataFrame, events: DataFrame | None, log_lines: DataFrame | None, materialize: Materialize
) -> DataFrame:
    """ENTRIES: what is known of each session of each group."""
    rows = in_sessions(told(decoded, events, log_lines, materialize))
    return by_group(rows, ["group_id", "session"], _entries_of_session, ENTRIES)


def _entries_of_session(said: Sequence[Row]) -> Iterable[Row]:
    def of(kind: str) -> list[dict[str, Any]]:
        return [row[kind] for row in said if row[kind] is not None]

    opening = of("opening")
    all_told = Told(
        opening[0] if opening else None, of("record"), of("last"), of("event"), of("line"), of("epoch"), of("commit")
    )
    return rows_of(entries_of(said[0]["group_id"], all_told, said[0]["session"]))


def _found(asked: Sequence[Row]) -> Iterable[Row]:
    return rows_of(found_of(asked[0]["asked"], values_of(Entry, asked), asked[0]["until_ms"]))


def _together(found: Sequence[Row]) -> Iterable[Row]:
    return incident_rows(values_of(Found, found))
