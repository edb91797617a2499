"""The tables generations and memberships of the recorded groups of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from bench.fleet.draws import div, log_uniform, mod
from bench.fleet.fleet import Fleet
from bench.fleet.places import STORED, record_place
from bench.fleet.rebalances import leader_slot, left_reason, slow_slot
from bench.fleet.timeline import births, is_empty, member, ordinal_of, owner_of, stored_ms, timed
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.schemas import GENERATIONS, MEMBERSHIPS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


SESSION_TIMEOUT_MS: Final = 45_000
_REBALANCE_TIMEOUT_MS: Final = (60_000, 900_000)


def rebalance_timeout_ms(fleet: Fleet) -> Column:
    """`max.poll.interval.ms` of a group's members (ms)."""
    return log_uniform(fleet.draw("rebalance timeout", F.col("id")), *_REBALANCE_TIMEOUT_MS).cast("int")


def covers(slot: Column, partition: Column) -> Column:
    """The slot that holds a partition of `slot` (partition modulo members) while that has no member."""
    members = F.col("members")
    return mod(slot + 1 + mod(div(partition, members), members - 1), members)


def generations(timelines: DataFrame, fleet: Fleet) -> DataFrame:
    """The table generations: one row for each of `timelines` that is not superseded."""
    k, left = F.col("k"), F.col("change") == "left"
    rows = timelines.where("not is_superseded").withColumns({"_empty": is_empty(), "_leader": leader_slot()})
    # A superseded rebalance has place 6, so only one of place 7 follows it, and the next but one is not superseded.
    next_k = k + F.when(_is_superseded(k + 1), F.lit(2)).otherwise(F.lit(1))
    rows = timed(rows, fleet, "_next", next_k)
    next_leaves = mod(next_k - 1, 8).isin(0, 2, 4)
    was_empty = (F.col("change") == "joined") & (F.col("members") == 1)
    empty = F.col("_empty")
    leader = member(fleet, F.col("_leader"), births(F.col("_leader"), F.col("births")))
    until = F.when(F.col("_next").isNotNull(), stored_ms(F.col("_next"), leaving=next_leaves))
    columns = {
        "group_type": F.lit("classic"),
        "incarnation": F.lit(0),
        "generation_id": k + 1,
        "ordinal": ordinal_of(k),
        "state": F.when(empty, "Empty").otherwise("Stable"),
        "ts_ms": stored_ms(F.col("t"), leaving=left),
        "joined_ts_ms": F.when(empty, F.col("t.begin_ms")).otherwise(F.col("t.joined_ms")),
        "sync_ms": F.when(~empty, F.col("t.ended_ms") - F.col("t.joined_ms")),
        "until_ts_ms": until,
        "ended_as": F.when(until.isNotNull(), "generation"),
        "protocol_type": F.lit("consumer"),
        "protocol": F.when(~empty, F.col("protocol")),
        "leader_id": F.when(~empty, leader["member_id"]),
        "members": F.col("members") - left.cast("int"),
        "partitions": F.when(empty, 0).otherwise(F.col("partitions")),
        "previous_partitions": F.when(k > 0, F.when(was_empty, 0).otherwise(F.col("partitions"))),
        "missed": F.when(k > 0, _is_superseded(k - 1).cast("int")),
        "source": F.lit("records"),
        "evidence": record_place(k, STORED),
    }
    return shaped(rows.select("group_id", *(value.alias(name) for name, value in columns.items())), GENERATIONS)


def _is_superseded(k: Column) -> Column:
    return (mod(k, 32) == 31) & (k < F.col("rebalances") - 1)


def memberships(timelines: DataFrame, fleet: Fleet) -> DataFrame:
    """The table memberships: all that joined and left, and of those that stayed a sample.

    The sample has, of each generation, the member that joined last, and those that gave a partition back to the one
    that came. A member that joined last waited for as long as JOIN took, another one for a part of it that is drawn.
    """
    k, change, slot = F.col("k"), F.col("change"), F.col("slot")
    members, partitions = F.col("members"), F.col("partitions")
    rows = timelines.where("not is_superseded").withColumn("_slow", slow_slot(fleet))
    # The partitions of a slot lie `members` apart; as many of them as there are others go round all of the others.
    held = F.least(F.greatest(div(partitions - slot + members - 1, members), F.lit(0)), members - 1)
    giving = F.transform(
        F.slice(F.sequence(F.lit(0), members), 1, F.coalesce(held, F.lit(0))),
        lambda n: covers(slot, slot + n * members),
    )
    slow = F.when(F.col("_slow").isNotNull(), F.array("_slow")).otherwise(F.array().cast("array<int>"))
    stayed = F.when(change == "joined", F.array_union(giving, slow)).otherwise(slow)
    present = (
        F.when(change == "formed", F.sequence(F.lit(0), members - 1))
        .when(change == "joined", F.array_union(F.array(slot), stayed))
        .otherwise(stayed)
    )
    here = rows.select("*", F.explode(present).alias("_slot")).withColumns(
        {
            "_change": F.when((change == "formed") | F.coalesce(F.col("_slot") == slot, F.lit(False)), "joined")
            .otherwise("kept"),
            "_birth": births(F.col("_slot"), F.col("births")),
        }
    )  # fmt: skip
    came = F.col("births") + 1 - F.col("turnover")
    gone = rows.where(change == "left").withColumns(
        {"_slot": slot, "_change": F.lit("left"), "_birth": F.greatest(came, F.lit(-1))}
    )
    both = here.unionByName(gone).withColumns(
        {
            "_who": member(fleet, F.col("_slot"), F.col("_birth")),
            "_gained": F.when(change == "left", _gained(slot)).otherwise(0),
        }
    )
    return shaped(both.select("group_id", *_columns(fleet, k)), MEMBERSHIPS)


def _columns(fleet: Fleet, k: Column) -> list[Column]:
    who, has_left = F.col("_who"), F.col("_change") == "left"
    waited = F.col("t.joined_ms") - F.col("t.begin_ms")
    part = F.floor(waited * fleet.draw("waited", F.col("id"), k, F.col("_slot"))).cast("long")
    of_slot = F.size(own_partitions(F.col("_slot")))
    columns = {
        "group_type": F.lit("classic"),
        "incarnation": F.lit(0),
        "generation_id": k + 1,
        "ts_ms": F.when(has_left, F.col("t.begin_ms")).otherwise(F.col("t.ended_ms")),
        **{name: who[name] for name in ("member_id", "group_instance_id", "client_id", "client_host")},
        "owner": owner_of(who),
        "change": F.col("_change"),
        "left_reason": F.when(has_left, left_reason(fleet, k)),
        "is_leader": F.when(~has_left, F.col("_slot") == leader_slot()),
        "session_timeout_ms": F.lit(SESSION_TIMEOUT_MS),
        "rebalance_timeout_ms": rebalance_timeout_ms(fleet),
        "partitions": F.when(~has_left, of_slot + F.col("_gained")),
        "join_wait_ms": F.when(~has_left, F.when(F.col("_slot") == F.col("_slow"), waited).otherwise(part)),
        "source": F.lit("both"),
        "evidence": record_place(k, STORED),
    }
    return [value.alias(name) for name, value in columns.items()]


def _gained(gone: Column) -> Column:
    """How many partitions of a slot without a member `_slot` holds for it."""
    return F.size(F.filter(own_partitions(gone), lambda partition: covers(gone, partition) == F.col("_slot")))


def own_partitions(slot: Column) -> Column:
    """The partitions that lie in a slot, of which there are some or none."""
    members, partitions = F.col("members"), F.col("partitions")
    return F.when(slot < partitions, F.sequence(slot, partitions - 1, members)).otherwise(F.array().cast("array<int>"))
