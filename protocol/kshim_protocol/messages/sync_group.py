"""SyncGroup: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, bytes_, int16, int32, message, string, struct

__all__ = [
    "SyncGroupRequest",
    "SyncGroupRequestAssignment",
    "SyncGroupResponse",
]

# fmt: off


@struct
class SyncGroupRequestAssignment(Struct):
    """Part of SyncGroupRequest."""

    member_id:  str   = string("0+")
    assignment: bytes = bytes_("0+")


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Request["SyncGroupResponse"]):
    """@@DOC SyncGroupRequest@@"""

    group_id:          str                                    = string("0+")
    generation_id:     int                                    = int32("0+")
    member_id:         str                                    = string("0+")
    group_instance_id: str | None                             = string("3+", nullable="3+", default=None)
    protocol_type:     str | None                             = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name:     str | None                             = string("5+", nullable="5+", default=None, ignorable=True)
    assignments:       tuple[SyncGroupRequestAssignment, ...] = array(SyncGroupRequestAssignment, "0+")


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Struct):
    """@@DOC SyncGroupResponse@@"""

    throttle_time_ms: int        = int32("1+", default=0, ignorable=True)
    error_code:       int        = int16("0+")
    protocol_type:    str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name:    str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment:       bytes      = bytes_("0+")

# fmt: on
