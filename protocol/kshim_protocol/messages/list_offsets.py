"""ListOffsets: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, int8, message, string, struct

__all__ = [
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
]

# fmt: off


@struct
class ListOffsetsPartition(Struct):
    """Part of ListOffsetsRequest."""

    partition_index:      int = int32("1+")
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp:            int = int64("1+")


@struct
class ListOffsetsTopic(Struct):
    """Part of ListOffsetsRequest."""

    name:       str                              = string("1+")
    partitions: tuple[ListOffsetsPartition, ...] = array(ListOffsetsPartition, "1+")


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    """@@DOC ListOffsetsRequest@@"""

    replica_id:      int                          = int32("1+")
    isolation_level: int                          = int8("2+", default=0)
    topics:          tuple[ListOffsetsTopic, ...] = array(ListOffsetsTopic, "1+")
    timeout_ms:      int                          = int32("10+", default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse(Struct):
    """Part of ListOffsetsResponse."""

    partition_index: int = int32("1+")
    error_code:      int = int16("1+")
    timestamp:       int = int64("1+", default=-1)
    offset:          int = int64("1+", default=-1)
    leader_epoch:    int = int32("4+", default=-1)


@struct
class ListOffsetsTopicResponse(Struct):
    """Part of ListOffsetsResponse."""

    name:       str                                      = string("1+")
    partitions: tuple[ListOffsetsPartitionResponse, ...] = array(ListOffsetsPartitionResponse, "1+")


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(Struct):
    """@@DOC ListOffsetsResponse@@"""

    throttle_time_ms: int                                  = int32("2+", default=0, ignorable=True)
    topics:           tuple[ListOffsetsTopicResponse, ...] = array(ListOffsetsTopicResponse, "1+")

# fmt: on
