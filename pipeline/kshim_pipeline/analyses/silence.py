"""8. How long are there no commits around each generation, and how much is read twice?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import finding, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_HABIT = 10


def silence(commits: DataFrame, generations: DataFrame) -> DataFrame:
    """One row a partition and generation, at its first commit in it; inferred.

    A commit before and one after the generation are compared. Columns: `group_id`, `topic`, `partition`, `incarnation`,
    `generation_id`; `ts_ms`, when it was stored; `before_ts_ms`, `after_ts_ms` (ms since 1970): the commits;
    `silent_ms` (ms between them); `usual_ms` (ms between the ten commits before, null: fewer than two); `rewound`:
    number of records that the offset went back; `replayed`: records that were read but not committed when the
    generation was stored, and were read again: rate before x time from the last commit to the generation, at most what
    was committed first after it, rounded; null: the rate is unknown; `first`, `last`: packed evidence.
    """
    order = Window.partitionBy("group_id", "topic", "partition").orderBy("evidence.partition", "evidence.offset")
    last = F.struct("ts_ms", "committed_offset", "generation_id", "incarnation", packed().alias("place"))
    earliest = F.struct("ts_ms", "committed_offset")
    rows = commits.where("committed_offset is not null and generation_id is not null").withColumns(
        {
            "_before": F.lag(last).over(order),
            "_habit": F.coalesce(F.lag(earliest, _HABIT + 1).over(order), F.first(earliest).over(order)),
            "_steps": F.least(F.row_number().over(order) - 2, F.lit(_HABIT)),
        }
    )
    is_first = (F.col("_before.generation_id") != F.col("generation_id")) | (
        F.col("_before.incarnation") != F.col("incarnation")
    )
    stored = generations.select("group_id", "incarnation", "generation_id", F.col("ts_ms").alias("_stored"))
    rows = rows.where(is_first).join(stored, ["group_id", "incarnation", "generation_id"])
    span = F.col("_before.ts_ms") - F.col("_habit.ts_ms")
    known = (F.col("_steps") > 0) & (span > 0)
    rate = F.when(known, (F.col("_before.committed_offset") - F.col("_habit.committed_offset")) / span)
    uncommitted = F.greatest(rate, F.lit(0.0)) * F.greatest(F.col("_stored") - F.col("_before.ts_ms"), F.lit(0))
    grew = F.greatest(F.col("committed_offset") - F.col("_before.committed_offset"), F.lit(0))
    return rows.select(
        "group_id",
        "topic",
        "partition",
        "incarnation",
        "generation_id",
        F.col("_stored").alias("ts_ms"),
        F.col("_before.ts_ms").alias("before_ts_ms"),
        F.col("ts_ms").alias("after_ts_ms"),
        (F.col("ts_ms") - F.col("_before.ts_ms")).alias("silent_ms"),
        F.when(known, (span / F.col("_steps")).cast("long")).alias("usual_ms"),
        F.greatest(F.col("_before.committed_offset") - F.col("committed_offset"), F.lit(0)).alias("rewound"),
        F.when(rate.isNotNull(), F.round(F.least(uncommitted, grew)).cast("long")).alias("replayed"),
        F.col("_before.place").alias("first"),
        packed().alias("last"),
    )


def findings(rows: DataFrame, *, min_silent_ms: int = 60_000, times_usual: int = 5, often: int = 3) -> DataFrame:
    """One finding a group and generation with a partition whose offset went back, or that had an unusually long silence.

    Of a group whose offsets go back in most of its generations there is one finding: that is what its application does.
    """
    unusual = (F.col("silent_ms") >= min_silent_ms) & (
        F.col("usual_ms").isNull() | (F.col("silent_ms") >= times_usual * F.col("usual_ms"))
    )
    generation = F.struct("incarnation", "generation_id")
    habits = rows.groupBy("group_id").agg(
        F.countDistinct(generation).alias("generations"),
        F.countDistinct(F.when(F.col("rewound") > 0, generation)).alias("fell_in"),
        F.sum("rewound").alias("rewound"),
        F.min("before_ts_ms").alias("from_ts_ms"),
        F.max("after_ts_ms").alias("to_ts_ms"),
        F.min(F.when(F.col("rewound") > 0, F.col("first"))).alias("first"),
        F.max(F.when(F.col("rewound") > 0, F.col("last"))).alias("last"),
    )
    habits = habits.where((F.col("fell_in") >= often) & (F.col("fell_in") * 2 > F.col("generations")))
    single = rows.join(F.broadcast(habits.select("group_id", "fell_in")), "group_id", "left").withColumn(
        "rewound", F.when(F.col("fell_in").isNull(), F.col("rewound")).otherwise(0)
    )
    found = (
        single.where(unusual | (F.col("rewound") > 0))
        .groupBy("group_id", "incarnation", "generation_id", "ts_ms")
        .agg(
            F.count("*").alias("partitions"),
            F.max("silent_ms").alias("silent_ms"),
            F.sum("rewound").alias("rewound"),
            F.sum("replayed").alias("replayed"),
            F.min("before_ts_ms").alias("from_ts_ms"),
            F.max("after_ts_ms").alias("to_ts_ms"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
        )
    )
    fell = F.col("rewound") > 0
    usual = finding(
        habits,
        analysis="silence",
        severity="warning",
        cause="rewinds_often",
        sentence=sentence(
            "Offsets of group {group_id} went back in {fell_in} of {generations} generations, by {rewound} in all: so often, its "
            "application does that itself."
        ),
        advice="See whether it seeks at each start, or commits one position to all its partitions.",
        value=F.col("rewound"),
        unit="records",
        basis="inferred",
    )
    once = finding(
        found,
        analysis="silence",
        severity=F.when(fell, "critical").otherwise("warning"),
        cause=F.when(fell, "rewound").otherwise("commit_silence"),
        sentence=sentence(
            "Around generation {generation_id} of group {group_id} at {ts_ms:clock}, {partitions} partitions had no commit "
            "for up to {silent_ms:seconds} s; about {replayed} records were read twice{rewound}.",
            rewound=F.when(fell, sentence(", and offsets went back by {rewound}")).otherwise(""),
        ),
        advice=F.when(fell, "Two members committed, or offsets were reset: check who owned the partitions.").otherwise(
            "Commit when partitions are revoked, and shorten the rebalance."
        ),
        value=F.col("silent_ms"),
        unit="ms",
        basis="inferred",
    )
    return once.unionByName(usual)
