"""JoinGroup: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, boolean, bytes_, int16, int32, message, string, struct

__all__ = [
    "JoinGroupRequest",
    "JoinGroupRequestProtocol",
    "JoinGroupResponse",
    "JoinGroupResponseMember",
]

# fmt: off


@struct
class JoinGroupRequestProtocol(Struct):
    """Part of JoinGroupRequest."""

    name:     str   = string("0+")
    metadata: bytes = bytes_("0+")


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Request["JoinGroupResponse"]):
    """@@DOC JoinGroupRequest@@"""

    group_id:             str                                  = string("0+")
    session_timeout_ms:   int                                  = int32("0+")
    rebalance_timeout_ms: int                                  = int32("1+", default=-1, ignorable=True)
    member_id:            str                                  = string("0+")
    group_instance_id:    str | None                           = string("5+", nullable="5+", default=None)
    protocol_type:        str                                  = string("0+")
    protocols:            tuple[JoinGroupRequestProtocol, ...] = array(JoinGroupRequestProtocol, "0+")
    reason:               str | None                           = string("8+", nullable="8+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember(Struct):
    """Part of JoinGroupResponse."""

    member_id:         str        = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata:          bytes      = bytes_("0+")


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Struct):
    """@@DOC JoinGroupResponse@@"""

    throttle_time_ms: int                                 = int32("2+", default=0, ignorable=True)
    error_code:       int                                 = int16("0+")
    generation_id:    int                                 = int32("0+", default=-1)
    protocol_type:    str | None                          = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name:    str | None                          = string("0+", nullable="7+")
    leader:           str                                 = string("0+")
    skip_assignment:  bool                                = boolean("9+", default=False)
    member_id:        str                                 = string("0+")
    members:          tuple[JoinGroupResponseMember, ...] = array(JoinGroupResponseMember, "0+")

# fmt: on
