"""ListGroups: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct

__all__ = [
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListedGroup",
]

# fmt: off


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Request["ListGroupsResponse"]):
    """@@DOC ListGroupsRequest@@"""

    states_filter: tuple[str, ...] = array("string", "4+", default=())
    types_filter:  tuple[str, ...] = array("string", "5+", default=())


@struct
class ListedGroup(Struct):
    """Part of ListGroupsResponse."""

    group_id:      str = string("0+")
    protocol_type: str = string("0+")
    group_state:   str = string("4+", default="", ignorable=True)
    group_type:    str = string("5+", default="", ignorable=True)


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Struct):
    """@@DOC ListGroupsResponse@@"""

    throttle_time_ms: int                     = int32("1+", default=0, ignorable=True)
    error_code:       int                     = int16("0+")
    groups:           tuple[ListedGroup, ...] = array(ListedGroup, "0+")

# fmt: on
