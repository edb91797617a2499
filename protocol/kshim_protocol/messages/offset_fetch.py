"""OffsetFetch: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import ZERO_UUID, Request, Struct, array, boolean, int16, int32, int64, message, string, struct, uuid

__all__ = [
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopic",
    "OffsetFetchRequestTopics",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponseTopics",
]

# fmt: off


@struct
class OffsetFetchRequestTopic(Struct):
    """Part of OffsetFetchRequest."""

    name:              str             = string("1-7", default="")
    partition_indexes: tuple[int, ...] = array("int32", "1-7", default=())


@struct
class OffsetFetchRequestTopics(Struct):
    """Part of OffsetFetchRequest."""

    name:              str             = string("8-9", default="", ignorable=True)
    topic_id:          bytes           = uuid("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: tuple[int, ...] = array("int32", "8+", default=())


@struct
class OffsetFetchRequestGroup(Struct):
    """Part of OffsetFetchRequest."""

    group_id:     str                                         = string("8+", default="")
    member_id:    str | None                                  = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int                                         = int32("9+", default=-1, ignorable=True)
    topics:       tuple[OffsetFetchRequestTopics, ...] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+", default=())


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    """@@DOC OffsetFetchRequest@@"""

    group_id:       str                                        = string("1-7", default="")
    topics:         tuple[OffsetFetchRequestTopic, ...] | None = array(OffsetFetchRequestTopic, "1-7", nullable="2-7", default=())
    groups:         tuple[OffsetFetchRequestGroup, ...]        = array(OffsetFetchRequestGroup, "8+", default=())
    require_stable: bool                                       = boolean("7+", default=False)


@struct
class OffsetFetchResponsePartition(Struct):
    """Part of OffsetFetchResponse."""

    partition_index:        int        = int32("1-7", default=0)
    committed_offset:       int        = int64("1-7", default=0)
    committed_leader_epoch: int        = int32("5-7", default=-1, ignorable=True)
    metadata:               str | None = string("1-7", nullable="1-7", default="")
    error_code:             int        = int16("1-7", default=0)


@struct
class OffsetFetchResponseTopic(Struct):
    """Part of OffsetFetchResponse."""

    name:       str                                      = string("1-7", default="")
    partitions: tuple[OffsetFetchResponsePartition, ...] = array(OffsetFetchResponsePartition, "1-7", default=())


@struct
class OffsetFetchResponsePartitions(Struct):
    """Part of OffsetFetchResponse."""

    partition_index:        int        = int32("8+", default=0)
    committed_offset:       int        = int64("8+", default=0)
    committed_leader_epoch: int        = int32("8+", default=-1, ignorable=True)
    metadata:               str | None = string("8+", nullable="8+", default="")
    error_code:             int        = int16("8+", default=0)


@struct
class OffsetFetchResponseTopics(Struct):
    """Part of OffsetFetchResponse."""

    name:       str                                       = string("8-9", default="", ignorable=True)
    topic_id:   bytes                                     = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[OffsetFetchResponsePartitions, ...] = array(OffsetFetchResponsePartitions, "8+", default=())


@struct
class OffsetFetchResponseGroup(Struct):
    """Part of OffsetFetchResponse."""

    group_id:   str                                   = string("8+", default="")
    topics:     tuple[OffsetFetchResponseTopics, ...] = array(OffsetFetchResponseTopics, "8+", default=())
    error_code: int                                   = int16("8+", default=0)


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse(Struct):
    """@@DOC OffsetFetchResponse@@"""

    throttle_time_ms: int                                  = int32("3+", default=0, ignorable=True)
    topics:           tuple[OffsetFetchResponseTopic, ...] = array(OffsetFetchResponseTopic, "1-7", default=())
    error_code:       int                                  = int16("2-7", default=0, ignorable=True)
    groups:           tuple[OffsetFetchResponseGroup, ...] = array(OffsetFetchResponseGroup, "8+", default=())

# fmt: on
