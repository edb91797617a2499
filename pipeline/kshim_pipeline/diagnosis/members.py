"""Records -> members: the members of each snapshot of a group, and the last commit of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from kshim_pipeline.model.shape import host, shaped
from kshim_pipeline.model.snapshots import snapshots
from kshim_pipeline.schemas import EVIDENCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# fmt: off
MEMBERS: Final = StructType([
    StructField("group_id",             StringType(), nullable=False),
    StructField("number",               IntegerType(), nullable=False),  # of the snapshot, in the group
    StructField("ts_ms",                LongType(), nullable=False),
    StructField("next_ts_ms",           LongType()),                     # of the next snapshot; null: none yet
    StructField("generation_id",        IntegerType()),
    StructField("leader_id",            StringType()),
    StructField("protocol",             StringType()),
    StructField("joined_ms",            LongType()),                     # end of the JOIN phase; null: unknown
    StructField("evidence",             EVIDENCE),
    StructField("member_id",            StringType()),                   # null: the group is empty
    StructField("instance_id",          StringType()),
    StructField("client_id",            StringType()),
    StructField("host",                 StringType()),
    StructField("session_timeout_ms",   IntegerType()),
    StructField("rebalance_timeout_ms", IntegerType()),
    StructField("topics",               ArrayType(StringType())),
    StructField("partitions",           IntegerType()),
    StructField("last_partitions",      ArrayType(StructType([          # of each topic, the last that it was assigned
        StructField("topic",            StringType()),
        StructField("partition",        IntegerType()),
    ]))),
    StructField("last_commit_ms",       LongType()),                     # before the next snapshot; null: none
])
"""A member in a snapshot of its group; a snapshot without members is a row without a member."""
# fmt: on


def members(decoded: DataFrame) -> DataFrame:
    """The table MEMBERS from `decoded` (columns of DECODED).

    A commit contains a partition, not a member: it is attributed to the owner in the last record before it. Members
    commit partitions before they revoke them and rejoin, so their last commit before a generation is their last
    activity in the previous one.
    """
    taken = snapshots(decoded).where("protocol_type = 'consumer' or size(members) = 0")
    flat = taken.select(
        "group_id",
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
        F.explode_outer("members").alias("_member"),
    )
    rows = flat.select(
        "*",
        "_member.member_id",
        F.col("_member.group_instance_id").alias("instance_id"),
        "_member.client_id",
        host("_member.client_host").alias("host"),
        "_member.session_timeout_ms",
        F.when(F.col("_member.rebalance_timeout_ms") > 0, F.col("_member.rebalance_timeout_ms"))
        .otherwise(F.col("_member.session_timeout_ms"))
        .alias("rebalance_timeout_ms"),
        F.col("_member.subscription.topics").alias("topics"),
        F.aggregate(
            F.coalesce("_member.assignment", F.array()),
            F.lit(0),
            lambda sum_, topic: sum_ + F.size(topic["partitions"]),
        ).alias("partitions"),
        F.transform(
            F.filter(F.coalesce("_member.assignment", F.array()), lambda topic: F.size(topic["partitions"]) > 0),
            lambda topic: F.struct(
                topic["topic"].alias("topic"), F.array_max(topic["partitions"]).cast("int").alias("partition")
            ),
        ).alias("last_partitions"),
    ).drop("_member")
    return shaped(rows.join(_last_commits(decoded, taken), ["group_id", "number", "member_id"], "left"), MEMBERS)


def _last_commits(decoded: DataFrame, taken: DataFrame) -> DataFrame:
    """`group_id`, `number` of the snapshot in force, `member_id`, `last_commit_ms`."""
    commits = decoded.where("kind = 'offset_commit' and not is_tombstone and group_id is not null").select(
        "group_id",
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("committed_topic").alias("topic"),
        F.col("committed_partition").alias("partition"),
        F.coalesce("commit_timestamp_ms", "timestamp_ms").alias("_at_ms"),
        F.lit(None).cast("int").alias("number"),
    )
    marks = taken.select("group_id", F.col("partition").alias("_partition"), F.col("offset").alias("_offset"), "number")
    order = Window.partitionBy("group_id").orderBy("_partition", "_offset")
    made = (
        commits.unionByName(marks, allowMissingColumns=True)
        .withColumn("number", F.last("number", ignorenulls=True).over(order))
        .where("topic is not null and number is not null")
        .groupBy("group_id", "number", "topic", "partition")
        .agg(F.max("_at_ms").alias("_at_ms"))
    )
    held = (
        taken.select("group_id", "number", F.explode("members").alias("_member"))
        .select("group_id", "number", "_member.member_id", F.explode("_member.assignment").alias("_topic"))
        .select("group_id", "number", "member_id", "_topic.topic", F.explode("_topic.partitions").alias("partition"))
    )
    return (
        made.join(held, ["group_id", "number", "topic", "partition"])
        .groupBy("group_id", "number", "member_id")
        .agg(F.max("_at_ms").alias("last_commit_ms"))
    )
