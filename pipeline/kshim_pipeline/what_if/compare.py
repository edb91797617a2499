"""A fleet's membership changes, replayed under every strategy: one row a group and strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from kshim_pipeline.by_group import Row, by_group
from kshim_pipeline.what_if.barrier import eager, eager_static, server_side
from kshim_pipeline.what_if.changes import NOTHING, Change, Settings, Start, within
from kshim_pipeline.what_if.incremental import consumer_protocol, cooperative
from kshim_pipeline.what_if.membership_changes import GroupChanges, of_group, rows_that_tell
from kshim_pipeline.what_if.totals import Totals
from kshim_pipeline.what_if.zookeeper import zookeeper_watchers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


STRATEGIES: dict[str, Callable[[list[Change], Settings, Start], Totals]] = {
    "zookeeper watchers": zookeeper_watchers,
    "server-side": server_side,
    "classic, eager": eager,
    "classic, eager, static members": eager_static,
    "classic, cooperative": cooperative,
    "consumer protocol": consumer_protocol,
}
"""In the order in which they came."""

_COUNTS = ("changes", "notifications", "generations", "moved_partitions", "stopped_partition_s", "split_views")

# fmt: off
COSTS = StructType([
    StructField("group",    StringType(), False),
    StructField("strategy", StringType(), False),
    *(StructField(name, DoubleType() if name == "stopped_partition_s" else LongType(), False) for name in _COUNTS),
])
"""See `Totals`; `stopped_partition_s` in seconds."""
# fmt: on


def strategy_costs(
    memberships: DataFrame, generations: DataFrame, *, since_ms: int | None = None, until_ms: int | None = None
) -> DataFrame:
    """Tables memberships and generations -> COSTS, of the changes of a time; None: from the first on, to the last.

    A group is replayed as a whole by one worker, so its changes must fit there. One without changes has no rows.
    """
    replayed = partial(_replayed, since_ms=since_ms, until_ms=until_ms)
    return by_group(rows_that_tell(memberships, generations), ["group_id"], replayed, COSTS)


def fleet_totals(costs: DataFrame) -> DataFrame:
    """COSTS -> the sums of the fleet, one row a strategy."""
    return costs.groupBy("strategy").agg(*(F.sum(name).alias(name) for name in _COUNTS))


def _replayed(rows: Iterable[Row], *, since_ms: int | None, until_ms: int | None) -> Iterator[Row]:
    found = of_group(rows)
    start, changes = within(found.changes, since_ms, until_ms)
    if changes:
        yield from replay(found.group, changes, settings_of(found), start)


def settings_of(group: GroupChanges) -> Settings:
    """Its own times, as far as they are known. Heartbeats are as clients are configured: a short session has short ones."""
    settings = Settings()
    if group.session_timeout_ms is not None:
        settings = settings._replace(session_timeout_ms=group.session_timeout_ms)
    if group.poll_ms is not None:
        settings = settings._replace(poll_ms=group.poll_ms)
    third_ms = settings.session_timeout_ms // 3
    return settings._replace(
        heartbeat_interval_ms=min(settings.heartbeat_interval_ms, third_ms),
        consumer_heartbeat_interval_ms=min(settings.consumer_heartbeat_interval_ms, third_ms),
    )


def replay(group: str, changes: list[Change], settings: Settings, start: Start = NOTHING) -> Iterator[Row]:
    """The changes of a group, in order of time, under every strategy: rows of COSTS."""
    for strategy, costs_of in STRATEGIES.items():
        totals = asdict(costs_of(changes, settings, start))
        totals["stopped_partition_s"] = totals.pop("stopped_partition_ms") / 1000
        yield {"group": group, "strategy": strategy, "changes": len(changes), **totals}
