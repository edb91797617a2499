"""Values of `__consumer_offsets` records of consumer groups with the new protocol (KIP-848): key types 3 to 8 and 16.

Where a tag may be null, null is not its default: Kafka's generator takes the `"default": null` of its schemas for none
at all. So null travels as such, and a tag that is left out stands for an empty value.
"""

from __future__ import annotations

from kshim_protocol.schema import Struct, array, bytes_, int8, int32, int64, message, string, struct, struct_, uuid

# fmt: off


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue(Struct):
    """The epoch of a group. The hash of its topics came with 4.1 (KIP-1101)."""

    epoch:         int = int32("0+")
    metadata_hash: int = int64("0+", default=0, tag=0)   # 0: no topics, or written before 4.1


@struct
class PartitionMetadata(Struct):
    """Where the replicas of a partition are; not used after 4.0."""

    partition: int             = int32("0+")
    racks:     tuple[str, ...] = array("string", "0+")


@struct
class TopicMetadata(Struct):
    """A topic that the group subscribes to, as it was seen last."""

    topic_id:           bytes                         = uuid("0+")
    topic_name:         str                           = string("0+")
    num_partitions:     int                           = int32("0+")
    partition_metadata: tuple[PartitionMetadata, ...] = array(PartitionMetadata, "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Struct):
    """The topics of a group before 4.1; since then only tombstones are written."""

    topics: tuple[TopicMetadata, ...] = array(TopicMetadata, "0+")


@struct
class ClassicProtocol(Struct):
    """An assignor that a classic member offers; `metadata` is a ConsumerProtocolSubscription."""

    name:     str   = string("0+")
    metadata: bytes = bytes_("0+")


@struct
class ClassicMemberMetadata(Struct):
    """What a member that speaks the classic protocol said in its JoinGroup."""

    session_timeout_ms:  int                         = int32("0+")
    supported_protocols: tuple[ClassicProtocol, ...] = array(ClassicProtocol, "0+")


_NOTHING_CLASSIC = ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Struct):
    """A member and what it wants. `classic_member_metadata` is None for members that speak the new protocol."""

    instance_id:             str | None                   = string("0+", nullable="0+")
    rack_id:                 str | None                   = string("0+", nullable="0+")
    client_id:               str                          = string("0+")
    client_host:             str                          = string("0+")
    subscribed_topic_names:  tuple[str, ...]              = array("string", "0+")
    subscribed_topic_regex:  str | None                   = string("0+", nullable="0+")
    rebalance_timeout_ms:    int                          = int32("0+", default=-1)
    server_assignor:         str | None                   = string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct_(ClassicMemberMetadata, "0+", nullable="0+", default=_NOTHING_CLASSIC, tag=0)


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Struct):
    """The epoch of the target assignment; when it was computed came with 4.3 (KIP-1263)."""

    assignment_epoch:     int = int32("0+")
    assignment_timestamp: int = int64("0+", default=0, ignorable=True, tag=0)   # ms since the epoch; 0: unknown


@struct
class TopicPartition(Struct):
    """Partitions of one topic in a target assignment."""

    topic_id:   bytes           = uuid("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Struct):
    """What a member is to own."""

    topic_partitions: tuple[TopicPartition, ...] = array(TopicPartition, "0+")


@struct
class TopicPartitions(Struct):
    """Partitions of one topic that a member owns or has to give up; the epochs are parallel to the partitions."""

    topic_id:          bytes                  = uuid("0+")
    partitions:        tuple[int, ...]        = array("int32", "0+")
    assignment_epochs: tuple[int, ...] | None = array("int32", "0+", nullable="0+", default=(), tag=0)


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Struct):
    """What a member owns, and how far it is: state 0 stable, 1 unrevoked, 2 unreleased, 127 unknown."""

    member_epoch:                  int                         = int32("0+")
    previous_member_epoch:         int                         = int32("0+")
    state:                         int                         = int8("0+")
    assigned_partitions:           tuple[TopicPartitions, ...] = array(TopicPartitions, "0+")
    partitions_pending_revocation: tuple[TopicPartitions, ...] = array(TopicPartitions, "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Struct):
    """The topics that a regular expression stood for in one version of the cluster's metadata."""

    topics:    tuple[str, ...] = array("string", "0+")
    version:   int             = int64("0+")
    timestamp: int             = int64("0+")   # ms since the epoch

# fmt: on
