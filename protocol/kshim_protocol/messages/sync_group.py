"""SyncGroup: the leader hands in the assignment, every member receives its share."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, bytes_, int16, int32, message, string, struct

# fmt: off


@struct
class SyncGroupRequestAssignment(Struct):
    """The assignment of one member."""

    member_id:  str   = string("0+")
    assignment: bytes = bytes_("0+")  # ConsumerProtocolAssignment; opaque here


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Request["SyncGroupResponse"]):
    """Wait for the assignment; the leader brings it.

    v3 group instance id (KIP-345). v4 flexible. v5 protocol type and name, mandatory (KIP-559).
    """

    group_id:          str                                    = string("0+")
    generation_id:     int                                    = int32("0+")
    member_id:         str                                    = string("0+")
    group_instance_id: str | None                             = string("3+", nullable="3+", default=None)
    protocol_type:     str | None                             = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name:     str | None                             = string("5+", nullable="5+", default=None, ignorable=True)
    assignments:       tuple[SyncGroupRequestAssignment, ...] = array(SyncGroupRequestAssignment, "0+")                    # empty but for the leader

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> SyncGroupResponse:
        return SyncGroupResponse(error_code=error, assignment=b"")


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Struct):
    """The member's own assignment, opaque. v1 throttle time. v4 flexible. v5 protocol type and name (KIP-559)."""

    throttle_time_ms: int        = int32("1+", default=0, ignorable=True)
    error_code:       int        = int16("0+")
    protocol_type:    str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name:    str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment:       bytes      = bytes_("0+")

# fmt: on
