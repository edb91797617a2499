"""Heartbeat: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, int16, int32, message, string

__all__ = [
    "HeartbeatRequest",
    "HeartbeatResponse",
]

# fmt: off


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Request["HeartbeatResponse"]):
    """@@DOC HeartbeatRequest@@"""

    group_id:          str        = string("0+")
    generation_id:     int        = int32("0+")
    member_id:         str        = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Struct):
    """@@DOC HeartbeatResponse@@"""

    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code:       int = int16("0+")

# fmt: on
