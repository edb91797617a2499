"""Group metadata records -> what changed in each: who came, who is gone, and when those committed last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from kshim.explain.sources.records import EARLY
from kshim_pipeline.model.shape import host
from kshim_pipeline.model.snapshots import snapshots
from kshim_pipeline.records import MEMBER as DECODED_MEMBER
from kshim_pipeline.schemas import EVIDENCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# fmt: off
MEMBER: Final = StructType([
    StructField("member_id",            StringType()),
    StructField("instance_id",          StringType()),
    StructField("client_id",            StringType()),
    StructField("host",                 StringType()),
    StructField("session_timeout_ms",   IntegerType()),
    StructField("rebalance_timeout_ms", IntegerType()),           # the session's, where it has none
    StructField("topics",               ArrayType(StringType())),
])
"""What a record says of a member, except for what it was assigned: that changes in most rebalances, for all of them."""

GROUP_RECORD: Final = StructType([
    StructField("number",         IntegerType()),                 # of the snapshot, in the group
    StructField("ts_ms",          LongType()),
    StructField("generation_id",  IntegerType()),
    StructField("leader_id",      StringType()),
    StructField("protocol",       StringType()),
    StructField("joined_ms",      LongType()),                    # end of the JOIN phase; null: unknown
    StructField("evidence",       EVIDENCE),
    StructField("timeout_ms",     IntegerType()),                 # the longest of its members'
    StructField("assigned",       ArrayType(StructType([          # how far each topic was assigned
        StructField("topic",      StringType()),
        StructField("partitions", IntegerType()),                 # one more than the last that somebody has
    ]))),
    StructField("came",           ArrayType(MEMBER)),             # new since the record before, or not as before
    StructField("gone",           ArrayType(StringType())),       # ids of those that are no longer in it
])
"""A record of a group, with its changes."""

LAST_COMMIT: Final = StructType([
    StructField("ts_ms",          LongType()),                    # of the first record without the member
    StructField("member_id",      StringType()),
    StructField("last_commit_ms", LongType()),
    StructField("before_ms",      LongType()),                    # the commit before the last; null: there was none
    StructField("usual_ms",       LongType()),                    # three of four pauses between commits are no longer; null: there were too few
    StructField("is_early",       BooleanType()),                 # whether the last one came sooner than a timer would have sent it
])
"""When a member that is gone committed last. Where it has made too few commits, `usual_ms` is of its partitions, or of its group."""
# fmt: on

_LEAVING: Final = StructType([MEMBER["member_id"], StructField("assignment", DECODED_MEMBER["assignment"].dataType)])
_ENOUGH: Final = 3
"""So many pauses between commits of a partition tell how long they usually are."""
_AT_ONCE_MS: Final = 200
"""Commits that follow each other faster are one."""
_PLACE: Final = ("group_id", "number")


def group_records(decoded: DataFrame) -> DataFrame:
    """One row a snapshot, from `decoded` (columns of DECODED).

    `group_id`; `record`, a GROUP_RECORD; and for `last_commits`: `partition`, `offset`, `number`, `next_ts_ms` of the next
    snapshot, `leaving`, the members that are not in that, with their assignments.
    """
    order = Window.partitionBy("group_id").orderBy("number")
    taken = snapshots(decoded).where(
        "protocol_type = 'consumer' or size(members) = 0"
    )  # empty, it may have lost its type
    flat = taken.select(
        "group_id",
        "partition",
        "offset",
        "number",
        "ts_ms",
        "next_ts_ms",
        "generation_id",
        "leader_id",
        F.col("protocol_name").alias("protocol"),
        F.when((F.size("members") > 0) & (F.col("state_timestamp_ms") > 0), F.col("state_timestamp_ms")).alias(
            "joined_ms"
        ),
        "evidence",
        _assigned().alias("assigned"),
        F.transform("members", lambda each: F.struct(each["member_id"], each["assignment"])).alias("_held"),
        F.transform("members", _member).alias("members"),
    )
    marked = flat.withColumns(
        {
            "_marks": F.transform("members", _mark),
            "_ids": F.transform("members", lambda each: each["member_id"]),
        }
    )
    beside = marked.withColumns(
        {
            "_marks_before": F.coalesce(F.lag("_marks").over(order), F.array().cast("array<bigint>")),
            "_ids_before": F.coalesce(F.lag("_ids").over(order), F.array().cast("array<string>")),
            "_ids_after": F.lead("_ids").over(order),
        }
    ).withColumn("_new", F.array_except("_marks", "_marks_before"))
    is_leaving = F.size(F.array_except("_ids", "_ids_after")) > 0
    leaving = F.filter("_held", lambda each: ~F.array_contains("_ids_after", each["member_id"]))
    changed = beside.withColumns(
        {
            "came": F.when(
                F.size("_new") > 0,
                F.filter("members", lambda each: F.array_contains("_new", _mark(each))),
            ),
            "gone": F.array_except("_ids_before", "_ids"),
            "timeout_ms": F.array_max(F.transform("members", _longest)),
            "leaving": F.when(is_leaving, leaving).cast(ArrayType(_LEAVING)),
        }
    )
    record = F.struct(*GROUP_RECORD.names).cast(GROUP_RECORD).alias("record")
    return changed.select("group_id", "partition", "offset", "number", "next_ts_ms", "leaving", record)


def last_commits(decoded: DataFrame, records: DataFrame) -> DataFrame:
    """`group_id` and `last`, a LAST_COMMIT: of members that are gone in the record after, if they had committed.

    A commit contains a partition, not a member: it is attributed to the owner in the last record before it. Members
    commit partitions before they revoke them and rejoin, so their last commit before a generation is their last
    activity in the previous one.
    """
    commits = decoded.where("kind = 'offset_commit' and not is_tombstone and group_id is not null").select(
        "group_id",
        "partition",
        "offset",
        F.col("committed_topic").alias("topic"),
        F.col("committed_partition").alias("of"),
        F.coalesce("commit_timestamp_ms", "timestamp_ms").alias("_at_ms"),
    )
    marks = records.select("group_id", "partition", "offset", "number", F.col("leaving").isNotNull().alias("_counts"))
    order = Window.partitionBy("group_id").orderBy("partition", "offset")
    mark = F.when(F.col("number").isNotNull(), F.struct("number", "_counts"))
    in_turn = Window.partitionBy("group_id", "topic", "of").orderBy("_at_ms")
    numbered = (
        commits.unionByName(marks, allowMissingColumns=True)
        .withColumn("_mark", F.last(mark, ignorenulls=True).over(order))
        .where("topic is not null and _mark is not null")
        .withColumns(
            {
                "_before_ms": F.lag("_at_ms").over(in_turn),
                "_number_before": F.lag("_mark.number").over(in_turn),
                "_number_after": F.lead("_mark.number").over(in_turn),
            }
        )
        .withColumn("_any_pause", F.col("_at_ms") - F.col("_before_ms"))
        .withColumn("_pause", F.when(F.col("_any_pause") >= _AT_ONCE_MS, F.col("_any_pause")))
    )
    is_own = F.col("_number_before") == F.col("_mark.number")
    is_last = F.coalesce(F.col("_number_after") != F.col("_mark.number"), F.lit(True))
    numbered = numbered.withColumns(
        {
            "_own_pause": F.when(is_own, F.col("_pause")),
            "_last_pause": F.when(is_own & is_last, F.col("_any_pause")),
            "_other_pause": F.when(is_own & ~is_last, F.col("_any_pause")),
        }
    )
    made = (
        numbered.groupBy("group_id", F.col("_mark.number").alias("number"), "topic", "of")
        .agg(
            F.first("_mark._counts").alias("_counts"),
            F.max("_at_ms").alias("_at_ms"),
            F.max(F.when(F.col("_own_pause").isNotNull(), F.col("_before_ms"))).alias("_before_ms"),
            _usual(F.count("_own_pause"), F.percentile_approx("_own_pause", 0.75)).alias("_own_ms"),
            F.count("_pause").alias("_pauses"),
            F.percentile_approx("_pause", 0.75).alias("_usual_ms"),
            F.max("_last_pause").alias("_last_ms"),
            F.count("_other_pause").alias("_others"),
            F.min("_other_pause").alias("_least_ms"),
            F.percentile_approx("_other_pause", 0.75).alias("_most_ms"),
        )
        .withColumn(
            "_usual_ms",
            F.coalesce("_own_ms", *(_usual_over(*names) for names in (("group_id", "topic", "of"), ("group_id",)))),
        )
        .withColumn("_is_early", _ends_early())
        .where("_counts")
    )
    held = (
        records.where("leaving is not null")
        .select(*_PLACE, "next_ts_ms", F.explode("leaving").alias("_member"))
        .select(*_PLACE, "next_ts_ms", "_member.member_id", F.explode("_member.assignment").alias("_topic"))
        .select(*_PLACE, "next_ts_ms", "member_id", "_topic.topic", F.explode("_topic.partitions").alias("of"))
    )
    found = (
        made.join(held, [*_PLACE, "topic", "of"])
        .groupBy(*_PLACE, "member_id", F.col("next_ts_ms").alias("ts_ms"))
        .agg(
            F.max("_at_ms").alias("last_commit_ms"),
            F.max("_before_ms").alias("before_ms"),
            F.min("_usual_ms").alias("usual_ms"),
            F.max(F.struct("_at_ms", "_is_early"))["_is_early"].alias("is_early"),
        )
    )
    return found.select("group_id", F.struct(*LAST_COMMIT.names).cast(LAST_COMMIT).alias("last"))


def _usual(pauses: Column, usual_ms: Column) -> Column:
    return F.when(pauses >= _ENOUGH, usual_ms)


def _ends_early() -> Column:
    """Whether the last commit came sooner than a timer would have sent it, as `kshim.explain.sources.records` says it."""
    those = Window.partitionBy("group_id")
    is_known = F.col("_others") >= _ENOUGH
    least_ms = F.when(is_known, F.col("_least_ms")).otherwise(F.min("_least_ms").over(those))
    most_ms = F.when(is_known, F.col("_most_ms")).otherwise(F.percentile_approx("_most_ms", 0.75).over(those))
    is_less = F.col("_last_ms") < EARLY * least_ms - (most_ms - least_ms) / 2
    return F.coalesce((F.sum("_others").over(those) >= _ENOUGH) & is_less, F.lit(False))


def _usual_over(*names: str) -> Column:
    """The usual pause between commits of a partition, whoever owned it, or of a group: of what they usually were in turn."""
    those = Window.partitionBy(*names)
    return _usual(F.sum("_pauses").over(those), F.percentile_approx("_usual_ms", 0.5).over(those))


def _member(each: Column) -> Column:
    """A MEMBER."""
    session_ms, rebalance_ms = each["session_timeout_ms"], each["rebalance_timeout_ms"]
    parts = {
        "member_id": each["member_id"],
        "instance_id": each["group_instance_id"],
        "client_id": each["client_id"],
        "host": host(each["client_host"]),
        "session_timeout_ms": session_ms,
        "rebalance_timeout_ms": F.when(rebalance_ms > 0, rebalance_ms).otherwise(session_ms),
        "topics": each["subscription"]["topics"],
    }
    return F.struct(*(value.alias(name) for name, value in parts.items()))


def _mark(each: Column) -> Column:
    """Tells a member from what it was before: arrays of numbers are compared faster."""
    return F.xxhash64(each)


def _longest(each: Column) -> Column:
    return F.greatest(each["session_timeout_ms"], each["rebalance_timeout_ms"])


def _assigned() -> Column:
    """Of each topic, one more than the last partition that a member has."""
    of_members = F.flatten(F.transform("members", lambda each: F.coalesce(each["assignment"], F.array())))
    ends = F.transform(
        F.filter(of_members, lambda each: F.size(each["partitions"]) > 0),
        lambda each: F.struct(
            each["topic"].alias("topic"), (F.array_max(each["partitions"]) + 1).cast("int").alias("partitions")
        ),
    )
    # A group has few topics, and many members that were assigned something of each.
    topics = F.array_distinct(F.transform(ends, lambda each: each["topic"]))
    return F.transform(topics, lambda topic: F.array_max(F.filter(ends, lambda each: each["topic"] == topic)))
