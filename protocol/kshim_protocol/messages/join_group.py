"""JoinGroup: enter a group, or rejoin it; parked until the join phase ends."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, bytes_, int16, int32, message, string, struct

# fmt: off


@struct
class JoinGroupRequestProtocol(Struct):
    """A protocol the member can follow."""

    name:     str   = string("0+")  # assignor name, e.g. "range"
    metadata: bytes = bytes_("0+")  # ConsumerProtocolSubscription; opaque here


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Request["JoinGroupResponse"]):
    """Ask to join a group; parked until the join phase ends.

    v1 rebalance timeout (KIP-62). v4 first join answered MEMBER_ID_REQUIRED (KIP-394). v5 static members (KIP-345).
    v6 flexible. v8 reason (KIP-800).
    """

    group_id:             str                                  = string("0+")
    session_timeout_ms:   int                                  = int32("0+")
    rebalance_timeout_ms: int                                  = int32("1+", default=-1, ignorable=True)                    # -1: use session timeout
    member_id:            str                                  = string("0+")                                               # "" on first join
    group_instance_id:    str | None                           = string("5+", nullable="5+", default=None)
    protocol_type:        str                                  = string("0+")                                               # "consumer", "connect", ...
    protocols:            tuple[JoinGroupRequestProtocol, ...] = array(JoinGroupRequestProtocol, "0+")                      # most wanted first
    reason:               str | None                           = string("8+", nullable="8+", default=None, ignorable=True)  # for people; in logs and history

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> JoinGroupResponse:
        return JoinGroupResponse(
            error_code=error,
            generation_id=-1,
            protocol_name=None if version >= 7 else "",
            leader="",
            member_id=self.member_id,
            members=(),
        )


@struct
class JoinGroupResponseMember(Struct):
    """A member, in the list that the leader receives."""

    member_id:         str        = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata:          bytes      = bytes_("0+")                                               # of the chosen protocol


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Struct):
    """Generation, chosen protocol, leader; only the leader receives the members.

    v2 throttle time. v4 MEMBER_ID_REQUIRED (KIP-394). v5 group instance id (KIP-345). v6 flexible. v7 protocol type,
    nullable protocol name (KIP-559). v9 skip assignment (KIP-814).
    """

    throttle_time_ms: int                                 = int32("2+", default=0, ignorable=True)
    error_code:       int                                 = int16("0+")
    generation_id:    int                                 = int32("0+", default=-1)                                    # -1 in errors
    protocol_type:    str | None                          = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name:    str | None                          = string("0+", nullable="7+")
    leader:           str                                 = string("0+")                                               # member id
    skip_assignment:  bool                                = boolean("9+", default=False)
    member_id:        str                                 = string("0+")
    members:          tuple[JoinGroupResponseMember, ...] = array(JoinGroupResponseMember, "0+")                       # empty for followers

# fmt: on
