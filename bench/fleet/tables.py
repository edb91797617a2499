"""A fleet as the model would have it: every table that analyses read, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.fleet.commits import commits, log_ends
from bench.fleet.fleet import Fleet, groups
from bench.fleet.memberships import generations, memberships
from bench.fleet.ownership import ownership
from bench.fleet.rebalances import rebalances
from bench.fleet.timeline import timelines
from kshim_pipeline.schemas import MIGRATIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def tables(spark: SparkSession, fleet: Fleet, *, tasks: int = 8) -> dict[str, DataFrame]:
    """The tables of `fleet` by name, lazy: rebalances of all its groups, the others of groups that are recorded.

    `tasks` says how the work is divided, and changes no row. Raises ValueError: fewer rebalances than groups.
    """
    everyone = groups(spark, fleet, tasks=tasks)
    recorded = everyone.where("is_recorded")
    timeline = timelines(recorded, fleet)
    sampled = everyone.where("is_sampled")
    return {
        "rebalances": rebalances(timelines(everyone, fleet), fleet),
        "generations": generations(timeline, fleet),
        "memberships": memberships(timeline, fleet),
        "ownership": ownership(recorded, fleet),
        "commits": commits(timeline, recorded, fleet),
        "migrations": spark.createDataFrame([], MIGRATIONS),  # all of its groups use the classic protocol
        "log_ends": log_ends(timelines(sampled, fleet), sampled, fleet),
    }
