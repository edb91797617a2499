"""A fleet's membership changes, replayed under every strategy: one row a group and strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from operator import itemgetter
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from kshim_pipeline.by_group import Row, by_group
from kshim_pipeline.what_if.barrier import eager, eager_static, server_side
from kshim_pipeline.what_if.changes import Change, Settings
from kshim_pipeline.what_if.incremental import consumer_protocol, cooperative
from kshim_pipeline.what_if.totals import Totals
from kshim_pipeline.what_if.zookeeper import zookeeper_watchers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


STRATEGIES: dict[str, Callable[[list[Change], Settings], Totals]] = {
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
CHANGES = StructType([
    StructField("group",              StringType(),  False),
    StructField("at_ms",              LongType(),    False),
    StructField("kind",               StringType(),  False),
    StructField("member",             StringType(),  False),
    StructField("away_ms",            LongType(),    False),
    StructField("partitions",         IntegerType(), False),
    StructField("session_timeout_ms", IntegerType(), True),
    StructField("poll_ms",            IntegerType(), True),
])
"""`Change` with its group. The last two columns are the group's own times, null where they are not known."""

COSTS = StructType([
    StructField("group",    StringType(), False),
    StructField("strategy", StringType(), False),
    *(StructField(name, DoubleType() if name == "stopped_partition_s" else LongType(), False) for name in _COUNTS),
])
"""See `Totals`; `stopped_partition_s` in seconds."""
# fmt: on


def compare(changes: DataFrame) -> DataFrame:
    """CHANGES -> COSTS. A group is replayed as a whole by one worker, so its changes must fit there."""
    return by_group(changes, ["group"], replay_group, COSTS)


def fleet_totals(costs: DataFrame) -> DataFrame:
    """COSTS -> the sums of the fleet, one row a strategy."""
    return costs.groupBy("strategy").agg(*(F.sum(name).alias(name) for name in _COUNTS))


def replay_group(rows: Iterable[Row]) -> Iterator[Row]:
    """The changes of one group, in any order, under every strategy: rows of CHANGES -> rows of COSTS."""
    ordered = sorted(rows, key=itemgetter("at_ms"))
    changes = [Change(*itemgetter(*Change._fields)(row)) for row in ordered]
    settings = Settings()
    for name in ("session_timeout_ms", "poll_ms"):
        known = [row[name] for row in ordered if row[name] is not None]
        if known:
            settings = settings._replace(**{name: max(known)})
    third_ms = settings.session_timeout_ms // 3  # as clients are configured: a short session has short heartbeats
    settings = settings._replace(
        heartbeat_interval_ms=min(settings.heartbeat_interval_ms, third_ms),
        consumer_heartbeat_interval_ms=min(settings.consumer_heartbeat_interval_ms, third_ms),
    )
    for strategy, replay in STRATEGIES.items():
        totals = asdict(replay(changes, settings))
        totals["stopped_partition_s"] = totals.pop("stopped_partition_ms") / 1000
        yield {"group": ordered[0]["group"], "strategy": strategy, "changes": len(changes), **totals}
