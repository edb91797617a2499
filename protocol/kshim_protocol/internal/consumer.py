"""The embedded consumer protocol: what stands inside JoinGroup metadata and SyncGroup assignments."""

from __future__ import annotations

from kshim_protocol.schema import Struct, array, bytes_, int32, message, string, struct

# fmt: off


@struct
class TopicPartition(Struct):
    """Partitions of one topic, assigned or owned."""

    topic:      str             = string("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@message(versions="0-3", flexible="none")
class ConsumerProtocolSubscription(Struct):
    """What a consumer sends as metadata of a JoinGroup protocol.

    v1 partitions it still owns (KIP-429). v2 generation they are from (KIP-792). v3 rack (KIP-881). In front of it
    stands its version, an int16; readers take newer versions by their known prefix.
    """

    topics:           tuple[str, ...]            = array("string", "0+")
    user_data:        bytes | None               = bytes_("0+", nullable="0+", default=None)
    owned_partitions: tuple[TopicPartition, ...] = array(TopicPartition, "1+", default=(), ignorable=True)
    generation_id:    int                        = int32("2+", default=-1, ignorable=True)
    rack_id:          str | None                 = string("3+", nullable="3+", default=None, ignorable=True)


@message(versions="0-3", flexible="none")
class ConsumerProtocolAssignment(Struct):
    """What a consumer gets in SyncGroup. v1-3 equal v0. An int16 version stands in front of it."""

    assigned_partitions: tuple[TopicPartition, ...] = array(TopicPartition, "0+")
    user_data:           bytes | None               = bytes_("0+", nullable="0+", default=None)

# fmt: on
