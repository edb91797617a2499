"""What is known of a group and its neighbours: the members of other groups on the hosts of members that fell silent together.

A host that fails, or a network that is cut, shows in several groups. Only what happened on those hosts around that time
is brought to each of the groups, for a fleet's history does not fit in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim.explain.facts import DEFAULT_SESSION_MS, HEARTBEAT_MS, RETURN_MS, Kind
from kshim_pipeline.diagnosis.entries import ENTRIES
from kshim_pipeline.model.shape import null

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kshim_pipeline.materialize import Materialize

HOSTS: Final = 10
"""Of so many hosts a group is told when members on them fell silent together with one of its own; its own host first."""

GROUPS: Final = 50
"""Of so many other groups on these hosts it is told: of those first in which a member fell silent, too, its own host first. A host may have
members of thousands, of which most just went on."""

_AROUND_MS: Final = 3_600_000
"""A broker that was stopped so long before a session begins, or after it ends, has nothing to do with it."""

_BEGINS: Final = (Kind.JOINED, Kind.REPLACED)
_ENDS: Final = (Kind.LEFT, Kind.EXPIRED, Kind.REMOVED)


_ASKED: Final = ("asked", "asked_session")
_SILENCE: Final = ("from_ms", "to_ms")


def neighbours(entries: DataFrame, materialize: Materialize) -> DataFrame:
    """Rows of ENTRIES of other groups, with `asked` and `asked_session`, the session of a group for which they are."""
    entries = entries.where("not is_before")
    asked = materialize("asked hosts", _asked(entries))
    facts = entries.where("ts_ms is not null")
    is_then = (F.col("ts_ms") <= F.col("to_ms") + RETURN_MS) & (F.col("until_ms") >= F.col("from_ms") - RETURN_MS)
    is_other = F.col("group") != F.col("asked")
    on_host = F.coalesce("host", "last_host") == F.col("asked_host")
    there = _with_ends(facts.join(asked, on_host, "left_semi"), facts).join(asked, on_host & is_then & is_other)
    there = there.join(_nearest(there), [*_ASKED, *_SILENCE, "group"], "left_semi")
    # What their groups did meanwhile: members that took part in a rebalance were not silent.
    groups = there.select(*_ASKED, *_SILENCE, F.col("group").alias("_group")).distinct()
    completed = facts.where(_is(Kind.COMPLETED)).withColumn("until_ms", F.col("ts_ms"))
    completed = completed.join(groups, (F.col("group") == F.col("_group")) & is_then)
    found = there.unionByName(completed, allowMissingColumns=True).select(*_ASKED, *ENTRIES.names)
    stops = _stops(entries).join(_spans(entries), is_other & F.col("ts_ms").between(F.col("from_ms"), F.col("to_ms")))
    together = found.unionByName(stops.select(*_ASKED, *ENTRIES.names))
    return together.dropDuplicates([*_ASKED, "group", "source", "member_id"])


def _spans(entries: DataFrame) -> DataFrame:
    """`asked`, `asked_session`, `from_ms`, `to_ms`: of each session, and a while before and after it."""
    return entries.groupBy(F.col("group").alias("asked"), F.col("session").alias("asked_session")).agg(
        (F.min("ts_ms") - _AROUND_MS).alias("from_ms"), (F.max("ts_ms") + _AROUND_MS).alias("to_ms")
    )


def _stops(entries: DataFrame) -> DataFrame:
    """Where a broker was stopped, and where a coordinator was loaded, one of many groups: nobody could join meanwhile."""
    rows = entries.where(_is(Kind.STOPPING, Kind.LOADED)).select(F.struct(*ENTRIES.names).alias("_first"))
    when = F.floor(F.col("_first.ts_ms") / HEARTBEAT_MS)
    first = rows.groupBy(F.col("_first.kind"), when).agg(F.min_by("_first", "_first.ts_ms").alias("_first"))
    return first.select("_first.*")


def _asked(entries: DataFrame) -> DataFrame:
    """`asked`, `asked_session`, `asked_host`, `from_ms`, `to_ms`: hosts on which a member fell silent when one of the group `asked` did.

    Or when the group waited for one on that host, which was perhaps silent for less than its session timeout. And hosts of members
    of the group itself that fell silent together: that others there went on tells what it was not.
    `is_other`: it is not the host of the member that fell silent, or was waited for, itself.
    """
    session_ms = F.coalesce("session_ms", F.lit(DEFAULT_SESSION_MS))
    ended_ms = F.col("ts_ms")
    last_ms = F.col("last_request_ms")
    silent_ms = F.when(last_ms.isNull(), ended_ms - session_ms).otherwise(F.least(last_ms, ended_ms))
    # Commits, from which records show when a member was last heard of, are rarer than heartbeats.
    within_ms = F.when(F.col("is_observed"), F.lit(HEARTBEAT_MS)).otherwise(session_ms / 2)
    silent = entries.where(_is(Kind.EXPIRED) & F.col("host").isNotNull()).select(
        "group",
        "session",
        "host",
        silent_ms.alias("from_ms"),
        ended_ms.alias("to_ms"),
        within_ms.cast("long").alias("within_ms"),
        F.lit(True).alias("is_silent"),
    )
    took_ms = F.coalesce("sync_ms", F.lit(0)) + F.coalesce("join_ms", "last_wait_ms")
    waited = entries.where(F.col("last_wait_ms") > HEARTBEAT_MS).select(
        "group",
        "session",
        F.col("last_host").alias("host"),
        (ended_ms - took_ms).alias("from_ms"),
        (ended_ms - took_ms + F.col("last_wait_ms")).alias("to_ms"),
        F.lit(RETURN_MS).cast("long").alias("within_ms"),
        F.lit(False).alias("is_silent"),
    )
    # Those of the same minute, or of the one before or after it, are compared.
    minute = F.floor(F.col("from_ms") / RETURN_MS)
    own = silent.unionByName(waited)
    one = own.select("*", minute.alias("minute")).alias("one")
    other = silent.select(
        "group", "host", "from_ms", F.explode(F.array(minute - 1, minute, minute + 1)).alias("minute")
    )
    is_same_host = F.col("one.host") == F.col("other.host")
    pairs = one.join(other.alias("other"), F.col("one.minute") == F.col("other.minute")).where(
        (F.col("one.group") != F.col("other.group"))
        & (F.abs(F.col("one.from_ms") - F.col("other.from_ms")) <= F.col("one.within_ms"))
        & (F.col("one.is_silent") | is_same_host)
    )
    hosts = pairs.select(
        F.col("one.group").alias("asked"),
        F.col("one.session").alias("asked_session"),
        F.col("other.host").alias("asked_host"),
        F.col("one.from_ms").alias("from_ms"),
        F.col("one.to_ms").alias("to_ms"),
        (~is_same_host).alias("is_other"),
    )
    hosts = hosts.unionByName(_together(own)).distinct()
    order = Window.partitionBy(*_ASKED, *_SILENCE).orderBy("is_other", "asked_host")
    return hosts.withColumn("_n", F.row_number().over(order)).where(F.col("_n") <= HOSTS).drop("_n")


def _nearest(there: DataFrame) -> DataFrame:
    """`asked`, `asked_session`, `from_ms`, `to_ms`, `group`: the other groups that are told, of each silence."""
    found = there.groupBy(*_ASKED, *_SILENCE, "group").agg(
        F.max(_is(Kind.EXPIRED)).alias("_is_silent"),
        F.min("is_other").alias("_is_other"),
        F.min(F.abs(F.col("ts_ms") - F.col("to_ms"))).alias("_apart_ms"),
    )
    order = Window.partitionBy(*_ASKED, *_SILENCE).orderBy(F.desc("_is_silent"), "_is_other", "_apart_ms", "group")
    return found.withColumn("_n", F.row_number().over(order)).where(F.col("_n") <= GROUPS)


def _together(own: DataFrame) -> DataFrame:
    """The same: hosts of members that fell silent together with others of their group."""
    order = Window.partitionBy("group").orderBy("from_ms")
    at_ms = F.col("from_ms")
    to_next_ms, since_last_ms = F.lead(at_ms).over(order) - at_ms, at_ms - F.lag(at_ms).over(order)
    near = own.withColumn("_near_ms", F.least(to_next_ms, since_last_ms)).where(F.col("_near_ms") <= F.col("within_ms"))
    return near.select(
        F.col("group").alias("asked"),
        F.col("session").alias("asked_session"),
        F.col("host").alias("asked_host"),
        *_SILENCE,
        F.lit(False).alias("is_other"),
    )


def _with_ends(rows: DataFrame, facts: DataFrame) -> DataFrame:
    """Some of the facts with `until_ms`: of one with which a membership begins, when it ends; of others, when they happened."""
    ended = facts.where(_is(*_ENDS)).select("group", F.col("member_id").alias("_id"), "ts_ms")
    replaced = facts.where(_is(Kind.REPLACED)).select("group", F.col("other_id").alias("_id"), "ts_ms")
    member_id = F.when(_is(*_BEGINS), F.col("member_id")).otherwise(null("string"))
    begun = rows.withColumn("_id", member_id)
    begins = begun.select("group", "_id").distinct()
    mine = ended.unionByName(replaced).join(begins, ["group", "_id"], "left_semi")
    ends = mine.groupBy("group", "_id").agg(F.max("ts_ms").alias("_end_ms"))
    forever = F.lit(1 << 62)
    until_ms = F.when(_is(*_BEGINS), F.coalesce("_end_ms", forever)).otherwise(F.col("ts_ms"))
    return begun.join(ends, ["group", "_id"], "left").withColumn("until_ms", until_ms).drop("_id", "_end_ms")


def _is(*kinds: Kind) -> Column:
    return F.col("kind").isin(*(kind.name for kind in kinds))
