"""OffsetDelete: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct

__all__ = [
    "OffsetDeleteRequest",
    "OffsetDeleteRequestPartition",
    "OffsetDeleteRequestTopic",
    "OffsetDeleteResponse",
    "OffsetDeleteResponsePartition",
    "OffsetDeleteResponseTopic",
]

# fmt: off


@struct
class OffsetDeleteRequestPartition(Struct):
    """Part of OffsetDeleteRequest."""

    partition_index: int = int32("0+")


@struct
class OffsetDeleteRequestTopic(Struct):
    """Part of OffsetDeleteRequest."""

    name:       str                                      = string("0+")
    partitions: tuple[OffsetDeleteRequestPartition, ...] = array(OffsetDeleteRequestPartition, "0+")


@message(api_key=47, versions="0", flexible="none")
class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    """@@DOC OffsetDeleteRequest@@"""

    group_id: str                                  = string("0+")
    topics:   tuple[OffsetDeleteRequestTopic, ...] = array(OffsetDeleteRequestTopic, "0+")


@struct
class OffsetDeleteResponsePartition(Struct):
    """Part of OffsetDeleteResponse."""

    partition_index: int = int32("0+")
    error_code:      int = int16("0+")


@struct
class OffsetDeleteResponseTopic(Struct):
    """Part of OffsetDeleteResponse."""

    name:       str                                       = string("0+")
    partitions: tuple[OffsetDeleteResponsePartition, ...] = array(OffsetDeleteResponsePartition, "0+")


@message(api_key=47, versions="0", flexible="none")
class OffsetDeleteResponse(Struct):
    """@@DOC OffsetDeleteResponse@@"""

    error_code:       int                                   = int16("0+")
    throttle_time_ms: int                                   = int32("0+", default=0, ignorable=True)
    topics:           tuple[OffsetDeleteResponseTopic, ...] = array(OffsetDeleteResponseTopic, "0+")

# fmt: on
