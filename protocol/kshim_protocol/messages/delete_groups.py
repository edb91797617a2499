"""DeleteGroups: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct

__all__ = [
    "DeletableGroupResult",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
]

# fmt: off


@message(api_key=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    """@@DOC DeleteGroupsRequest@@"""

    groups_names: tuple[str, ...] = array("string", "0+")


@struct
class DeletableGroupResult(Struct):
    """Part of DeleteGroupsResponse."""

    group_id:      str        = string("0+")
    error_code:    int        = int16("0+")
    error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)


@message(api_key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse(Struct):
    """@@DOC DeleteGroupsResponse@@"""

    throttle_time_ms: int                              = int32("0+", default=0)
    results:          tuple[DeletableGroupResult, ...] = array(DeletableGroupResult, "0+")

# fmt: on
