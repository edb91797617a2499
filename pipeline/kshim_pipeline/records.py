"""The two input tables: records as they were read, and the same records decoded.

Instants are ms since the epoch, durations ms. Names follow Kafka's; a record is identified by (topic, partition, offset),
and what it commits is `committed_*`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

# fmt: off
RECORDS: Final = StructType([
    StructField("topic",        StringType(),  nullable=False),
    StructField("partition",    IntegerType(), nullable=False),
    StructField("offset",       LongType(),    nullable=False),
    StructField("timestamp_ms", LongType(),    nullable=False),
    StructField("key",          BinaryType()),                    # null: none
    StructField("value",        BinaryType()),                    # null: a tombstone
    StructField("source",       StringType(),  nullable=False),   # kafka:HOST:PORT, segments:PATH: the source
])
"""Records of any topic. (source, topic, partition, offset) identifies one; a source may return it twice."""

TOPIC_PARTITIONS: Final = StructType([
    StructField("topic",      StringType()),
    StructField("partitions", ArrayType(IntegerType())),
])

SUBSCRIPTION: Final = StructType([
    StructField("topics",        ArrayType(StringType())),
    StructField("owned",         ArrayType(TOPIC_PARTITIONS)),    # owned when it joined (cooperative, sticky)
    StructField("generation_id", IntegerType()),                  # that `owned` is from; -1: unknown
    StructField("rack_id",       StringType()),
])
"""What a member of a group of protocol type `consumer` said when it joined."""

OWNED_PARTITIONS: Final = StructType([
    StructField("topic_id",   StringType()),                      # 32 hex digits
    StructField("partitions", ArrayType(IntegerType())),
    StructField("epochs",     ArrayType(IntegerType())),          # since which epoch each is owned; empty: before 4.3
])
"""Partitions of a topic that a member of a new-protocol group, or of a share group, owns or is to own."""

SHARE_PARTITIONS: Final = StructType([
    StructField("state",      StringType()),                      # initializing, initialized, or deleting
    StructField("topic_id",   StringType()),                      # 32 hex digits
    StructField("topic",      StringType()),
    StructField("partitions", ArrayType(IntegerType())),          # empty while the topic is being deleted
])
"""Partitions of a topic of which the share coordinator keeps state for a group."""

TASKS: Final = StructType([
    StructField("role",           StringType()),                  # active, standby, or warmup
    StructField("subtopology_id", StringType()),
    StructField("partitions",     ArrayType(IntegerType())),
    StructField("epochs",         ArrayType(IntegerType())),      # since which epoch it has each active one; else empty
])
"""Tasks of one subtopology that a member of a streams group has, or is to have."""

SUBTOPOLOGY: Final = StructType([
    StructField("subtopology_id",            StringType()),
    StructField("source_topics",             ArrayType(StringType())),
    StructField("source_topic_regex",        ArrayType(StringType())),
    StructField("repartition_source_topics", ArrayType(StringType())),
    StructField("repartition_sink_topics",   ArrayType(StringType())),
    StructField("state_changelog_topics",    ArrayType(StringType())),
])
"""A part of a streams application, with the names of its topics."""

WISH: Final = StructType([
    StructField("group_instance_id",    StringType()),            # null: a dynamic member
    StructField("rack_id",              StringType()),
    StructField("client_id",            StringType()),
    StructField("client_host",          StringType()),            # in Java's form, "/127.0.0.1"
    StructField("topics",               ArrayType(StringType())),
    StructField("topic_regex",          StringType()),
    StructField("rebalance_timeout_ms", IntegerType()),
    StructField("server_assignor",      StringType()),            # null: it leaves that to others
    StructField("session_timeout_ms",   IntegerType()),           # null: it does not speak the classic protocol
    StructField("process_id",           StringType()),            # of streams groups only
    StructField("endpoint",             StringType()),            # the same, HOST:PORT; null: it answers no queries
])
"""Who a member of a new-protocol, share or streams group is, and what it wants. Fields that its kind lacks are null."""

MEMBER: Final = StructType([
    StructField("member_id",            StringType()),
    StructField("group_instance_id",    StringType()),            # null: a dynamic member
    StructField("client_id",            StringType()),
    StructField("client_host",          StringType()),            # in Java's form, "/127.0.0.1"
    StructField("rebalance_timeout_ms", IntegerType()),           # -1: the session timeout counts
    StructField("session_timeout_ms",   IntegerType()),
    StructField("subscription",         SUBSCRIPTION),            # null: another protocol type, or malformed
    StructField("assignment",           ArrayType(TOPIC_PARTITIONS)),  # null: as above, or none was given
])

DECODED: Final = StructType([
    *(field for field in RECORDS.fields if field.name not in ("key", "value")),
    StructField("kind",                 StringType(),  nullable=False),  # one of KINDS, KIND_UNKNOWN, KIND_UNREADABLE
    StructField("key_type",             ShortType()),             # null: no key, or none in it
    StructField("value_version",        ShortType()),             # null: a tombstone, or none there
    StructField("is_tombstone",         BooleanType(), nullable=False),
    StructField("problem",              StringType()),            # why it is unreadable
    StructField("group_id",             StringType()),
    # kind offset_commit:
    StructField("committed_topic",      StringType()),
    StructField("committed_partition",  IntegerType()),
    StructField("committed_topic_id",   BinaryType()),            # 16 bytes; null: not told (before version 4)
    StructField("committed_offset",     LongType()),              # the next record to read
    StructField("leader_epoch",         IntegerType()),           # -1: none
    StructField("metadata",             StringType()),
    StructField("commit_timestamp_ms",  LongType()),
    StructField("expire_timestamp_ms",  LongType()),              # -1: none of its own
    # kind group_metadata:
    StructField("protocol_type",        StringType()),            # "": not known yet
    StructField("generation_id",        IntegerType()),
    StructField("protocol_name",        StringType()),            # the assignor; null: the group is empty
    StructField("leader_id",            StringType()),
    StructField("state_timestamp_ms",   LongType()),              # when the group entered its state; -1: unknown
    StructField("members",              ArrayType(MEMBER)),
    # of groups of the new protocol (KIP-848), share and streams groups, kinds consumer_group_*, share_group_*, streams_group_*:
    StructField("member_id",            StringType()),            # of the three kinds about one member
    StructField("epoch",                IntegerType()),           # of the group, its target, or the member: by kind
    StructField("previous_epoch",       IntegerType()),           # kind current: of the member
    StructField("metadata_hash",        LongType()),              # kind group: of the topics; 0: none, or before 4.1
    StructField("member_state",         StringType()),            # kind current: of MEMBER_STATES, STREAMS_MEMBER_STATES
    StructField("owned",                ArrayType(OWNED_PARTITIONS)),  # kind current: assigned; kind target: to be owned
    StructField("to_revoke",            ArrayType(OWNED_PARTITIONS)),  # kind current: owned until it gives them up
    StructField("wish",                 WISH),                    # kind member
    StructField("computed_ms",          LongType()),              # kind target: when (ms since 1970); 0: before 4.3
    StructField("topic_regex",          StringType()),            # kind regular expression
    StructField("topics",               ArrayType(StringType())), # what it stands for; kind partition metadata: topics
    StructField("metadata_version",     LongType()),              # of the topics that it was looked up in
    StructField("resolved_ms",          LongType()),              # when it was looked up (ms since 1970)
    StructField("raw_value",            BinaryType()),            # of all of these kinds, for kshim.explain
    # of share groups only:
    StructField("share_partitions",     ArrayType(SHARE_PARTITIONS)),  # kind state partition metadata
    # of streams groups only:
    StructField("topology_epoch",       IntegerType()),           # kind group: validated (-1: none); member: its own; topology
    StructField("tasks",                ArrayType(TASKS)),        # kind current: has; kind target: is to have
    StructField("tasks_to_revoke",      ArrayType(TASKS)),        # kind current: has until it gives them up
    StructField("subtopologies",        ArrayType(SUBTOPOLOGY)),  # kind topology
])
"""Records of `__consumer_offsets`, read. Columns of another kind are null."""

STORED: Final = StructType([
    *RECORDS.fields,
    *(StructField(field.name, field.dataType) for field in DECODED.fields if field.name not in RECORDS.names),
])
"""What is landed: the bytes of a record of any topic, and beside them those of DECODED, null of other topics."""
# fmt: on

DECODER: Final = 1
"""The version of the decoder, which landed files name: it rises when DECODED, or what is decoded, changes."""

KINDS: Final = {
    0: "offset_commit",
    1: "offset_commit",
    2: "group_metadata",
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}
"""Key types of `__consumer_offsets` in Kafka 4.4."""

FIRST_EPOCH_KIND: Final = 3
"""From this key type on they are of groups that have epochs."""

MEMBER_STATES: Final = {0: "Stable", 1: "UnrevokedPartitions", 2: "UnreleasedPartitions"}
"""States of a member of a new-protocol or share group, by their numbers; others are UNKNOWN_STATE."""

STREAMS_MEMBER_STATES: Final = {1: "Stable", 2: "UnrevokedTasks", 3: "UnreleasedTasks"}
"""The same of a streams group."""

UNKNOWN_STATE: Final = "Unknown"

SHARE_STATE_KINDS: Final = {0: "share_snapshot", 1: "share_update"}
"""Key types of `__share_group_state` in Kafka 4.4."""

KIND_UNKNOWN: Final = "unknown"
"""A key type that is not in KINDS."""

KIND_UNREADABLE: Final = "unreadable"
"""Malformed, or a value version that is not known; `problem` says which."""
