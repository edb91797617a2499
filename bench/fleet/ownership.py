"""The table ownership of the recorded groups of a fleet: every interval of every partition.

A partition belongs to the slot of its number modulo members, and to that of `covers` while that one has no member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.fleet.draws import div, mod
from bench.fleet.fleet import PERIOD, Fleet
from bench.fleet.memberships import covers
from bench.fleet.places import STORED, record_place
from bench.fleet.timeline import (
    VISITS,
    births,
    leaving_of,
    member,
    ordinal_of,
    owner_of,
    stored_ms,
    timed,
)
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.schemas import OWNERSHIP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def ownership(groups: DataFrame, fleet: Fleet) -> DataFrame:
    """The table ownership of `groups`: a row a partition from the begin on, and two for each that a visit moves."""
    spans = _first_spans(groups, fleet).unionByName(_spans_of_visits(groups, fleet))
    home, visit, partition = F.col("_home"), F.col("_visit"), F.col("partition")
    rows = spans.select("*", F.explode(F.sequence(home, F.col("partitions") - 1, F.col("members"))).alias("_partition"))
    rows = rows.drop("partition").withColumnRenamed("_partition", "partition")
    is_cover, is_first = F.col("_span.is_cover"), visit < 0
    cover = F.when(F.col("members") > 1, covers(home, partition))
    rows = rows.withColumn("_slot", F.when(is_cover, cover).otherwise(home))
    # The member of another slot is there before, in and after the visit; that of its own came with it.
    rows = rows.withColumn("_who", member(fleet, F.col("_slot"), births(F.col("_slot"), visit)))
    own_before = member(fleet, home, births(home, visit - 1))
    before = F.when(is_cover | (F.col("members") == 1), own_before).otherwise(
        member(fleet, cover, births(cover, visit))
    )
    begin, end = F.col("_span.from_k"), F.col("_span.to_k")
    columns = {
        "owner": owner_of(F.col("_who")),
        **{name: F.col("_who")[name] for name in ("member_id", "group_instance_id", "client_id", "client_host")},
        "incarnation": F.lit(0),
        "from_generation": begin + 1,
        "to_generation": end + 1,
        "generations": ordinal_of(end) - ordinal_of(begin) + 1,
        "from_ts_ms": F.col("_span.from_ms"),
        "to_ts_ms": F.col("_span.until_ms"),
        "previous_owner": F.when(~is_first, owner_of(before)),
        "unowned_ms": F.col("_span.unowned_ms"),
        "evidence": record_place(begin, STORED),
    }
    return shaped(
        rows.select("group_id", "topic", "partition", *(value.alias(name) for name, value in columns.items())),
        OWNERSHIP,
    )


def _first_spans(groups: DataFrame, fleet: Fleet) -> DataFrame:
    """From the forming of the group until the first visit to the slot."""
    slots = F.explode(F.sequence(F.lit(0), F.least("members", "partitions") - 1)).alias("_home")
    rows = groups.select("*", slots, F.lit(-1).alias("_visit"))
    rows = rows.withColumn("_next_k", F.when(F.col("_home") < F.col("turnover"), leaving_of(F.col("_home"))))
    rows = timed(timed(rows, fleet, "_first", F.lit(0)), fleet, "_next", F.col("_next_k"))
    span = _span(F.lit(0), F.col("_first.ended_ms"), F.lit(None))
    return rows.withColumn("_span", span).drop("_next_k", "_next", "_first")


def _spans_of_visits(groups: DataFrame, fleet: Fleet) -> DataFrame:
    """While the slot has no member, and from when it has a new one until the next visit to it."""
    steps = F.col("rebalances") - 2
    visits = div(steps, PERIOD) * VISITS + F.least(div(mod(steps, PERIOD), 2), F.lit(VISITS - 1))
    rows = groups.where("rebalances > 1").select("*", F.explode(F.sequence(F.lit(0), visits)).alias("_visit"))
    rows = rows.withColumns(
        {
            "_home": mod(F.col("_visit"), F.col("turnover")),
            "_left_k": leaving_of(F.col("_visit")),
            "_next_k": leaving_of(F.col("_visit") + F.col("turnover")),
        }
    ).where("_home < partitions")
    for name, k in (("_left", F.col("_left_k")), ("_joined", F.col("_left_k") + 1), ("_next", F.col("_next_k"))):
        rows = timed(rows, fleet, name, k)
    left_ms, joined_ms = stored_ms(F.col("_left"), leaving=F.lit(True)), F.col("_joined.ended_ms")
    cover = F.struct(
        F.lit(True).alias("is_cover"),
        F.col("_left_k").alias("from_k"),
        F.col("_left_k").alias("to_k"),
        left_ms.alias("from_ms"),
        joined_ms.alias("until_ms"),
        F.lit(0).cast("long").alias("unowned_ms"),
    )
    alone = F.col("members") == 1
    back = _span(F.col("_left_k") + 1, joined_ms, F.when(alone, joined_ms - left_ms).otherwise(0))
    both = F.array(F.when(~alone, cover), F.when(F.col("_joined").isNotNull(), back))
    return rows.withColumn("_span", F.explode(F.array_compact(both))).drop(
        "_left_k", "_next_k", "_left", "_joined", "_next"
    )


def _span(begin: Column, begin_ms: Column, unowned_ms: Column) -> Column:
    """A slot with its own member, from rebalance `begin` until the one before `_next_k`, or until the end."""
    is_reached = F.col("_next").isNotNull()
    last = F.when(is_reached, F.col("_next_k") - 1).otherwise(F.col("rebalances") - 1)
    return F.struct(
        F.lit(False).alias("is_cover"),
        begin.alias("from_k"),
        last.alias("to_k"),
        begin_ms.alias("from_ms"),
        F.when(is_reached, stored_ms(F.col("_next"), leaving=F.lit(True))).alias("until_ms"),
        unowned_ms.cast("long").alias("unowned_ms"),
    )
