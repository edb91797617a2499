"""Records, events, log lines -> incidents: root causes, affected groups, and responsible clients.

Uses the best source for each group: groups without events and log lines are inferred from their records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from kshim_pipeline.diagnosis.causes import OF_PROCESSES, Cause
from kshim_pipeline.diagnosis.history import GroupHistory
from kshim_pipeline.diagnosis.hosts import with_stalled_hosts
from kshim_pipeline.diagnosis.inference import changes, infer
from kshim_pipeline.diagnosis.members import members
from kshim_pipeline.diagnosis.observed import signals_of_events, signals_of_log
from kshim_pipeline.diagnosis.rules import diagnose
from kshim_pipeline.diagnosis.sentences import advice
from kshim_pipeline.diagnosis.severity import CRITICAL, HARMLESS
from kshim_pipeline.diagnosis.tables import DIAGNOSED, SIGNALS, diagnosed_row, signal_of, signal_row, snapshots_of
from kshim_pipeline.materialize import Materialize, cached
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.schemas import EVIDENCE, FINDINGS, INFERRED, OBSERVED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


MOST_EVIDENCE: Final = 10

INCIDENTS: Final = StructType(
    [
        StructField("groups", ArrayType(StringType()), nullable=False),
        *(field for field in DIAGNOSED.fields if field.name not in ("group_id", "quiet_ms")),
        StructField("advice", StringType()),
    ]
)
"""`clients` are instance ids or `client id@host`; times ms since 1970; `basis` observed or inferred."""


def incidents(
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
    of_members = materialize("members", members(decoded))
    observed = [signals_of_events(events)] if events is not None else []
    if log_lines is not None:
        of_log = signals_of_log(log_lines)
        observed.append(
            of_log.join(observed[0].select("group_id").distinct(), "group_id", "left_anti") if observed else of_log
        )
    signals = _inferred(of_members, observed)
    for part in observed:
        signals = signals.unionByName(part)
    marked = with_stalled_hosts(materialize("signals", signals), of_members)
    found = marked.groupBy("group_id").cogroup(of_members.groupBy("group_id")).applyInArrow(_diagnosed, DIAGNOSED)
    return _merged(found)


def findings_of(incidents: DataFrame) -> DataFrame:
    """Incidents as rows of FINDINGS."""
    severity = (
        F.when(F.col("cause").isin(*CRITICAL), "critical")
        .when(F.col("cause").isin(*HARMLESS), "info")
        .otherwise("warning")
    )
    is_one = F.size("clients") == 1
    client = F.col("clients")[0]
    has_host = F.size(F.split(client, "@")) > 1
    member = F.struct(
        F.when(is_one, F.col("member_ids")[0]).alias("member_id"),
        F.when(is_one & ~has_host, client).alias("group_instance_id"),
        F.when(is_one & has_host, F.regexp_extract(client, "^(.*)@", 1)).alias("client_id"),
        F.col("host").alias("client_host"),
    )
    return shaped(
        incidents.withColumns(
            {
                "analysis": F.lit("diagnosis"),
                "severity": severity,
                "group_id": F.when(F.size("groups") == 1, F.col("groups")[0]),
                "member": F.when(is_one | F.col("host").isNotNull(), member),
                "from_ts_ms": F.col("from_ms"),
                "to_ts_ms": F.col("to_ms"),
                "sentence": F.concat(F.array_join("groups", ", "), F.lit(": "), F.col("sentence")),
                "value": (F.col("to_ms") - F.col("from_ms")) / 1000.0,
                "unit": F.lit("s"),
            }
        ),
        FINDINGS,
    )


def _inferred(of_members: DataFrame, observed: list[DataFrame]) -> DataFrame:
    """Signals of the groups without observed signals."""
    silent = of_members
    for part in observed:
        silent = silent.join(part.select("group_id").distinct(), "group_id", "left_anti")
    return silent.groupBy("group_id").applyInArrow(_infer, SIGNALS)


def _infer(table: pa.Table) -> pa.Table:
    rows = table.to_pylist()
    group_id = rows[0]["group_id"]
    return _table([signal_row(group_id, signal) for signal in infer(group_id, snapshots_of(rows))], SIGNALS)


def _diagnosed(signals: pa.Table, of_members: pa.Table) -> pa.Table:
    observed, known = signals.to_pylist(), of_members.to_pylist()
    group_id = (observed or known)[0]["group_id"]
    snapshots = snapshots_of(known)
    history = GroupHistory(group_id, [*map(signal_of, observed), *changes(snapshots)], snapshots)
    return _table([diagnosed_row(group_id, found) for found in diagnose(history)], DIAGNOSED)


def _table(rows: Iterable[dict[str, Any]], schema: StructType) -> pa.Table:
    from pyspark.sql.pandas.types import to_arrow_schema

    return pa.Table.from_pylist(list(rows), schema=to_arrow_schema(schema))


def _merged(found: DataFrame) -> DataFrame:
    """One incident for what happened to several groups at once, because of the same client, host or processes.

    If the groups show different causes of a process, the one with the highest confidence is taken.
    """
    who = F.coalesce(
        F.when(F.col("subject") == "host", F.col("host")),
        F.when(F.size("clients") > 0, F.array_join("clients", "\n")),
        F.col("group_id"),
    )
    is_of_process = F.col("cause").isin(*map(str, OF_PROCESSES))
    order = Window.partitionBy("_kind", "_who").orderBy("from_ms", "group_id")
    so_far = F.max(F.col("to_ms") + F.col("quiet_ms")).over(order.rowsBetween(Window.unboundedPreceding, -1))
    numbered = (
        found.withColumns({"_who": who, "_kind": F.when(is_of_process, F.lit("process")).otherwise(F.col("cause"))})
        .withColumn("_begins", F.coalesce(F.col("from_ms") > so_far, F.lit(True)).cast("int"))
        .withColumns({"_n": F.sum("_begins").over(order), "_rank": _rank()})
    )
    merged = numbered.groupBy("_kind", "_who", "_n").agg(
        F.max_by("cause", "_rank").alias("cause"),
        F.sort_array(F.collect_set("group_id")).alias("groups"),
        F.min("from_ms").alias("from_ms"),
        F.max("to_ms").alias("to_ms"),
        F.first("subject").alias("subject"),
        F.sort_array(F.array_distinct(F.flatten(F.collect_list("clients")))).alias("clients"),
        F.first("host").alias("host"),
        F.sort_array(F.array_distinct(F.flatten(F.collect_list("member_ids")))).alias("member_ids"),
        F.max_by("confidence", "_rank").alias("confidence"),
        F.max_by("sentence", "_rank").alias("sentence"),
        F.when(F.bool_and(F.col("basis") == OBSERVED), OBSERVED).otherwise(INFERRED).alias("basis"),
        F.slice(F.flatten(F.collect_list("evidence")), 1, MOST_EVIDENCE).cast(ArrayType(EVIDENCE)).alias("evidence"),
    )
    return shaped(merged.withColumn("advice", _advice()), INCIDENTS)


def _rank() -> Column:
    """The order of preference: confidence, then how specific the cause is, then the group."""
    sure = F.when(F.col("confidence") == "high", 2).when(F.col("confidence") == "medium", 1).otherwise(0)
    telling = F.array_position(F.array(*(F.lit(str(cause)) for cause in OF_PROCESSES)), F.col("cause"))
    return F.struct(sure, telling, F.col("group_id"))


def _advice() -> Column:
    pairs = [(str(cause), text) for cause in Cause if (text := advice(cause)) is not None]
    chosen = F.when(F.col("cause") == pairs[0][0], pairs[0][1])
    for cause, text in pairs[1:]:
        chosen = chosen.when(F.col("cause") == cause, text)
    return chosen
