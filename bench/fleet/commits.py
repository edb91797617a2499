"""The tables commits and log_ends of the recorded and sampled groups of a fleet.

A partition's log grows evenly, at a rate of its own; a commit says how far it had grown some time before. Commits that
matter are those around rebalances: every other period one partition of the group is looked at, which commits just
before each rebalance, soon after it, no further than then, and a little later, when it has caught up. At the end of the
history every partition commits twice, half an hour apart; a stuck one the same offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from bench.fleet.draws import div, log_uniform, mod
from bench.fleet.fleet import PERIOD, Fleet
from bench.fleet.places import COMMITTED_AT_LAST, COMMITTED_LATER, COMMITTED_SOON, record_place
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.schemas import COMMITS, LOG_ENDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_RATE: Final = (1, 500)
"""Records a second that a partition gets."""
_AT_ONCE_MS: Final = 1_000
_AT_LAST_MS: Final = 1_800_000
STUCK_SHARE: Final = 0.01
REWOUND_SHARE: Final = 0.002
_REWOUND_MS: Final = 60_000
# Shares of a rebalance's step, of which it takes 45 % at most and after which 5 % are left.
_BEFORE, _SOON, _LATER, _SAMPLED = 0.006, 0.004, 0.016, 0.002


def _log_end(fleet: Fleet, at_ms: Column) -> Column:
    rate = log_uniform(fleet.draw("rate", F.col("id"), F.col("partition")), *_RATE)
    return F.greatest(F.floor(rate * (at_ms - fleet.start_ms) / 1_000), F.lit(0)).cast("long")


def _looked_at(timelines: DataFrame) -> DataFrame:
    """The rebalances with commits around them, and the partition that commits."""
    k = F.col("k")
    partition = mod(div(k, 2 * PERIOD), F.col("partitions"))
    return timelines.where((k > 0) & (mod(div(k, PERIOD), 2) == 0)).withColumn("partition", partition)


def _moments() -> dict[str, Column]:
    begin, end, step = F.col("t.begin_ms"), F.col("t.ended_ms"), F.col("t.step_ms")
    return {
        "before": begin - F.floor(step * _BEFORE).cast("long"),
        "soon": end + F.floor(step * _SOON).cast("long"),
        "later": end + F.floor(step * _LATER).cast("long"),
    }


def commits(timelines: DataFrame, groups: DataFrame, fleet: Fleet) -> DataFrame:
    """The table commits: three around a rebalance that is looked at (one, if it is superseded), two at the end."""
    k, moments = F.col("k"), _moments()
    stored = F.when(mod(k, 32) == 0, k - 1).otherwise(k)  # rebalance k-1 makes generation k, unless it is superseded
    rewinds = F.when(fleet.draw("rewind", F.col("id"), k) < REWOUND_SHARE, F.lit(_REWOUND_MS)).otherwise(F.lit(0))
    told = [
        _commit(moments["before"], moments["before"] - _AT_ONCE_MS, stored, record_place(k, 0)),
        _commit(moments["soon"], moments["before"] - _AT_ONCE_MS - rewinds, k + 1, record_place(k, COMMITTED_SOON)),
        _commit(moments["later"], moments["later"] - _AT_ONCE_MS, k + 1, record_place(k, COMMITTED_LATER)),
    ]
    around = F.explode(F.when(F.col("is_superseded"), F.array(told[0])).otherwise(F.array(*told)))
    rows = _looked_at(timelines).select("id", "group_id", "topic", "partition", around.alias("c"))
    end, last = F.lit(fleet.start_ms + fleet.length_ms), F.col("rebalances") - 1
    partitions = groups.select("*", F.explode(F.sequence(F.lit(0), F.col("partitions") - 1)).alias("partition"))
    is_stuck = fleet.draw("stuck", F.col("id"), F.col("partition")) < STUCK_SHARE
    read = end + F.when(is_stuck, F.lit(0)).otherwise(F.lit(_AT_LAST_MS)) - _AT_ONCE_MS
    final = F.explode(
        F.array(
            _commit(end, end - _AT_ONCE_MS, last + 1, record_place(last, COMMITTED_AT_LAST)),
            _commit(end + _AT_LAST_MS, read, last + 1, record_place(last, COMMITTED_AT_LAST + 1)),
        )
    )
    rows = rows.unionByName(partitions.select("id", "group_id", "topic", "partition", final.alias("c")))
    return shaped(
        rows.select(
            "group_id",
            "topic",
            "partition",
            _log_end(fleet, F.col("c.read_ms")).alias("committed_offset"),
            F.lit(0).alias("leader_epoch"),
            "c.ts_ms",
            F.lit(0).alias("incarnation"),
            "c.generation_id",
            "c.evidence",
        ),
        COMMITS,
    )


def _commit(ts_ms: Column, read_ms: Column, generation_id: Column, place: Column) -> Column:
    return F.struct(
        ts_ms.cast("long").alias("ts_ms"),
        read_ms.cast("long").alias("read_ms"),
        generation_id.cast("int").alias("generation_id"),
        place.alias("evidence"),
    )


def log_ends(timelines: DataFrame, groups: DataFrame, fleet: Fleet) -> DataFrame:
    """The table log_ends: a sample just after each commit around a rebalance, and of every partition at the end."""
    late = F.floor(F.col("t.step_ms") * _SAMPLED).cast("long")
    moments = F.explode(F.array(*(moment + late for moment in _moments().values()))).alias("ts_ms")
    around = _looked_at(timelines).select("id", "topic", "partition", moments)
    partitions = F.explode(F.sequence(F.lit(0), F.col("partitions") - 1)).alias("partition")
    at_last = F.lit(fleet.start_ms + fleet.length_ms + _AT_LAST_MS).alias("ts_ms")
    rows = around.unionByName(groups.select("id", "topic", partitions, at_last))
    return shaped(rows.withColumn("log_end_offset", _log_end(fleet, F.col("ts_ms"))), LOG_ENDS)
