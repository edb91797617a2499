"""Heartbeat: keep a member's session alive, and learn that a rebalance began."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, int16, int32, message, string

# fmt: off


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Request["HeartbeatResponse"]):
    """Keep the session of a member alive. v3 group instance id (KIP-345). v4 flexible."""

    group_id:          str        = string("0+")
    generation_id:     int        = int32("0+")
    member_id:         str        = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=error)


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Struct):
    """NONE, REBALANCE_IN_PROGRESS (rejoin), or why the member is out. v1 throttle time. v4 flexible."""

    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code:       int = int16("0+")

# fmt: on
