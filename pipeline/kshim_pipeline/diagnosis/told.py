"""All that is known of each group as one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kshim_pipeline.diagnosis.members import GROUP_RECORD, LAST_COMMIT, group_records, last_commits
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.records import DECODED
from kshim_pipeline.schemas import EVENTS, LOG_LINES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kshim_pipeline.materialize import Materialize


def _some(*names: str) -> StructType:
    """Some columns of DECODED."""
    return StructType([StructField(name, DECODED[name].dataType) for name in names])


EPOCH_RECORDS: Final = _some(
    "topic", "partition", "offset", "timestamp_ms", "key_type", "is_tombstone", "raw_value"
).add("subject", StringType())
"""Records of groups of the new protocol. `subject`: the member's id, or the expression."""
COMMITTED: Final = _some("timestamp_ms", "committed_topic", "committed_partition", "committed_topic_id")
"""Commits of such groups."""

KINDS: Final = {
    "record": GROUP_RECORD,
    "last": LAST_COMMIT,
    "event": StructType([StructField(each.name, each.dataType) for each in EVENTS.fields]),
    "line": StructType([StructField(each.name, each.dataType) for each in LOG_LINES.fields]),
    "epoch": EPOCH_RECORDS,
    "commit": COMMITTED,
}
"""What a row is, by the column that is not null."""

_TOLD: Final = StructType(
    [
        StructField("group_id", StringType()),
        StructField("ts_ms", LongType()),
        StructField("timeout_ms", IntegerType()),
        *(StructField(name, kind) for name, kind in KINDS.items()),
    ]
)


def told(
    decoded: DataFrame, events: DataFrame | None, log_lines: DataFrame | None, materialize: Materialize
) -> DataFrame:
    """One row a thing that is known: `group_id`, `ts_ms`, and one of the columns of KINDS, the others null.

    `timeout_ms`: the longest timeout of the members of a record.
    """
    records = materialize("group records", group_records(decoded))
    timeout_ms = F.col("record.timeout_ms").alias("timeout_ms")
    rows = shaped(records.select("group_id", F.col("record.ts_ms").alias("ts_ms"), timeout_ms, "record"), _TOLD)
    last = last_commits(decoded, records).select("group_id", F.col("last.ts_ms").alias("ts_ms"), "last")
    rows = rows.unionByName(shaped(last, _TOLD))
    if events is not None:
        rows = rows.unionByName(_of(events, F.col("group"), "ts_ms", "event"))
    if log_lines is not None:
        lines = materialize("log lines", log_lines)  # they are read three times
        rows = rows.unionByName(_of(_of_groups(lines), F.col("group_id"), "ts_ms", "line"))
    of_epochs = decoded.where("key_type in (3, 5, 6, 8, 16) and kind != 'unreadable' and group_id is not null")
    epochs = of_epochs.select("*", F.coalesce("member_id", "topic_regex", F.lit("")).alias("subject"))
    committed = decoded.where("kind = 'offset_commit' and not is_tombstone").join(
        of_epochs.select("group_id").distinct(), "group_id", "left_semi"
    )
    return rows.unionByName(_of(epochs, F.col("group_id"), "timestamp_ms", "epoch")).unionByName(
        _of(committed, F.col("group_id"), "timestamp_ms", "commit")
    )


def _of_groups(lines: DataFrame) -> DataFrame:
    """Lines with the groups that they are about, which some do not name: a member that was fenced after another one had taken
    its place, which the line about that names, and the broker that stops, which is about all groups.
    """
    named = lines.where("group_id is not null")
    replaced = named.where("type = 'static_replaced'").select("member_id", F.col("group_id").alias("_group")).distinct()
    fenced = lines.where("type = 'static_fenced'").join(replaced, "member_id").withColumn("group_id", F.col("_group"))
    groups = named.select(F.col("group_id").alias("_group")).distinct()
    stopping = lines.where("type = 'stopping'").crossJoin(groups).withColumn("group_id", F.col("_group"))
    return named.unionByName(fenced.drop("_group")).unionByName(stopping.drop("_group"))


def _of(rows: DataFrame, group: Column, at: str, kind: str) -> DataFrame:
    """Rows of a table as one column of _TOLD."""
    thing = F.struct(*KINDS[kind].names).alias(kind)
    return shaped(rows.select(group.alias("group_id"), F.col(at).alias("ts_ms"), thing), _TOLD)
