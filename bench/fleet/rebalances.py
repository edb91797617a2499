"""The table rebalances of a fleet, as the coordinator's events would have told it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from bench.fleet.draws import chosen, mod
from bench.fleet.fleet import Fleet
from bench.fleet.places import event_place
from bench.fleet.timeline import begun, births, is_empty, member
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.schemas import OBSERVED, REBALANCES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


LEAVING_REASONS: Final = (("member_left", 0.6), ("session_timeout", 0.3), ("rebalance_timeout", 0.1))
"""Of a dynamic member; a static one does not say that it leaves, so it is always `session_timeout`."""
EVEN_REASONS: Final = (("leader_rejoined", 0.5), ("metadata_changed", 0.3), ("coordinator_loaded", 0.2))
"""Of rebalances that change nobody."""
_TEXTS: Final = {
    "member_joined": "a new member joined",
    "member_left": "a member left",
    "session_timeout": "a member sent no heartbeat",
    "rebalance_timeout": "a member did not rejoin in time",
    "leader_rejoined": "the leader joined again",
    "metadata_changed": "a member subscribed anew",
    "coordinator_loaded": "the group was read from the log",
}


def left_reason(fleet: Fleet, k: Column) -> Column:
    """Why a member left in rebalance `k`."""
    drawn = chosen(fleet.draw("leaving", F.col("id"), k), LEAVING_REASONS)
    return F.when(F.col("is_static"), "session_timeout").otherwise(drawn)


def slow_slot(fleet: Fleet) -> Column:
    """The slot that joined last in a rebalance of `timelines`; null: nobody joined.

    Every other time it is the same one of the group. It is not one whose member has just gone.
    """
    group, k, members = F.col("id"), F.col("k"), F.col("members")
    same = F.floor(fleet.draw("slow", group) * members).cast("int")
    any_other = F.floor(fleet.draw("last", group, k) * members).cast("int")
    drawn = F.when(fleet.draw("is slow", group, k) < 0.5, same).otherwise(any_other)
    has_gone = (F.col("change") == "left") & (drawn == F.col("slot"))
    return F.when(has_gone, F.when(members > 1, mod(drawn + 1, members))).otherwise(drawn)


def leader_slot() -> Column:
    """The first slot that has a member; null: none has."""
    no_first = (F.col("change") == "left") & (F.col("slot") == 0)
    return F.when(no_first, F.when(F.col("members") > 1, F.lit(1))).otherwise(F.lit(0))


def rebalances(timelines: DataFrame, fleet: Fleet) -> DataFrame:
    """The table rebalances, one row for each of `timelines`; `partitions` only of groups that are recorded."""
    k, change, slot = F.col("k"), F.col("change"), F.col("slot")
    left, joined, formed = change == "left", change == "joined", change == "formed"
    even = chosen(fleet.draw("even", F.col("id"), k), EVEN_REASONS)
    reason = F.when(joined | formed, "member_joined").when(left, left_reason(fleet, k)).otherwise(even)
    after = begun(timelines, fleet, k + 1)  # when the next one begins
    rows = after.withColumns({"reason": reason, "_slow": slow_slot(fleet), "_leader": leader_slot()})
    acting = (
        F.when(F.col("reason") == "coordinator_loaded", F.lit(None))
        .when(left | joined, slot)
        .when(F.col("reason") == "metadata_changed", F.col("_slow"))
        .otherwise(F.col("_leader"))
    )
    # The member that left is the one before the visit.
    birth = F.when(left, F.col("births") + 1 - F.col("turnover")).otherwise(births(F.col("_acting"), F.col("births")))
    rows = rows.withColumn("_acting", F.coalesce(acting, F.when(formed, F.lit(0))))
    rows = rows.withColumns(
        {
            "_birth": F.greatest(birth, F.lit(-1)),
            "_slow_birth": births(F.col("_slow"), F.col("births")),
            "_is_empty": is_empty(),
            "_ended": F.when(F.col("is_superseded"), F.col("_begin")).otherwise(F.col("t.ended_ms")),
        }
    )
    rows = rows.withColumns(
        {
            "_who": F.when(F.col("_acting").isNotNull(), member(fleet, F.col("_acting"), F.col("_birth"))),
            "_last": F.when(F.col("_slow").isNotNull(), member(fleet, F.col("_slow"), F.col("_slow_birth"))),
            "_slow_is_new": formed | (joined & (F.col("_slow") == slot)),
        }
    )
    return shaped(rows.select(*_columns()), REBALANCES)


def _columns() -> list[Column]:
    k, begin, joined_at = F.col("k"), F.col("t.begin_ms"), F.col("t.joined_ms")
    empty, superseded = F.col("_is_empty"), F.col("is_superseded")
    left, came = F.col("change") == "left", F.col("change") == "joined"
    wait = joined_at - begin
    words = F.create_map(*(F.lit(word) for pair in _TEXTS.items() for word in pair))
    columns = {
        "group_type": F.lit("classic"),
        "from_generation": k,
        "to_generation": k + 1,
        "ts_ms": begin,
        "started_ts_ms": begin,
        "joined_ts_ms": F.when(~empty, joined_at),
        "ended_ts_ms": F.when(empty, begin).otherwise(F.col("_ended")),
        "outcome": F.when(empty, "aborted").when(superseded, "superseded").otherwise("completed"),
        "reason_text": words[F.col("reason")],
        "trigger": _with(F.col("_who"), F.lit(None).cast("string").alias("client_reason")),
        "ended_by": F.when(empty, F.col("reason")).when(~superseded, "assignment_received"),
        "protocol_type": F.lit("consumer"),
        "protocol": F.when(~empty, F.col("protocol")),
        "expected": F.when(left, F.col("members") - 1).otherwise(F.col("members")),
        "joined": F.when(~empty, F.col("members") - left.cast("int")),
        "kicked": F.lit(0),
        "came": F.when(F.col("change") == "formed", F.col("members")).otherwise(came.cast("int")),
        "went": left.cast("int"),
        "partitions": F.when(F.col("is_recorded"), F.col("partitions")),
        "join_ms": F.when(~empty, wait),
        "sync_ms": F.when(~empty, F.col("_ended") - joined_at),
        "total_ms": F.when(empty, F.lit(0)).otherwise(F.col("_ended") - begin),
        "last_to_join": _with(F.col("_last"), F.col("_slow_is_new").alias("is_new"), wait.alias("wait_ms")),
        "basis": F.lit(OBSERVED),
        "source": F.lit("events"),
        "evidence": event_place(k),
    }
    return [F.col("group_id"), F.col("reason"), *(value.alias(name) for name, value in columns.items())]


def _with(who: Column, *more: Column) -> Column:
    names = ("member_id", "group_instance_id", "client_id", "client_host")
    return F.when(who.isNotNull(), F.struct(*(who[name].alias(name) for name in names), *more))
