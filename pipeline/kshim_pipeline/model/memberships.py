"""Snapshots and events -> the table memberships: the members of each generation, and which joined and left."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kshim_pipeline.model.shape import group_type, host, shaped
from kshim_pipeline.schemas import MEMBERSHIPS

if TYPE_CHECKING:
    from pyspark.sql import Column


def exploded(snapshots: DataFrame) -> DataFrame:
    """One row a member and snapshot: the snapshot's columns but `members`, those of the member, and `owner`."""
    return snapshots.select(
        *(name for name in snapshots.columns if name != "members"), F.explode("members").alias("_member")
    ).select(
        "*",
        "_member.member_id",
        "_member.group_instance_id",
        "_member.client_id",
        host("_member.client_host").alias("client_host"),
        F.coalesce("_member.group_instance_id", "_member.member_id").alias("owner"),
    )


def memberships(snapshots: DataFrame) -> DataFrame:
    """The table memberships from `snapshots` of records alone."""
    history = Window.partitionBy("group_id", "owner").orderBy("number")
    rows = exploded(snapshots).select(
        "group_id",
        "group_type",
        "incarnation",
        "generation_id",
        "ts_ms",
        "member_id",
        "group_instance_id",
        "client_id",
        "client_host",
        "owner",
        (F.col("member_id") == F.col("leader_id")).alias("is_leader"),
        F.col("_member.session_timeout_ms").alias("session_timeout_ms"),
        F.col("_member.rebalance_timeout_ms").alias("rebalance_timeout_ms"),
        F.when(
            F.col("protocol_type") == "consumer",
            F.aggregate(
                F.coalesce(F.col("_member.assignment"), F.array()),
                F.lit(0),
                lambda total, topic: total + F.size(topic["partitions"]),
            ),
        ).alias("partitions"),
        F.lit("records").alias("source"),
        "evidence",
        "number",
        "is_generation",
        F.struct("next_generation_id", "next_ts_ms", "next_is_deletion", "next_evidence").alias("_next"),
        F.lag(F.struct("number", "member_id")).over(history).alias("_before"),
        F.lead("number").over(history).alias("_after"),
    )
    was_there = F.coalesce(F.col("_before.number") == F.col("number") - 1, F.lit(False))
    is_other_id = F.col("_before.member_id") != F.col("member_id")
    rows = rows.withColumn(
        "change", F.when(~was_there, "joined").when(is_other_id, "replaced").otherwise("kept")
    ).withColumn("replaced_member_id", F.when(F.col("change") == "replaced", F.col("_before.member_id")))
    stays = F.coalesce(F.col("_after") == F.col("number") + 1, F.lit(False))
    is_told = F.expr("is_generation or change != 'kept'")
    was_lost = ~stays & F.col("_next.next_generation_id").isNotNull()
    # A member may be told of twice, in this generation and as gone in the next: rows are read once all the same.
    told = rows.withColumn(
        "_is_gone", F.explode(F.array_compact(F.array(F.when(is_told, F.lit(False)), F.when(was_lost, F.lit(True)))))
    )
    is_gone = F.col("_is_gone")
    of_the_next = {"generation_id": "next_generation_id", "ts_ms": "next_ts_ms", "evidence": "next_evidence"}
    columns = {name: F.when(is_gone, F.col(f"_next.{of}")).otherwise(F.col(name)) for name, of in of_the_next.items()}
    columns |= {name: F.when(~is_gone, F.col(name)) for name in ("is_leader", "partitions", "replaced_member_id")}
    columns["change"] = F.when(is_gone, "left").otherwise(F.col("change"))
    return shaped(told.withColumns(columns), MEMBERSHIPS)


def memberships_of_events(events: DataFrame) -> DataFrame:
    """The table memberships from `events` alone: members of completed rebalances, joins, departures, replacements.

    Timeouts and assignments are unknown. Members left out by `waits_omitted` are missing: those with the shortest
    waits; of the new protocol, those whose partitions stayed the same.
    """
    completed = events.where("type = 'rebalance_completed'").select(
        F.col("group").alias("group_id"),
        group_type().alias("group_type"),
        F.col("to_generation").alias("generation_id"),
        "ts_ms",
        "leader_id",
        "waits",
        F.col("reconciliation.members").alias("_members"),
        F.col("reconciliation.compute_ms").alias("_compute_ms"),
        "evidence",
    )
    waited, reconciled = (completed.withColumn("who", F.explode(name)) for name in ("waits", "_members"))
    revoked = F.col("who.revoked_ms") - F.coalesce("who.told_ms", "_compute_ms")
    present = [
        rows.select(
            "*",
            *_who(),
            F.when(F.col("who.is_new"), "joined").otherwise("kept").alias("change"),
            (F.col("who.member_id") == F.col("leader_id")).alias("is_leader"),
            wait.alias("join_wait_ms"),
        )
        for rows, wait in ((waited, F.col("who.wait_ms")), (reconciled, revoked))
    ]
    lone = events.where(
        ((F.col("type") == "member_left") & (F.col("reason") != "static_left"))
        | ((F.col("type") == "member_fenced") & F.col("replaced_member_id").isNotNull())
    ).select(
        F.col("group").alias("group_id"),
        group_type().alias("group_type"),
        "from_generation",
        "type",
        "reason",
        "ts_ms",
        "replaced_member_id",
        "evidence",
        F.col("trigger").alias("who"),
    )
    is_left = F.col("type") == "member_left"
    others = lone.where("who.member_id is not null").select(
        "*",
        *_who(),
        F.when(is_left, F.col("from_generation") + 1).otherwise(F.col("from_generation")).alias("generation_id"),
        F.when(is_left, "left").otherwise("replaced").alias("change"),
        F.when(is_left, F.col("reason")).alias("left_reason"),
    )
    rows = reduce(DataFrame.unionByName, (shaped(each, MEMBERSHIPS) for each in (*present, others)))
    return rows.withColumns({"incarnation": F.lit(0), "source": F.lit("events")})


def _who() -> list[Column]:
    return [
        F.col("who.member_id"),
        F.col("who.instance_id").alias("group_instance_id"),
        F.col("who.client_id"),
        F.col("who.host").alias("client_host"),
        F.coalesce("who.instance_id", "who.member_id").alias("owner"),
    ]


def merged(of_records: DataFrame, of_events: DataFrame) -> DataFrame:
    """Both tables in one: those of records, with waits, reasons and instants of leaving from events.

    A member's rows are the same if group, generation and member id agree. A member leaves once, so for `left` group and
    member id suffice. Rows in only one of the tables are kept.
    """
    was_left = F.col("change") == "left"
    present = _joined(
        of_records.where(~was_left), of_events.where(~was_left), ("group_id", "generation_id", "member_id")
    )
    left = _joined(of_records.where(was_left), of_events.where(was_left), ("group_id", "member_id"))
    return shaped(present.unionByName(left), MEMBERSHIPS)


def _joined(of_records: DataFrame, of_events: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    r, e = of_records.alias("r"), of_events.alias("e")
    same = F.lit(True)
    for key in keys:
        same &= F.col(f"r.{key}") == F.col(f"e.{key}")
    columns = []
    for field in MEMBERSHIPS.fields:
        name = field.name
        ours, theirs = F.col(f"r.{name}"), F.col(f"e.{name}")
        if name == "source":
            both = F.when(ours.isNotNull() & theirs.isNotNull(), "both")
            columns.append(F.coalesce(both, ours, theirs).alias(name))
        elif name == "ts_ms":
            # The event has the time of leaving; the record only shows that the member was gone by then.
            at_leaving = F.when(F.col("e.change") == "left", theirs)
            columns.append(F.coalesce(at_leaving, ours, theirs).alias(name))
        else:
            columns.append(F.coalesce(ours, theirs).alias(name))
    return r.join(e, same, "full_outer").select(*columns)
