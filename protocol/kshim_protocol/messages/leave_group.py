"""LeaveGroup: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct

__all__ = [
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "MemberIdentity",
    "MemberResponse",
]

# fmt: off


@struct
class MemberIdentity(Struct):
    """Part of LeaveGroupRequest."""

    member_id:         str        = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason:            str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    """@@DOC LeaveGroupRequest@@"""

    group_id:  str                        = string("0+")
    member_id: str                        = string("0-2", default="")
    members:   tuple[MemberIdentity, ...] = array(MemberIdentity, "3+", default=())


@struct
class MemberResponse(Struct):
    """Part of LeaveGroupResponse."""

    member_id:         str        = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default="")
    error_code:        int        = int16("3+", default=0)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Struct):
    """@@DOC LeaveGroupResponse@@"""

    throttle_time_ms: int                        = int32("1+", default=0, ignorable=True)
    error_code:       int                        = int16("0+")
    members:          tuple[MemberResponse, ...] = array(MemberResponse, "3+", default=())

# fmt: on
