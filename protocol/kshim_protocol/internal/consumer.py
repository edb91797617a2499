"""The embedded consumer protocol: what stands inside JoinGroup metadata and SyncGroup assignments."""

from __future__ import annotations

from kshim_protocol.schema import Struct, array, bytes_, int32, message, string, struct

__all__ = [
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "TopicPartition",
    "TopicPartitionResponse",
]

# fmt: off


@struct
class TopicPartition(Struct):
    """Part of ConsumerProtocolSubscription."""

    topic:      str             = string("1+", default="")
    partitions: tuple[int, ...] = array("int32", "1+", default=())


@message(versions="0-3", flexible="none")
class ConsumerProtocolSubscription(Struct):
    """@@DOC ConsumerProtocolSubscription@@"""

    topics:           tuple[str, ...]            = array("string", "0+")
    user_data:        bytes | None               = bytes_("0+", nullable="0+", default=None)
    owned_partitions: tuple[TopicPartition, ...] = array(TopicPartition, "1+", default=(), ignorable=True)
    generation_id:    int                        = int32("2+", default=-1, ignorable=True)
    rack_id:          str | None                 = string("3+", nullable="3+", default=None, ignorable=True)


@struct
class TopicPartitionResponse(Struct):
    """Part of ConsumerProtocolAssignment."""

    topic:      str             = string("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@message(versions="0-3", flexible="none")
class ConsumerProtocolAssignment(Struct):
    """@@DOC ConsumerProtocolAssignment@@"""

    assigned_partitions: tuple[TopicPartitionResponse, ...] = array(TopicPartitionResponse, "0+")
    user_data:           bytes | None                       = bytes_("0+", nullable="0+", default=None)

# fmt: on
