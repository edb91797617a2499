"""What the page shows of a fleet of any size: its worst incidents, what they did, and all that is known of their groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.diagnosis.of_fleet import entries_of_groups
from kshim_pipeline.diagnosis.severity import CRITICAL, HARMLESS
from kshim_pipeline.report.incidents import incident_object, worst_first
from kshim_pipeline.report.page import GroupSummary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INCIDENTS_SHOWN: Final = 200
GROUPS_SHOWN: Final = 500
GROUPS_DRAWN: Final = 12
_COMMITS_DRAWN: Final = 200

Rows = Sequence[Mapping[str, Any]]


def worst_incidents(incidents: DataFrame) -> list[dict[str, Any]]:
    """The worst rows of INCIDENTS, at most `INCIDENTS_SHOWN`."""
    severity = F.when(F.col("cause").isin(*CRITICAL), 0).when(F.col("cause").isin(*HARMLESS), 2).otherwise(1)
    disturbed = (F.col("to_ms") - F.col("from_ms") + 1) * F.size("groups")
    return _rows(incidents.orderBy(severity, F.desc(disturbed), "from_ms", "groups").limit(INCIDENTS_SHOWN))


def drawn_groups(rows: Rows) -> list[str]:
    """Those with the worst incidents."""
    names = dict.fromkeys(group for each in worst_first(map(incident_object, rows)) for group in each["groups"])
    return list(names)[:GROUPS_DRAWN]


def entries_of_drawn(known: DataFrame, incidents: DataFrame) -> DataFrame:
    """Of all that is `known` (ENTRIES), that of the groups with the worst incidents, as `entries_of_groups` has it."""
    return entries_of_groups(known, drawn_groups(worst_incidents(incidents)))


def lags(commits: DataFrame, log_ends: DataFrame | None) -> DataFrame:
    """`group_id`, `topic`, `partition`, `committed_offset`, `lag` (null: not sampled), as they were known last."""
    place = ("topic", "partition")
    latest = commits.groupBy("group_id", *place).agg(
        F.max_by("committed_offset", F.struct("ts_ms", "evidence.offset")).alias("committed_offset")
    )
    if log_ends is None:
        return latest.withColumn("lag", F.lit(None).cast("long"))
    ends = log_ends.groupBy(*place).agg(F.max_by("log_end_offset", "ts_ms").alias("_end"))
    behind = F.greatest(F.col("_end") - F.col("committed_offset"), F.lit(0))
    return latest.join(F.broadcast(ends), list(place), "left").select(
        "group_id", *place, "committed_offset", F.when(F.col("_end").isNotNull(), behind).alias("lag")
    )


def group_summaries(rebalances: DataFrame, lag: DataFrame, incidents: Rows) -> tuple[list[GroupSummary], int]:
    """The groups with the most incidents and rebalances, and how many others there are."""
    of_group: dict[str, int] = defaultdict(int)
    for each in incidents:
        for name in each["groups"]:
            of_group[name] += 1
    sums = rebalances.groupBy("group_id").agg(F.count("*").alias("n"), F.sum("total_ms").alias("stopped_ms"))
    of_lag = lag.groupBy("group_id").agg(F.sum("lag").alias("lag"))
    known = sums.join(of_lag, "group_id", "left")
    disturbed = F.col("group_id").isin(*of_group) if of_group else F.lit(False)
    shown = known.orderBy(~disturbed, F.desc("n"), "group_id").limit(GROUPS_SHOWN).collect()
    rows = [GroupSummary(row.group_id, of_group[row.group_id], row.n, row.stopped_ms, row.lag) for row in shown]
    rows.sort(key=lambda row: (-row.incident_count, -row.rebalance_count, row.group_id))
    return rows, sums.count() - len(rows)


def of_groups(frame: DataFrame, groups: Iterable[str], column: str = "group_id") -> dict[str, list[dict[str, Any]]]:
    """Its rows of some groups, by group."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    names = list(groups)
    if names:
        for row in _rows(frame.where(F.col(column).isin(*names))):
            found[row[column]].append(row)
    return found


def newest_commits(commits: DataFrame) -> DataFrame:
    """The newest commits of each partition, as many as a picture shows."""
    order = Window.partitionBy("group_id", "topic", "partition").orderBy(F.desc("ts_ms"))
    return commits.withColumn("_n", F.row_number().over(order)).where(F.col("_n") <= _COMMITS_DRAWN).drop("_n")


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]
