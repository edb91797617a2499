"""Values of `__consumer_offsets` records of share groups (KIP-932): key types 10 to 15."""

from __future__ import annotations

from kshim_protocol.internal.consumer_group import TopicPartition
from kshim_protocol.schema import Struct, array, int8, int32, int64, message, string, struct, uuid

# fmt: off


@message(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue(Struct):
    """A member and what it subscribes to."""

    rack_id:                str | None      = string("0+", nullable="0+")
    client_id:              str             = string("0+")
    client_host:            str             = string("0+")
    subscribed_topic_names: tuple[str, ...] = array("string", "0+")


@message(versions="0", flexible="0+")
class ShareGroupMetadataValue(Struct):
    """The epoch of a group, and the hash of its topics."""

    epoch:         int = int32("0+")
    metadata_hash: int = int64("0+")


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Struct):
    """The epoch of the target assignment; when it was computed came with 4.3 (KIP-1263)."""

    assignment_epoch:     int = int32("0+")
    assignment_timestamp: int = int64("0+", default=0, ignorable=True, tag=0)   # ms since the epoch; 0: unknown


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Struct):
    """What a member is to read."""

    topic_partitions: tuple[TopicPartition, ...] = array(TopicPartition, "0+")


@struct
class TopicPartitions(Struct):
    """Partitions of one topic that a member reads."""

    topic_id:   bytes           = uuid("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@message(versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Struct):
    """What a member reads, and how far it is."""

    member_epoch:          int                         = int32("0+")
    previous_member_epoch: int                         = int32("0+")
    state:                 int                         = int8("0+")
    assigned_partitions:   tuple[TopicPartitions, ...] = array(TopicPartitions, "0+")


@struct
class TopicPartitionsInfo(Struct):
    """Partitions of one topic whose share state is there or being made."""

    topic_id:   bytes           = uuid("0+")
    topic_name: str             = string("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@struct
class TopicInfo(Struct):
    """A topic whose share state is being deleted."""

    topic_id:   bytes = uuid("0+")
    topic_name: str   = string("0+")


@message(versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Struct):
    """For which partitions the share coordinator keeps state."""

    initializing_topics: tuple[TopicPartitionsInfo, ...] = array(TopicPartitionsInfo, "0+")
    initialized_topics:  tuple[TopicPartitionsInfo, ...] = array(TopicPartitionsInfo, "0+")
    deleting_topics:     tuple[TopicInfo, ...]           = array(TopicInfo, "0+")

# fmt: on
