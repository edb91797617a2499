"""Records, events, log lines -> incidents: causes, affected groups, and responsible clients.

The code of `kshim why` says what they are, for one group after the other, and then of those of several groups which are one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from kshim_pipeline.diagnosis.explained import Found, found_of, incident_rows
from kshim_pipeline.diagnosis.facts import Entry, entries_of
from kshim_pipeline.diagnosis.members import members
from kshim_pipeline.diagnosis.neighbours import ENTRIES, neighbours
from kshim_pipeline.diagnosis.typed_rows import rows_of, schema_of, table_of, values_of
from kshim_pipeline.materialize import Materialize, cached
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.records import DECODED
from kshim_pipeline.schemas import EVENTS, INCIDENTS, LOG_LINES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _some(*names: str) -> StructType:
    """Some columns of DECODED."""
    return StructType([StructField(name, DECODED[name].dataType) for name in names])


_FOUND: Final = schema_of(Found)
EPOCH_RECORDS: Final = _some(
    "topic", "partition", "offset", "timestamp_ms", "key_type", "is_tombstone", "raw_value"
).add("subject", StringType())
"""Records of groups of the new protocol. `subject`: the member's id, or the expression."""
COMMITTED: Final = _some("timestamp_ms", "committed_topic", "committed_partition", "committed_topic_id")
"""Commits of such groups."""
_TOLD: Final = StructType(
    [
        StructField("group_id", StringType()),
        *(
            StructField(name, StructType([StructField(each.name, each.dataType) for each in table.fields]))
            for name, table in (("event", EVENTS), ("line", LOG_LINES), ("epoch", EPOCH_RECORDS), ("commit", COMMITTED))
        ),
    ]
)
"""What is known of a group besides its members: an event, a line of the broker's log, a record of the new protocol, a commit."""


def incidents_of_fleet(
    decoded: DataFrame,
    events: DataFrame | None = None,
    log_lines: DataFrame | None = None,
    *,
    materialize: Materialize = cached,
) -> DataFrame:
    """The table INCIDENTS from `decoded` (columns of DECODED) and other sources (EVENTS, LOG_LINES), if there are any.

    `decoded` and `events` are read several times and should be cached. `materialize` stores intermediate frames that
    are read several times.
    """
    entries = materialize("entries", _entries(decoded, events, log_lines))
    asked = entries.withColumn("asked", F.col("group")).unionByName(neighbours(entries))
    until = entries.agg(F.max("fact.ts_ms").alias("until_ms"))
    found = asked.crossJoin(until).groupBy("asked").applyInArrow(_found, _FOUND)
    return found.groupBy("culprit").applyInArrow(_together, INCIDENTS)


def known_of_groups(
    groups: Iterable[str], decoded: DataFrame, events: DataFrame | None, log_lines: DataFrame | None
) -> DataFrame:
    """ENTRIES: what is known of these groups, from the same sources."""
    names = list(groups)

    def mine(frame: DataFrame, column: str) -> DataFrame:
        return frame.where(F.col(column).isin(*names) if names else F.lit(False))

    return _entries(
        mine(decoded, "group_id"),
        None if events is None else mine(events, "group"),
        None if log_lines is None else mine(log_lines, "group_id"),
    )


def _entries(decoded: DataFrame, events: DataFrame | None, log_lines: DataFrame | None) -> DataFrame:
    """ENTRIES: what is known of each group."""
    told = decoded.sparkSession.createDataFrame([], _TOLD)
    if events is not None:
        told = told.unionByName(_in_column(events, F.col("group"), EVENTS, "event"))
    if log_lines is not None:
        told = told.unionByName(_in_column(log_lines, F.col("group_id"), LOG_LINES, "line"))
    of_epochs = decoded.where("key_type in (3, 5, 6, 8, 16) and kind != 'unreadable' and group_id is not null")
    records = of_epochs.select("*", F.coalesce("member_id", "topic_regex", F.lit("")).alias("subject"))
    told = told.unionByName(_in_column(records, F.col("group_id"), EPOCH_RECORDS, "epoch"))
    committed = decoded.where("kind = 'offset_commit' and not is_tombstone").join(
        of_epochs.select("group_id").distinct(), "group_id", "left_semi"
    )
    told = told.unionByName(_in_column(committed, F.col("group_id"), COMMITTED, "commit"))
    of_records = members(decoded).groupBy("group_id")
    return of_records.cogroup(told.groupBy("group_id")).applyInArrow(_entries_of_group, ENTRIES)


def _in_column(rows: DataFrame, group: Column, schema: StructType, name: str) -> DataFrame:
    """Rows of a table as one column of _TOLD."""
    return shaped(rows.select(group.alias("group_id"), F.struct(*schema.names).alias(name)), _TOLD)


def _entries_of_group(of_records: pa.Table, told: pa.Table) -> pa.Table:
    rows, said = of_records.to_pylist(), told.to_pylist()
    events = [row["event"] for row in said if row["event"] is not None]
    lines = [row["line"] for row in said if row["line"] is not None]
    epochs = [row["epoch"] for row in said if row["epoch"] is not None]
    commits = [row["commit"] for row in said if row["commit"] is not None]
    group = (rows or said)[0]["group_id"]
    return table_of(rows_of(entries_of(group, rows, events, lines, epochs, commits)), ENTRIES)


def _found(asked: pa.Table) -> pa.Table:
    rows = asked.to_pylist()
    found = found_of(rows[0]["asked"], values_of(Entry, rows), rows[0]["until_ms"])
    return table_of(rows_of(found), _FOUND)


def _together(found: pa.Table) -> pa.Table:
    return table_of(incident_rows(values_of(Found, found.to_pylist())), INCIDENTS)
