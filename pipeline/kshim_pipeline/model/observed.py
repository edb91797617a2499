"""Events -> rebalances, as the coordinator reported them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.model.shape import group_type, shaped
from kshim_pipeline.schemas import OBSERVED, REBALANCES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_ENDS: Final = ("rebalance_completed", "rebalance_aborted")
_OF_A_REBALANCE: Final = ("rebalance_started", "join_completed", "target_computed", *_ENDS)
_GONE: Final = ("member_left", "session_timeout", "admin")


def rebalances_of_events(events: DataFrame) -> DataFrame:
    """Columns of rebalances, from the table events: one row a rebalance, from its last event, which has the most fields.

    Of groups of the new protocol these have what each member did. `partitions` and `missed` are null: events do not contain them. `went` counts the members whose departure triggered
    it and those lost during it. A rebalance without an end is `open`, unless its group has a later event: then it is
    `cut_off`, because the broker stopped or its end was lost.
    """
    of_one = Window.partitionBy("group", "run", "epoch")
    of_group = Window.partitionBy("group")
    rows = events.where(F.col("type").isin(*_OF_A_REBALANCE, "coordinator_loaded"))
    rows = rows.withColumn("_latest", F.max(F.struct("ts_ms", "epoch", "run")).over(of_group))
    rows = rows.where(F.col("type").isin(*_OF_A_REBALANCE)).withColumns(
        {
            "_later": F.lead("seq").over(of_one.orderBy("seq")),
            "_started_ts_ms": F.min(F.when(F.col("type") == "rebalance_started", F.col("ts_ms"))).over(of_one),
        }
    )
    last = rows.where("_later is null")
    has_ended = F.col("type").isin(*_ENDS)
    is_latest = (F.col("_latest.run") == F.col("run")) & (F.col("_latest.epoch") == F.col("epoch"))
    started = F.coalesce("_started_ts_ms", F.when(F.col("total_ms").isNotNull(), F.col("ts_ms") - F.col("total_ms")))
    has_joined = F.col("members.joined").isNotNull() & F.col("join_ms").isNotNull()
    knows_all_waits = F.col("waits").isNotNull() & (F.col("waits_omitted") == 0)
    is_consumer = group_type() == "consumer"
    gaps = F.transform("reconciliation.unowned", lambda gap: gap["unowned_ms"])
    began_by_leaving = F.col("reason").isin(*_GONE).cast("int")
    return shaped(
        last.select(
            F.col("group").alias("group_id"),
            group_type().alias("group_type"),
            "from_generation",
            "to_generation",
            F.coalesce(started, "ts_ms").alias("ts_ms"),
            started.alias("started_ts_ms"),
            F.when(has_joined, started + F.col("join_ms")).alias("joined_ts_ms"),
            F.when(has_ended, F.col("ts_ms")).alias("ended_ts_ms"),
            F.when(has_ended, F.col("outcome")).when(is_latest, "open").otherwise("cut_off").alias("outcome"),
            "reason",
            "reason_text",
            _member("trigger", "client_reason").alias("trigger"),
            F.col("ended_by.reason").alias("ended_by"),
            "protocol_type",
            "protocol",
            F.col("members.expected").alias("expected"),
            F.col("members.joined").alias("joined"),
            F.col("members.kicked").alias("kicked"),
            F.when(knows_all_waits, F.size(F.filter("waits", lambda wait: wait["is_new"]))).alias("came"),
            (began_by_leaving + F.col("members.expected") - F.col("members.joined")).alias("went"),
            "initial_delay_ms",
            F.when(has_joined, F.col("join_ms")).alias("join_ms"),
            F.when(has_ended & has_joined, F.col("sync_ms")).alias("sync_ms"),
            "reconciliation.compute_ms",
            "reconciliation.revoke_ms",
            "reconciliation.assign_ms",
            F.when(has_ended, F.col("total_ms")).alias("total_ms"),
            _member("last_to_join", "is_new", "wait_ms").alias("last_to_join"),
            _member("last_to_sync", "is_new", "wait_ms").alias("last_to_sync"),
            _member("reconciliation.last_to_revoke", "is_new", "wait_ms").alias("last_to_revoke"),
            _member("reconciliation.last_to_assign", "is_new", "wait_ms").alias("last_to_assign"),
            F.when(is_consumer & has_ended, F.coalesce(F.array_max(gaps), F.lit(0))).alias("unowned_ms"),
            F.when(
                is_consumer & has_ended & (F.col("reconciliation.unowned_omitted") == 0),
                F.aggregate(gaps, F.lit(0).cast("long"), lambda total, ms: total + ms),
            ).alias("unowned_partition_ms"),
            F.lit(OBSERVED).alias("basis"),
            F.lit("events").alias("source"),
            "evidence",
        ),
        REBALANCES,
    )


def _member(name: str, *more: str) -> Column:
    """A member of an event with the names of the model."""
    return F.when(
        F.col(name).isNotNull(),
        F.struct(
            F.col(f"{name}.member_id").alias("member_id"),
            F.col(f"{name}.instance_id").alias("group_instance_id"),
            F.col(f"{name}.client_id").alias("client_id"),
            F.col(f"{name}.host").alias("client_host"),
            *(F.col(f"{name}.{field}").alias(field) for field in more),
        ),
    )
