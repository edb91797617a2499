"""The whole model from all available sources: records of `__consumer_offsets`, events, log lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim_pipeline.materialize import Materialize
from kshim_pipeline.model import generations as of_generations
from kshim_pipeline.model.commits import commits
from kshim_pipeline.model.epochs import epochs, part
from kshim_pipeline.model.inferred import rebalances_of_records
from kshim_pipeline.model.logged import rebalances_of_log
from kshim_pipeline.model.memberships import memberships, memberships_of_events, merged
from kshim_pipeline.model.migrations import migrations
from kshim_pipeline.model.observed import rebalances_of_events
from kshim_pipeline.model.ownership import ownership
from kshim_pipeline.model.rebalances import rebalances, with_clients
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.model.snapshots import snapshots
from kshim_pipeline.records import DECODED
from kshim_pipeline.schemas import EVENTS, LOG_LINES, REBALANCES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def build(
    spark: SparkSession,
    decoded: DataFrame | None = None,
    events: DataFrame | None = None,
    log_lines: DataFrame | None = None,
    *,
    materialize: Materialize | None = None,
) -> dict[str, DataFrame]:
    """The tables generations, memberships, ownership, commits, rebalances, migrations and events, by name; lazy.

    `decoded` has the columns of DECODED, `events` those of EVENTS, `log_lines` those of LOG_LINES; None is empty.
    Several tables are derived from the same rows: to use more than one, cache the inputs and pass a `materialize` for
    shared steps, some of which are tables and have their names.
    """
    materialize = materialize or (lambda _, frame: frame)
    decoded = spark.createDataFrame([], DECODED) if decoded is None else decoded
    followed = materialize("epochs", epochs(decoded))
    taken = materialize("snapshots", snapshots(decoded, followed))
    # Where there are no events these are the tables themselves.
    of = "" if events is None else " of records"
    of_records = materialize(f"memberships{of}", memberships(taken))
    generations = materialize(f"generations{of}", of_generations.generations(taken))
    tables = {
        "generations": generations,
        "memberships": of_records,
        "ownership": ownership(taken, followed),
        "commits": commits(decoded, taken),
        "migrations": migrations(followed, events),
        "events": shaped(spark.createDataFrame([], EVENTS) if events is None else events, EVENTS),
    }
    of_epochs = shaped(part(followed, "rebalance"), REBALANCES)
    sources = [rebalances_of_records(generations, of_records).unionByName(of_epochs)]
    if log_lines is not None:
        sources.insert(0, with_clients(rebalances_of_log(shaped(log_lines, LOG_LINES)), of_records))
    if events is not None:
        sources.insert(0, rebalances_of_events(events))
        tables["generations"] = of_generations.with_events(generations, events)
        tables["memberships"] = merged(of_records, memberships_of_events(events))
    return tables | {"rebalances": rebalances(*sources)}
