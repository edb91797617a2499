"""The detector in Spark: `applyInPandasWithState` a group, processing time, alerts as records for Spark's Kafka sink.

`transformWithState` would need protobuf at run time, which nothing else here needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kshim_pipeline.detector.state_column import repair
from kshim_pipeline.detector.watching import NOTHING, Alert, Watched, after_events, after_time
from kshim_pipeline.model.events import parsed
from kshim_pipeline.topics import EVENT_VERSIONS, EVENTS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

repair()

_TYPES: Final = {str: StringType(), int: LongType()}


def _schema(kind: type[Alert] | type[Watched]) -> StructType:
    """The fields of a NamedTuple; `str | None` is a string, `int | None` a number."""
    hints = get_type_hints(kind)
    return StructType([StructField(name, _TYPES[(*get_args(hint), hint)[0]]) for name, hint in hints.items()])


STATE: Final = _schema(Watched)
"""What Spark keeps of a group, see `Watched`."""

ALERT: Final = StructType([StructField("group", StringType()), *_schema(Alert).fields])
"""An alert: the group, and the fields of `Alert`."""

_SEEN: Final = (
    *("run", "seq", "ts_ms", "epoch", "type", "reason", "reason_text", "trigger", "members", "outcome"),
    *("group_type", "replaced_member_id"),
)
_LEAST_TIMEOUT_MS: Final = 100

UNREAD: Final = "unread"
"""The name under which Spark counts, in each micro-batch, events that are malformed or of an unknown version."""


def open_rebalances(records: DataFrame, *, open_after_ms: int) -> DataFrame:
    """Alerts (columns of ALERT) of groups that have not been stable for `open_after_ms`, from streaming `records`.

    `records` has the columns of RECORDS; records of other topics and unreadable events are skipped, the latter counted. Ages are the
    difference between the broker's clock, in events, and that of Spark's machine. An alert is repeated after twice the
    time, four times, and so on, and followed by one of type `rebalance_ended`.
    """
    found = parsed(records.where(F.col("topic") == EVENTS_TOPIC))
    is_readable = F.col("event.v").isin(*EVENT_VERSIONS)
    for name in ("run", "seq", "ts_ms", "type", "group"):
        is_readable &= F.col(f"event.{name}").isNotNull()
    is_readable = F.coalesce(is_readable, F.lit(False))
    rows = (
        found.observe(UNREAD, F.count(F.when(~is_readable, 1)).alias(UNREAD))
        .where(is_readable)
        .select(
            F.col("event.group").alias("group"),
            *(F.col(f"event.{name}").alias(name) for name in _SEEN if name not in ("trigger", "members")),
            *(F.col(f"event.trigger.{name}").alias(f"trigger_{name}") for name in ("member_id", "client_id", "host")),
            *(F.col(f"event.members.{name}").alias(name) for name in ("expected", "pending_sync")),
            F.col("event.reconciliation.step.state").alias("step_state"),
            F.col("evidence.partition").cast(IntegerType()).alias("partition"),
            F.col("evidence.offset").alias("offset"),
        )
    )
    return rows.groupBy("group").applyInPandasWithState(
        _watch(open_after_ms), ALERT, STATE, "append", GroupStateTimeout.ProcessingTimeTimeout
    )


def alert_records(alerts: DataFrame) -> DataFrame:
    """`key` (the group) and `value` (JSON, one object an alert, with nulls) for a Kafka sink."""
    return alerts.select(
        F.col("group").cast("binary").alias("key"),
        F.to_json(F.struct(F.lit(1).alias("v"), *ALERT.names), {"ignoreNullFields": "false"})
        .cast("binary")
        .alias("value"),
    )


def _watch(open_after_ms: int) -> Any:
    """The function that Spark calls for a group that has events or whose timeout has passed."""

    def watch(key: tuple[str], batches: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        watched = Watched(*state.get) if state.exists else NOTHING
        now_ms = state.getCurrentProcessingTimeMs()
        if state.hasTimedOut:
            watched, alerts = after_time(watched, now_ms=now_ms, open_after_ms=open_after_ms)
        else:
            watched, alerts = after_events(watched, _events(batches), now_ms=now_ms, open_after_ms=open_after_ms)
        state.update(tuple(watched))
        if watched.due_ms is not None:
            state.setTimeoutDuration(max(watched.due_ms - now_ms, _LEAST_TIMEOUT_MS))
        if alerts:
            rows = [(key[0], *alert) for alert in alerts]
            # Objects, so that a column of whole numbers with a null in it does not become one of fractions.
            yield pd.DataFrame(rows, columns=ALERT.names, dtype=object)

    return watch


def _events(batches: Iterator[pd.DataFrame]) -> list[dict[str, Any]]:
    """The events of one group in one micro-batch, in the order of their offsets."""
    rows = [row for batch in batches for row in batch.astype(object).where(batch.notna(), None).to_dict("records")]
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    return [
        {
            **{name: row[name] for name in (*_SEEN, "step_state") if name in row},
            "trigger": {name: row[f"trigger_{name}"] for name in ("member_id", "client_id", "host")},
            "members": {name: _whole(row[name]) for name in ("expected", "pending_sync")},
        }
        for row in rows
    ]


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
