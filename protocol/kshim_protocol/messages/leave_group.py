"""LeaveGroup: members leave, so that the group does not wait for their sessions to expire."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct

# fmt: off


@struct
class MemberIdentity(Struct):
    """A member that leaves: its member id, or "" with a group instance id."""

    member_id:         str        = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason:            str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    """Take members out of a group.

    v3 several members, static ones by instance id (KIP-345). v4 flexible. v5 reason (KIP-800).
    """

    group_id:  str                        = string("0+")
    member_id: str                        = string("0-2", default="")                # the only member, v0-2
    members:   tuple[MemberIdentity, ...] = array(MemberIdentity, "3+", default=())

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=error)


@struct
class MemberResponse(Struct):
    """What became of one member."""

    member_id:         str        = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default="")
    error_code:        int        = int16("3+", default=0)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Struct):
    """v1 throttle time. v3 one result a member, in the order of the request (KIP-345). v4 flexible."""

    throttle_time_ms: int                        = int32("1+", default=0, ignorable=True)
    error_code:       int                        = int16("0+")
    members:          tuple[MemberResponse, ...] = array(MemberResponse, "3+", default=())

# fmt: on
