"""OffsetDelete: forget committed offsets of topics a group no longer reads."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct

# fmt: off


@struct
class OffsetDeleteRequestPartition(Struct):
    """One partition to forget."""

    partition_index: int = int32("0+")


@struct
class OffsetDeleteRequestTopic(Struct):
    """One topic."""

    name:       str                                      = string("0+")
    partitions: tuple[OffsetDeleteRequestPartition, ...] = array(OffsetDeleteRequestPartition, "0+")


@message(api_key=47, versions="0", flexible="none")
class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    """Delete committed offsets of a group (KIP-496). Never flexible."""

    group_id: str                                  = string("0+")
    topics:   tuple[OffsetDeleteRequestTopic, ...] = array(OffsetDeleteRequestTopic, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=error, topics=())


@struct
class OffsetDeleteResponsePartition(Struct):
    """What became of one partition."""

    partition_index: int = int32("0+")
    error_code:      int = int16("0+")


@struct
class OffsetDeleteResponseTopic(Struct):
    """One topic."""

    name:       str                                       = string("0+")
    partitions: tuple[OffsetDeleteResponsePartition, ...] = array(OffsetDeleteResponsePartition, "0+")


@message(api_key=47, versions="0", flexible="none")
class OffsetDeleteResponse(Struct):
    """An error for the group, or one a partition. Note the order: error, then throttle time."""

    error_code:       int                                   = int16("0+")
    throttle_time_ms: int                                   = int32("0+", default=0, ignorable=True)
    topics:           tuple[OffsetDeleteResponseTopic, ...] = array(OffsetDeleteResponseTopic, "0+")

# fmt: on
