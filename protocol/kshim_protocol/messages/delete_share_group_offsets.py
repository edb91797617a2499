"""DeleteShareGroupOffsets: forget topics of a share group that has no members (KIP-932)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct, uuid

# fmt: off


@struct
class DeleteShareGroupOffsetsRequestTopic(Struct):
    """One topic."""

    topic_name: str = string("0+")


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"]):
    """Topics to forget."""

    group_id: str                                             = string("0+")
    topics:   tuple[DeleteShareGroupOffsetsRequestTopic, ...] = array(DeleteShareGroupOffsetsRequestTopic, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DeleteShareGroupOffsetsResponse:
        return DeleteShareGroupOffsetsResponse(error_code=error, error_message=message, responses=())


@struct
class DeleteShareGroupOffsetsResponseTopic(Struct):
    """One topic."""

    topic_name:    str        = string("0+")
    topic_id:      bytes      = uuid("0+")
    error_code:    int        = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Struct):
    """An error for the group, or one a topic."""

    throttle_time_ms: int                                              = int32("0+", default=0)
    error_code:       int                                              = int16("0+")
    error_message:    str | None                                       = string("0+", nullable="0+", default=None)
    responses:        tuple[DeleteShareGroupOffsetsResponseTopic, ...] = array(DeleteShareGroupOffsetsResponseTopic, "0+")

# fmt: on
