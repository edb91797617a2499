"""7. Which partitions make no progress although there are records to read?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import finding, member, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_PARTITION = ("group_id", "topic", "partition")


def stuck(
    commits: DataFrame,
    ownership: DataFrame,
    generations: DataFrame,
    log_ends: DataFrame | None = None,
    *,
    silent_ms: int = 600_000,
    now_ms: int | None = None,
) -> DataFrame:
    """One row a partition that is stuck at the end of the history, `now_ms` (ms since 1970; None: its latest instant).

    `kind`: `stuck`, it has an owner, but its committed offset has not changed for `silent_ms` while the log grows;
    `orphan`, its group is Stable but no member owns it; `unattended`, its group is Empty while the log grows. Whether
    the log grows is known from `log_ends`; without, a partition counts as stuck if others of its group progressed since
    its own last change. Columns: `group_id`, `topic`, `partition`, `kind`; `owner`, `client_id`, `client_host`
    (null: none); `committed_offset`; `log_end_offset` and `lag` (null: not sampled); `last_commit_ts_ms`,
    `last_progress_ts_ms` (ms since 1970); `silent_ms` (ms since the last progress); `first`: packed evidence.
    """
    order = Window.partitionBy(*_PARTITION).orderBy("ts_ms", "evidence.offset")
    changed = ~F.coalesce(F.lag("committed_offset").over(order) == F.col("committed_offset"), F.lit(False))
    latest = (
        commits.withColumns({"_changed": changed, "_later": F.lead("ts_ms").over(order)})
        .withColumn("last_progress_ts_ms", F.max(F.when(F.col("_changed"), F.col("ts_ms"))).over(order))
        .where("_later is null and committed_offset is not null")
        .select(
            *_PARTITION,
            "committed_offset",
            F.col("ts_ms").alias("last_commit_ts_ms"),
            "last_progress_ts_ms",
            packed().alias("first"),
        )
    )
    held = ownership.where("to_ts_ms is null").select(*_PARTITION, "owner", "client_id", "client_host", "from_ts_ms")
    state = generations.where("until_ts_ms is null").select("group_id", "state", F.col("ts_ms").alias("state_ts_ms"))
    moved = latest.groupBy("group_id").agg(F.max("last_progress_ts_ms").alias("group_progress_ts_ms"))
    rows = latest.join(held, list(_PARTITION), "left").join(state, "group_id", "left").join(moved, "group_id")
    if log_ends is None:
        rows = rows.withColumns({"log_end_offset": F.lit(None).cast("long"), "end_ts_ms": F.lit(None).cast("long")})
    else:
        ends = log_ends.groupBy("topic", "partition").agg(
            F.max_by("log_end_offset", "ts_ms").alias("log_end_offset"), F.max("ts_ms").alias("end_ts_ms")
        )
        rows = rows.join(F.broadcast(ends), ["topic", "partition"], "left")
    rows = _at(rows, now_ms).withColumns(
        {
            "lag": F.when(  # null, and not 0, where the end is not known
                F.col("log_end_offset").isNotNull(),
                F.greatest(F.col("log_end_offset") - F.col("committed_offset"), F.lit(0)),
            ),
            # An owner has had no chance before it came.
            "silent_ms": F.col("_now") - F.greatest("last_progress_ts_ms", F.coalesce("from_ts_ms", F.lit(0))),
        }
    )
    goes_on = F.when(F.col("lag").isNotNull(), F.col("lag") > 0).otherwise(
        F.col("group_progress_ts_ms") - F.col("last_progress_ts_ms") >= silent_ms
    )
    kind = (
        F.when(F.col("owner").isNotNull() & goes_on & (F.col("silent_ms") >= silent_ms), "stuck")
        .when(F.col("owner").isNull() & (F.col("state") == "Stable"), "orphan")
        .when((F.col("state") == "Empty") & (F.col("lag") > 0), "unattended")
    )
    return (
        rows.withColumn("kind", kind)
        .where("kind is not null")
        .select(
            *_PARTITION,
            "kind",
            "owner",
            "client_id",
            "client_host",
            "committed_offset",
            "log_end_offset",
            "lag",
            "last_commit_ts_ms",
            "last_progress_ts_ms",
            "silent_ms",
            "first",
        )
    )


def _at(rows: DataFrame, now_ms: int | None) -> DataFrame:
    """`rows` with the column `_now`: given, or the latest instant of all."""
    if now_ms is not None:
        return rows.withColumn("_now", F.lit(now_ms))
    latest = F.max(F.greatest("last_commit_ts_ms", F.coalesce("end_ts_ms", "last_commit_ts_ms"), "state_ts_ms"))
    return rows.crossJoin(F.broadcast(rows.agg(latest.alias("_now"))))  # one row


def findings(rows: DataFrame) -> DataFrame:
    """One finding a partition."""
    is_stuck, is_orphan = F.col("kind") == "stuck", F.col("kind") == "orphan"
    return finding(
        rows,
        analysis="stuck",
        severity=F.when(F.col("kind") == "unattended", "warning").otherwise("critical"),
        member=F.when(F.col("owner").isNotNull(), member("client_id", "client_host")),
        from_ts_ms=F.col("last_progress_ts_ms"),
        cause=F.concat("kind", F.lit("_partition")),
        sentence=sentence(
            "Partition {topic}-{partition} of group {group_id} {what}: the last progress was committed at "
            "{last_progress_ts_ms:clock}, {silent_ms:seconds} s ago; lag {lag}.",
            what=F.when(is_stuck, sentence("makes no progress although {owner} owns it"))
            .when(is_orphan, "has no owner although the group is Stable")
            .otherwise("has no owner because the group is Empty"),
        ),
        advice=F.when(is_stuck, "Its owner is alive but blocked, or fails on the same record again and again.")
        .when(is_orphan, "Check the assignor, and members with other subscriptions.")
        .otherwise("Start its consumers, or delete the group."),
        value=F.coalesce("lag", "silent_ms"),
        unit=F.when(F.col("lag").isNotNull(), "records").otherwise("ms"),
        basis="inferred",
    )
