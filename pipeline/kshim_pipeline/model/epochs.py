"""Decoded records of groups of the new protocol -> their epochs: the columns that other tables of the model are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from kshim_pipeline.model.epoch_history import EpochHistory, in_order
from kshim_pipeline.records import DECODED, KINDS
from kshim_pipeline.schemas import EVIDENCE, INFERRED, MIGRATIONS, OWNERSHIP, REBALANCES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EPOCH_KINDS: Final = tuple(KINDS[key_type] for key_type in (3, 5, 6, 7, 8, 16))
_READ: Final = (
    *("topic", "partition", "offset", "timestamp_ms", "kind", "key_type", "is_tombstone", "group_id", "member_id"),
    *("generation_id", "epoch", "metadata_hash", "member_state", "owned", "to_revoke", "wish"),
)
_OF_A_SNAPSHOT: Final = (
    *("topic", "partition", "offset", "timestamp_ms", "is_tombstone", "group_id", "protocol_type", "generation_id"),
    *("protocol_name", "leader_id", "state_timestamp_ms", "members"),
)


def _loose(schema: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType) for field in schema.fields])


SNAPSHOT: Final = StructType([StructField(name, DECODED[name].dataType) for name in _OF_A_SNAPSHOT])
"""Columns of a group metadata record."""

EPOCHS: Final = StructType(
    [
        StructField("snapshot", SNAPSHOT),
        StructField("rebalance", _loose(REBALANCES)),
        StructField("interval", _loose(OWNERSHIP)),
        StructField("migration", _loose(MIGRATIONS)),
        StructField("conversion", StructType([StructField("group_id", StringType()), *EVIDENCE.fields])),
    ]
)
"""One of the parts in each row, the others are null. `conversion`: the tombstone of a classic group that went over."""


def epochs(decoded: DataFrame) -> DataFrame:
    """EPOCHS of the groups in `decoded` (columns of DECODED) that have records of the new protocol.

    Records name topics by id. Commits have both, and a member that subscribes to one topic is given no other; else
    the id, 32 hex digits, is the topic.
    """
    of_epochs = decoded.where(F.col("kind").isin(*_EPOCH_KINDS) & F.col("group_id").isNotNull())
    # Else Spark, which takes them for as many as there are records, sorts all that classic groups have written.
    groups = F.broadcast(of_epochs.select("group_id").distinct())
    classic = decoded.where("kind = 'group_metadata'").join(groups, "group_id", "left_semi")
    rows = of_epochs.unionByName(classic).select(
        *_READ, F.transform("members", lambda member: member["member_id"]).alias("member_ids")
    )
    topics = _topics(decoded, of_epochs).groupBy("of_group")
    return rows.groupBy("group_id").cogroup(topics).applyInArrow(_fold, EPOCHS)


def _topics(decoded: DataFrame, of_epochs: DataFrame) -> DataFrame:
    """`of_group`, `topic_id`, `topic`: of the topics whose ids a group's records have."""
    known = (
        decoded.where("committed_topic_id is not null")
        .select(F.lower(F.hex("committed_topic_id")).alias("topic_id"), F.col("committed_topic").alias("topic"))
        .distinct()
    )
    ids = F.transform("owned", lambda owned: owned["topic_id"])
    wanted = of_epochs.select("group_id", F.explode(ids).alias("topic_id")).distinct()
    return wanted.join(known, "topic_id").select(F.col("group_id").alias("of_group"), "topic_id", "topic")


def part(epochs: DataFrame, name: str) -> DataFrame:
    """The rows of EPOCHS that have the part `name`, with its columns."""
    return epochs.where(F.col(name).isNotNull()).select(f"{name}.*")


def _fold(records: pa.Table, topics: pa.Table) -> pa.Table:
    from pyspark.sql.pandas.types import to_arrow_schema

    history = EpochHistory({row["topic_id"]: row["topic"] for row in topics.to_pylist()})
    last_ms = 0
    for row in in_order(records.to_pylist()):
        history.add(row)
        last_ms = row["timestamp_ms"]
    history.finish(last_ms)
    inferred: dict[str, Any] = {"basis": INFERRED, "source": "records"}
    rows = [
        *({"snapshot": row} for row in history.snapshots),
        *({"rebalance": row | inferred} for row in history.rebalances),
        *({"interval": row} for row in history.intervals),
        *({"migration": row | inferred} for row in history.migrations),
        *({"conversion": row} for row in history.conversions),
    ]
    return pa.Table.from_pylist(rows, schema=to_arrow_schema(EPOCHS))
