"""AlterShareGroupOffsets: move a share group that has no members to other offsets (KIP-932)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, message, string, struct, uuid

# fmt: off


@struct
class AlterShareGroupOffsetsRequestPartition(Struct):
    """One partition."""

    partition_index: int = int32("0+")
    start_offset:    int = int64("0+")


@struct
class AlterShareGroupOffsetsRequestTopic(Struct):
    """One topic."""

    topic_name: str                                                = string("0+")
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...] = array(AlterShareGroupOffsetsRequestPartition, "0+")


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"]):
    """New start offsets."""

    group_id: str                                            = string("0+")
    topics:   tuple[AlterShareGroupOffsetsRequestTopic, ...] = array(AlterShareGroupOffsetsRequestTopic, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> AlterShareGroupOffsetsResponse:
        return AlterShareGroupOffsetsResponse(error_code=error, error_message=message, responses=())


@struct
class AlterShareGroupOffsetsResponsePartition(Struct):
    """One partition."""

    partition_index: int        = int32("0+")
    error_code:      int        = int16("0+")
    error_message:   str | None = string("0+", nullable="0+", default=None)


@struct
class AlterShareGroupOffsetsResponseTopic(Struct):
    """One topic."""

    topic_name: str                                                 = string("0+")
    topic_id:   bytes                                               = uuid("0+")
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...] = array(AlterShareGroupOffsetsResponsePartition, "0+")


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Struct):
    """An error for the group, or one a partition."""

    throttle_time_ms: int                                             = int32("0+", default=0)
    error_code:       int                                             = int16("0+")
    error_message:    str | None                                      = string("0+", nullable="0+", default=None)
    responses:        tuple[AlterShareGroupOffsetsResponseTopic, ...] = array(AlterShareGroupOffsetsResponseTopic, "0+")

# fmt: on
