"""Signals of the fleet, with those marked that are explained by a stalled host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.diagnosis.signals import Kind
from kshim_pipeline.diagnosis.tables import SIGNALS
from kshim_pipeline.model.shape import shaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


NEARLY_ALL = 0.6
"""This share of a host's members going silent together is the host; fewer are members that happen to share one. Not all:
a record keeps the host of a static member's first life, wherever it runs now."""

FEW = 2
"""Of so few members, all must have fallen silent."""

LEAST_CLIENTS = 2
"""Different clients, for a process that is in several groups dies in all of them."""


def with_stalled_hosts(signals: DataFrame, members: DataFrame) -> DataFrame:
    """SIGNALS, `stall` set where nearly all members on a host went silent at the same time.

    A coordinator notices silence one session timeout late, and timeouts differ, so they are subtracted before times are
    compared. What remains differs by the heartbeat interval, which is at most a third of the session timeout.
    """
    who = members.where("member_id is not null").select(
        "group_id",
        "member_id",
        F.coalesce("instance_id", "client_id").alias("_client"),
        F.col("host").alias("_host"),
        F.col("session_timeout_ms").alias("_session_ms"),
        "ts_ms",
        "next_ts_ms",
    )
    known = who.groupBy("group_id", "member_id").agg(
        F.first("_client").alias("_client"), F.first("_host").alias("_host"), F.max("_session_ms").alias("_session_ms")
    )
    deaths = (
        signals.where(F.col("kind") == Kind.EXPIRED.value)
        .select("group_id", "member_id", F.col("ts_ms").alias("_died_ms"))
        .join(known, ["group_id", "member_id"])
        .withColumn("_silent_ms", F.col("_died_ms") - F.col("_session_ms"))
    )
    # A client that restarted meanwhile on the same host did not stall with it.
    starts = (
        signals.where(F.col("kind") == Kind.JOINED.value)
        .join(known, ["group_id", "member_id"])
        .select("group_id", "_client", "_host", F.col("ts_ms").alias("_started_ms"))
    )
    restarted = (F.col("_started_ms") > F.col("_silent_ms")) & (F.col("_started_ms") < F.col("_died_ms"))
    same = [deaths[name] == starts[name] for name in ("group_id", "_client", "_host")]
    deaths = deaths.join(starts, [*same, restarted], "left_anti")
    clusters = _clusters(deaths)
    together = clusters.groupBy("_host", "_cluster").agg(
        F.min("_silent_ms").alias("_from_ms"),
        F.countDistinct("group_id", "_client").alias("_dead"),
        F.countDistinct("_client").alias("_clients"),
        F.countDistinct("group_id").alias("_groups"),
    )
    suspects = together.where((F.col("_clients") >= LEAST_CLIENTS) & (F.col("_groups") >= LEAST_CLIENTS))
    stalled = suspects.join(_others(suspects, clusters, who), ["_host", "_cluster"], "left").where(
        (F.coalesce("_others", F.lit(0)) == 0)
        | ((F.col("_dead") > FEW) & (F.col("_dead") >= NEARLY_ALL * (F.col("_dead") + F.col("_others"))))
    )
    marks = (
        clusters.join(stalled.select("_host", "_cluster"), ["_host", "_cluster"])
        .select("group_id", "member_id", F.col("_died_ms").alias("ts_ms"), F.col("_host").alias("stall"))
        .withColumn("kind", F.lit(Kind.EXPIRED.value))
        .dropDuplicates(["group_id", "member_id", "ts_ms"])
    )
    return shaped(signals.drop("stall").join(marks, ["group_id", "member_id", "ts_ms", "kind"], "left"), SIGNALS)


def _clusters(deaths: DataFrame) -> DataFrame:
    """Expired members with `_cluster`, a number for those on one host that are at most a heartbeat interval apart."""
    order = Window.partitionBy("_host").orderBy("_silent_ms", "group_id", "member_id")
    is_apart = F.col("_silent_ms") - F.lag("_silent_ms").over(order) > (
        F.greatest(F.col("_session_ms"), F.lag("_session_ms").over(order)) / 3
    )
    return deaths.withColumn("_apart", F.coalesce(is_apart, F.lit(False)).cast("int")).withColumn(
        "_cluster", F.sum("_apart").over(order)
    )


def _others(suspects: DataFrame, clusters: DataFrame, who: DataFrame) -> DataFrame:
    """The number of members on the host that did not go silent."""
    there = (
        suspects.join(who, "_host")
        .where((F.col("ts_ms") <= F.col("_from_ms")) & (F.coalesce("next_ts_ms", F.lit(1 << 62)) > F.col("_from_ms")))
        .select("_host", "_cluster", "group_id", "_client")
        .distinct()
    )
    dead = clusters.select("_host", "_cluster", "group_id", "_client").distinct()
    alive = there.join(dead, ["_host", "_cluster", "group_id", "_client"], "left_anti")
    return alive.groupBy("_host", "_cluster").agg(F.count("*").alias("_others"))
