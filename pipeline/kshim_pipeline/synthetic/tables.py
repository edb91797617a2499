"""A fleet as the model would have it: every table that analyses read, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim_pipeline.synthetic.commits import commits, log_ends
from kshim_pipeline.synthetic.fleet import Fleet, groups
from kshim_pipeline.synthetic.memberships import generations, memberships
from kshim_pipeline.synthetic.ownership import ownership
from kshim_pipeline.synthetic.rebalances import rebalances
from kshim_pipeline.synthetic.timeline import courses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def tables(spark: SparkSession, fleet: Fleet, *, tasks: int = 8) -> dict[str, DataFrame]:
    """The tables of `fleet` by name, lazy: rebalances of all its groups, the others of groups that are recorded.

    `tasks` says how the work is divided, and changes no row. Raises ValueError: fewer rebalances than groups.
    """
    everyone = groups(spark, fleet, tasks=tasks)
    recorded = everyone.where("is_recorded")
    course = courses(recorded, fleet)
    sampled = everyone.where("is_sampled")
    return {
        "rebalances": rebalances(courses(everyone, fleet), fleet),
        "generations": generations(course, fleet),
        "memberships": memberships(course, fleet),
        "ownership": ownership(recorded, fleet),
        "commits": commits(course, recorded, fleet),
        "log_ends": log_ends(courses(sampled, fleet), sampled, fleet),
    }
