"""FindCoordinator: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, int16, int32, int8, message, string, struct

__all__ = [
    "Coordinator",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
]

# fmt: off


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    """@@DOC FindCoordinatorRequest@@"""

    key:              str             = string("0-3", default="")
    key_type:         int             = int8("1+", default=0)
    coordinator_keys: tuple[str, ...] = array("string", "4+", default=())


@struct
class Coordinator(Struct):
    """Part of FindCoordinatorResponse."""

    key:           str        = string("4+", default="")
    node_id:       int        = int32("4+", default=0)
    host:          str        = string("4+", default="")
    port:          int        = int32("4+", default=0)
    error_code:    int        = int16("4+", default=0)
    error_message: str | None = string("4+", nullable="4+", default="", ignorable=True)


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Struct):
    """@@DOC FindCoordinatorResponse@@"""

    throttle_time_ms: int                     = int32("1+", default=0, ignorable=True)
    error_code:       int                     = int16("0-3", default=0)
    error_message:    str | None              = string("1-3", nullable="1-3", default="", ignorable=True)
    node_id:          int                     = int32("0-3", default=0)
    host:             str                     = string("0-3", default="")
    port:             int                     = int32("0-3", default=0)
    coordinators:     tuple[Coordinator, ...] = array(Coordinator, "4+", default=())

# fmt: on
