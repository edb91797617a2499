"""Generations and memberships of records -> inferred rebalances: what changed, but not when it began or why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kshim_pipeline.model.shape import shaped, text
from kshim_pipeline.schemas import INFERRED, REBALANCES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_GENERATION = ("group_id", "incarnation", "generation_id")


def rebalances_of_records(generations: DataFrame, memberships: DataFrame) -> DataFrame:
    """Columns of rebalances, from the tables generations and memberships: one row a classic generation in the records.

    Each generation is the result of a rebalance; an empty one counts as aborted. The trigger is set if one member
    changed, or if all that left and joined are one client on one host. Rebalances that stored no assignment are in
    `missed` of the next one that did.
    """
    made = generations.where(
        "source = 'records' and group_type = 'classic' and not (state = 'Empty' and generation_id = 0)"
    )
    rows = made.join(_changes(memberships), list(_GENERATION), "left").withColumns(
        {name: F.coalesce(name, F.lit(0)) for name in ("came", "went", "restarted")}
    )
    is_known_before = F.col("missed").isNotNull()
    is_more = F.col("previous_partitions") < F.col("partitions")
    stable = F.col("state") == "Stable"
    reason = (
        F.when(~is_known_before & (F.col("generation_id") > 1), "unknown")
        .when((F.col("went") == 0) & (F.col("came") > 0), "member_joined")
        .when((F.col("came") == 0) & (F.col("went") > 0), "member_gone")
        .when(F.col("restarted") > 0, "member_restarted")
        .when(F.col("came") > 0, "members_changed")
        .when(is_more & F.col("protocol").contains("cooperative"), "cooperative_follow_up")
        .otherwise("unknown")
    )
    return shaped(
        rows.select(
            "group_id",
            "group_type",
            F.when(is_known_before, F.col("generation_id") - F.col("missed") - 1).alias("from_generation"),
            F.col("generation_id").alias("to_generation"),
            "ts_ms",
            "joined_ts_ms",
            F.col("ts_ms").alias("ended_ts_ms"),
            F.when(stable, "completed").otherwise("aborted").alias("outcome"),
            reason.alias("reason"),
            text("{} came, {} went", F.col("came"), F.col("went")).alias("reason_text"),
            F.when(is_known_before | (F.col("generation_id") <= 1), _trigger()).alias("trigger"),
            "protocol_type",
            "protocol",
            F.when(stable, F.col("members")).alias("joined"),
            F.when(is_known_before | (F.col("generation_id") <= 1), F.col("came")).alias("came"),
            F.when(is_known_before | (F.col("generation_id") <= 1), F.col("went")).alias("went"),
            "missed",
            F.greatest("partitions", "previous_partitions").alias("partitions"),
            "sync_ms",
            F.lit(INFERRED).alias("basis"),
            F.lit("records").alias("source"),
            "evidence",
        ),
        REBALANCES,
    )


def _changes(memberships: DataFrame) -> DataFrame:
    """Joins and departures, a row a generation that has any.

    `came`, `went`; `restarted`, how many of them have a client and host in both; `_came`, `_went`: one of each;
    `_clients`: the number of distinct clients and hosts.
    """
    who = F.struct("member_id", "group_instance_id", "client_id", "client_host")
    came, went = F.col("change") == "joined", F.col("change") == "left"
    of_clients = (
        memberships.where("source != 'events' and change in ('joined', 'left')")
        .groupBy(*_GENERATION, "client_id", "client_host")
        .agg(
            F.count(F.when(came, 1)).alias("came"),
            F.count(F.when(went, 1)).alias("went"),
            F.min(F.when(came, who)).alias("_came"),
            F.min(F.when(went, who)).alias("_went"),
        )
    )
    return of_clients.groupBy(*_GENERATION).agg(
        F.sum("came").alias("came"),
        F.sum("went").alias("went"),
        F.sum(F.least("came", "went")).alias("restarted"),
        F.min("_came").alias("_came"),
        F.min("_went").alias("_went"),
        F.count("*").alias("_clients"),
    )


def _trigger() -> Column:
    only_one = (F.col("came") + F.col("went")) == 1
    is_a_restart = (F.col("_clients") == 1) & (F.col("restarted") > 0)
    who = F.coalesce("_went", "_came")
    with_words = F.struct(
        who["member_id"].alias("member_id"),
        who["group_instance_id"].alias("group_instance_id"),
        who["client_id"].alias("client_id"),
        who["client_host"].alias("client_host"),
        F.lit(None).cast("string").alias("client_reason"),
    )
    return F.when(only_one | is_a_restart, with_words)
