"""ListGroups: the groups this coordinator knows."""

from __future__ import annotations

from collections.abc import Sequence

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, message, rows, string, struct

# fmt: off


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Request["ListGroupsResponse"]):
    """Ask for groups; empty filters let everything pass.

    v3 flexible. v4 filter by state (KIP-518). v5 filter by type (KIP-848).
    """

    states_filter: tuple[str, ...] = array("string", "4+", default=())
    types_filter:  tuple[str, ...] = array("string", "5+", default=())

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ListGroupsResponse:
        return ListGroupsResponse(error_code=error, groups=())


@struct
class ListedGroup(Struct):
    """One group."""

    group_id:      str = string("0+")
    protocol_type: str = string("0+")                              # "": only offsets, no members ever
    group_state:   str = string("4+", default="", ignorable=True)
    group_type:    str = string("5+", default="", ignorable=True)  # "classic", "consumer", ...


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Struct):
    """The groups. v1 throttle time. v3 flexible. v4 state (KIP-518). v5 type (KIP-848)."""

    throttle_time_ms: int                   = int32("1+", default=0, ignorable=True)
    error_code:       int                   = int16("0+")
    groups:           Sequence[ListedGroup] = rows(ListedGroup, "0+")

# fmt: on
