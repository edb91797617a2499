"""What happens to a group: a period of eight rebalances, again and again, as functions of the number of a rebalance.

Rebalance 0 forms the group. After it, places 0, 2 and 4 of each period lose the member of a slot and 1, 3 and 5 give
the slot a new one: a visit. Places 6 and 7 change nobody, and place 6 of every fourth period is superseded by place 7.
As slots take turns, who is in which slot when needs no history, only arithmetic.

Functions take the columns of `fleet.groups` for granted; `k` is the number of a rebalance, an integer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from bench.fleet.draws import chosen, div, log_uniform, mod, token
from bench.fleet.fleet import FIRST_MS, PERIOD, Fleet

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


HOSTS: Final = 20_000
VISITS: Final = 3
_SUPERSEDED_EVERY: Final = 4 * PERIOD
_DEPLOY_EVERY_MS: Final = 6 * 3_600_000
_STEP_MS: Final = (10_000, 4 * 3_600_000)
_JOIN_MS: Final = (((20, 3_000), 0.80), ((3_000, 30_000), 0.15), ((30_000, 300_000), 0.05))
_SYNC_MS: Final = (5, 800)


def timelines(groups: DataFrame, fleet: Fleet) -> DataFrame:
    """One row a rebalance: the columns of its group, `k`, and what it is.

    Columns: `place` in its period (null in rebalance 0); `change`: `formed`, `left`, `joined`, `none`; `visit`, the
    latest that began (-1: none yet); `slot`, whose member left or joined (null: nobody's); `births`, the latest visit
    that is complete; `is_superseded`; `t`: begin_ms, joined_ms, ended_ms (ms since 1970), and step_ms, the room it has.
    """
    numbered = groups.select("*", F.explode(F.sequence(F.lit(0), F.col("rebalances") - 1)).alias("k"))
    k = F.col("k")
    placed = numbered.withColumn("place", F.when(k > 0, mod(k - 1, PERIOD)))
    place = F.col("place")
    visit = div(k - 1, PERIOD) * VISITS + F.least(div(place, 2), F.lit(VISITS - 1))
    change = (
        F.when(place.isNull(), "formed")
        .when(place >= 2 * VISITS, "none")
        .when(mod(place, 2) == 0, "left")
        .otherwise("joined")
    )
    placed = placed.withColumns({"visit": F.coalesce(visit, F.lit(-1)), "change": change})
    changes_one = F.col("change").isin("left", "joined")
    placed = placed.withColumns(
        {
            "slot": F.when(changes_one, mod(F.col("visit"), F.col("turnover"))),
            "births": F.col("visit") - (F.col("change") == "left").cast("int"),
            "is_superseded": (mod(k, _SUPERSEDED_EVERY) == _SUPERSEDED_EVERY - 1) & (k < F.col("rebalances") - 1),
        }
    )
    return timed(placed, fleet, "t", k)


def timed(rows: DataFrame, fleet: Fleet, name: str, k: Column) -> DataFrame:
    """`rows` with `name`: begin_ms, joined_ms, ended_ms (ms since 1970) and step_ms (ms) of rebalance `k`.

    Null when `k` is null or none of the group's. The end is that of one that is not superseded. A rebalance takes at
    most 45 % of its step, and half a step lies between two begins at least, so none touches the next.
    """
    group, begin, step = F.col("id"), F.col("_begin"), F.col("_step")
    # One projection after the other: what is used twice is made once, and Spark compiles little code.
    bounds = chosen(fleet.draw("wait", group, k), [(_pair(pair), share) for pair, share in _JOIN_MS])
    drawn = begun(rows, fleet, k).withColumn("_bounds", bounds)
    join = log_uniform(fleet.draw("join", group, k), F.col("_bounds.least"), F.col("_bounds.most"))
    sync = log_uniform(fleet.draw("sync", group, k), *_SYNC_MS)
    drawn = drawn.withColumns(
        {
            "_join": F.least(join, F.floor(step * 0.3).cast("long")),
            "_sync": F.least(sync, F.floor(step * 0.15).cast("long")),
        }
    )
    joined = begin + F.col("_join")
    times = {"begin_ms": begin, "joined_ms": joined, "ended_ms": joined + F.col("_sync"), "step_ms": step}
    made = F.struct(*(value.alias(part) for part, value in times.items()))
    there = drawn.withColumn(name, F.when(k < F.col("rebalances"), made))
    return there.drop("_begin", "_step", "_bounds", "_join", "_sync")


def begun(rows: DataFrame, fleet: Fleet, k: Column) -> DataFrame:
    """`rows` with `_begin` (ms since 1970) and `_step` (ms) of rebalance `k`.

    Periods lie one after the other; a period begins in the first 30 % of its time, and its rebalances begin in steps of
    at most 8 % of it, each late by up to half a step. A shared family is deployed at fixed hours: its groups' periods
    begin then, if that lies in the first 30 % of them.
    """
    group, length, period = F.col("id"), F.col("period_ms"), F.col("_period")
    deploys = F.floor(fleet.draw("deploy", F.col("family")) * _DEPLOY_EVERY_MS).cast("long") + fleet.start_ms
    late = F.floor(fleet.draw("lead", group, period) * 0.3 * length).cast("long")
    step = F.least(log_uniform(fleet.draw("step", group, period), *_STEP_MS), F.floor(length * 0.08).cast("long"))
    within = mod(k - 1, PERIOD) + fleet.draw("begin", group, k) * 0.5
    first = F.floor(fleet.draw("first", group) * (FIRST_MS // 2)).cast("long") + fleet.start_ms
    is_first, until_deploy = k == 0, F.col("_until_deploy")
    is_deploy = F.col("family").isNotNull() & (until_deploy < length * 0.3)
    start = F.col("_from") + F.when(is_deploy, until_deploy).otherwise(late)
    return (
        rows.withColumn("_period", div(k - 1, PERIOD))
        .withColumn("_from", F.lit(fleet.start_ms + FIRST_MS) + period * length)
        .withColumns({"_until_deploy": mod(deploys - F.col("_from"), _DEPLOY_EVERY_MS), "_step": step})
        .withColumns(
            {
                "_begin": F.when(is_first, first).otherwise(start + F.floor(within * F.col("_step")).cast("long")),
                "_step": F.when(is_first, F.lit(FIRST_MS // 2)).otherwise(F.col("_step")),
            }
        )
        .drop("_period", "_from", "_until_deploy")
    )


def _pair(bounds: tuple[int, int]) -> Column:
    return F.struct(F.lit(bounds[0]).alias("least"), F.lit(bounds[1]).alias("most"))


def leaving_of(visit: Column) -> Column:
    """The number of the rebalance in which a member leaves at a visit; the one after it gives the slot a new one."""
    return div(visit, VISITS) * PERIOD + mod(visit, VISITS) * 2 + 1


def ordinal_of(k: Column) -> Column:
    """The ordinal of the generation that rebalance `k` made, which is not superseded: those before it that were stored."""
    return (k - div(F.least(k, F.col("rebalances") - 2) + 1, _SUPERSEDED_EVERY)).cast("int")


def births(slot: Column, visit: Column) -> Column:
    """The visit at which the member came that is in `slot` when `visit` is the latest complete one; -1: with the group."""
    latest = visit - mod(visit - slot, F.col("turnover"))
    return F.when((slot < F.col("turnover")) & (visit >= 0), F.greatest(latest, F.lit(-1))).otherwise(F.lit(-1))


def member(fleet: Fleet, slot: Column, birth: Column) -> Column:
    """member_id, group_instance_id, client_id and client_host of who came to `slot` at the visit `birth`."""
    group = F.col("id")
    client = F.concat(F.col("app"), F.lit("-"), slot.cast("string"))
    at = F.floor(fleet.draw("host", group, slot) * HOSTS).cast("int") + 256
    host = F.concat(F.lit("10.0."), div(at, 256).cast("string"), F.lit("."), mod(at, 256).cast("string"))
    parts = {
        "member_id": F.concat(client, F.lit("-"), token(fleet.seed, "member", group, slot, birth)),
        "group_instance_id": F.when(F.col("is_static"), client),
        "client_id": client,
        "client_host": host,
    }
    return F.struct(*(value.alias(name) for name, value in parts.items()))


def is_empty() -> Column:
    """Whether nobody is left after a rebalance of `timelines`: such a one ends as it begins, without JOIN and SYNC."""
    return (F.col("change") == "left") & (F.col("members") == 1)


def stored_ms(t: Column, *, leaving: Column) -> Column:
    """When the generation of a rebalance with timing `t` was stored (ms since 1970); `leaving`: a member left in it."""
    return F.when(leaving & (F.col("members") == 1), t["begin_ms"]).otherwise(t["ended_ms"])


def owner_of(who: Column) -> Column:
    """What survives a static restart."""
    return F.coalesce(who["group_instance_id"], who["member_id"])
