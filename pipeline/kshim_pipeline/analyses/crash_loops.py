"""9. Which clients crash and restart repeatedly, and which leave a zombie member behind?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import finding, member, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_CLIENT: Final = ("group_id", "client_id", "client_host")
_REASONS: Final = ("member_left", "rebalance_timeout", "sync_timeout", "session_timeout")
"""Reasons for leaving, from clean shutdown to failure; the last one that occurs in an episode is reported."""


def crash_loops(
    memberships: DataFrame,
    *,
    gap_ms: int = 600_000,
    zombie_ms: int = 300_000,
    apart_ms: int = 5_000,
    min_restarts: int = 3,
) -> DataFrame:
    """One row an episode of a client id on a host in a group, in which members join with gaps of at most `gap_ms`.

    A joining member is a restart if the previous one of the same client and host left at most `gap_ms` (ms) earlier. If
    that one was still a member and left within `zombie_ms` (ms), it was a zombie, which is a restart, too. Members that
    join within `apart_ms` (ms) of each other are threads of one process and count as one restart at most. A static
    member that rejoins with another id restarted. Columns: `group_id`, `client_id`, `client_host`; `from_ts_ms`,
    `to_ts_ms` (ms since 1970): first and last join; `joined`, members that joined; `restarts`; `zombies` among them;
    `every_ms`, mean time between restarts (ms); `left_reason`, the most severe (null: unknown); `basis`; `first`,
    `last`: packed evidence.
    """
    of_life = Window.partitionBy(*_CLIENT, "owner").orderBy("ts_ms", F.desc("change"))
    of_client = Window.partitionBy(*_CLIENT).orderBy("ts_ms", "owner")
    end = F.lead(F.when(F.col("change") == "left", F.struct("ts_ms", "left_reason"))).over(of_life)
    lives = (
        memberships.where("change in ('joined', 'left', 'replaced')")
        .select(
            *_CLIENT,
            "owner",
            "ts_ms",
            "change",
            "left_reason",
            (F.col("source") != "records").cast("int").alias("is_observed"),
            packed().alias("place"),
        )
        .withColumn("end", end)
        .where("change != 'left'")
        .withColumns({"_end": F.lag("end").over(of_client), "_ts_ms": F.lag("ts_ms").over(of_client)})
    )
    back = F.col("ts_ms") - F.col("_end.ts_ms")
    came = F.col("change") == "joined"
    is_apart = F.col("ts_ms") - F.col("_ts_ms") >= apart_ms
    kinds = lives.withColumns(
        {
            "is_restart": ~came | F.coalesce(is_apart & (back >= 0) & (back <= gap_ms), F.lit(False)),
            "is_zombie": came & F.coalesce(is_apart & (back < 0) & (back >= -zombie_ms), F.lit(False)),
            "_new": F.coalesce(F.col("ts_ms") - F.col("_ts_ms") > gap_ms, F.lit(True)).cast("int"),
        }
    ).withColumn("episode", F.sum("_new").over(of_client))
    episodes = kinds.groupBy(*_CLIENT, "episode").agg(
        F.min("ts_ms").alias("from_ts_ms"),
        F.max("ts_ms").alias("to_ts_ms"),
        F.count(F.when(came, 1)).alias("joined"),
        F.count(F.when(F.col("is_restart") | F.col("is_zombie"), 1)).alias("restarts"),
        F.count(F.when(F.col("is_zombie"), 1)).alias("zombies"),
        F.max(F.array_position(F.array(*map(F.lit, _REASONS)), F.col("_end.left_reason"))).alias("_reason"),
        F.max("is_observed").alias("_is_observed"),
        F.min("place").alias("first"),
        F.max("place").alias("last"),
    )
    return episodes.where(F.col("restarts") >= min_restarts).select(
        *_CLIENT,
        "from_ts_ms",
        "to_ts_ms",
        "joined",
        "restarts",
        "zombies",
        ((F.col("to_ts_ms") - F.col("from_ts_ms")) / F.col("restarts")).cast("long").alias("every_ms"),
        _reason().alias("left_reason"),
        F.when(F.col("_is_observed") == 1, "observed").otherwise("inferred").alias("basis"),
        "first",
        "last",
    )


def _reason() -> Column:
    # Spark 4.0 takes element_at of literals for never null, and then gives a null index the value of another row.
    return F.when(F.col("_reason") > 0, F.element_at(F.array(*map(F.lit, _REASONS)), F.col("_reason").cast("int")))


def findings(rows: DataFrame) -> DataFrame:
    """One finding an episode."""
    has_zombies = F.col("zombies") > 0
    still_there = sentence("; {zombies} times the previous member had not left the group yet")
    return finding(
        rows,
        analysis="crash_loops",
        severity=F.when(F.col("restarts") >= 10, "critical").otherwise("warning"),
        member=member("client_id", "client_host"),
        cause=F.when(F.col("zombies") * 2 > F.col("restarts"), "zombie").otherwise("crash_loop"),
        sentence=sentence(
            "Client {client_id} on {client_host} restarted {restarts} times in group {group_id} from {from_ts_ms:clock} "
            "to {to_ts_ms:clock}, every {every_ms:seconds} s{zombies}.",
            zombies=F.when(has_zombies, still_there).otherwise(""),
        ),
        advice=F.when(
            has_zombies,
            "It ends without leaving the group: close the consumer on shutdown, or set group.instance.id.",
        ).otherwise("See the client's log for why it ends."),
        value=F.col("restarts"),
        unit="restarts",
    )
