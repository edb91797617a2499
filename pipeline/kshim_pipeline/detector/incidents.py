"""Incidents as a stream: each group's records and events go through `memory`, whose state Spark keeps.

A topic of alerts is written to once for each incident, also when Spark does a batch again: an alert has an identity, and those that
are in the topic already are left out of the first batch after a start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from kshim_pipeline.detector.memory import Alert, Memory, Row
from kshim_pipeline.detector.state_column import repair
from kshim_pipeline.inputs.kafka import Cluster, read_topics
from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

repair()

ALERTS: Final = StructType(
    [StructField("id", StringType()), StructField("key", BinaryType()), StructField("value", BinaryType())]
)
"""Alerts as records: `key` is the group, `value` JSON."""
_STATE: Final = StructType([StructField("packed", BinaryType())])
_AGAIN_MS: Final = 1_000
"""How soon a group is looked at again of which something may be told."""

_KINDS_OF_GROUPS: Final = (2, 3, 5, 6, 8, 16)
_KINDS_OF_COMMITS: Final = (0, 1)
_NUMBER: Final = "cast(conv(hex(substring(key, {}, 2)), 16, 10) as int)"


def incidents(records: DataFrame, *, has_events: bool, since_ms: int) -> DataFrame:
    """Rows of ALERTS, from streaming `records` (RECORDS) of the offsets topic and, if there are events, of theirs.

    Without events, commits tell how members were gone. What had happened before `since_ms` is not told.
    """
    kinds = _KINDS_OF_GROUPS if has_events else _KINDS_OF_GROUPS + _KINDS_OF_COMMITS
    is_of_groups = (F.col("topic") == OFFSETS_TOPIC) & F.expr(_NUMBER.format(1)).isin(*kinds)
    named = f"decode(substring(key, 5, {_NUMBER.format(3)}), 'UTF-8')"
    rows = (
        records.where(F.col("key").isNotNull() & (is_of_groups | (F.col("topic") == EVENTS_TOPIC)))
        .withColumn("is_event", F.col("topic") == EVENTS_TOPIC)
        .withColumn("group", F.when(F.col("is_event"), F.col("key").cast("string")).otherwise(F.expr(named)))
        .select("group", "is_event", "partition", "offset", "timestamp_ms", "key", "value")
    )
    return rows.groupBy("group").applyInPandasWithState(
        _detect(since_ms), ALERTS, _STATE, "append", GroupStateTimeout.ProcessingTimeTimeout
    )


def _detect(since_ms: int) -> Any:
    """The function that Spark calls for a group of which something came, or whose time has passed."""

    def detect(key: tuple[str], batches: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        memory = Memory(key[0], bytes(state.get[0]) if state.exists else None)
        now_ms = state.getCurrentProcessingTimeMs()
        if not state.hasTimedOut:
            memory.add(*_rows(batches))
        alerts = memory.told(now_ms, since_ms)
        state.update((memory.packed,))
        if memory.is_waiting:
            state.setTimeoutDuration(_AGAIN_MS)
        if alerts:
            yield pd.DataFrame([_record(key[0], alert) for alert in alerts], columns=ALERTS.names, dtype=object)

    return detect


def _rows(batches: Iterator[pd.DataFrame]) -> tuple[list[Row], list[Row]]:
    """Records and events of a micro-batch, each in the order of their partition."""
    rows = [row for batch in batches for row in batch.astype(object).where(batch.notna(), None).to_dict("records")]
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    found: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        value = None if row["value"] is None else bytes(row["value"])
        found[bool(row["is_event"])].append(Row(row["timestamp_ms"], row["offset"], bytes(row["key"]), value))
    return found


def _record(group: str, alert: Alert) -> tuple[str, bytes, bytes]:
    return alert.identity, group.encode(), json.dumps(alert.document, ensure_ascii=False).encode()


def written_once(spark: SparkSession, cluster: Cluster, topic: str) -> Callable[[DataFrame, int], None]:
    """What writes each batch of alerts to a topic: the first one without those that are there."""
    is_first = True
    sink = {f"kafka.{key}": value for key, value in cluster.options.items()}
    sink |= {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic}

    def write(batch: DataFrame, number: int) -> None:
        nonlocal is_first
        if is_first and any(span.end > span.start for span in cluster.spans(spark, [topic]).get(topic, {}).values()):
            told = read_topics(spark, cluster, [topic])
            batch = batch.join(
                told.select(F.get_json_object(F.col("value").cast("string"), "$.id").alias("id")), "id", "left_anti"
            )
        is_first = False
        batch.select("key", "value").write.format("kafka").options(**sink).save()

    return write
