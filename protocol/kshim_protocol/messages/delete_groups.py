"""DeleteGroups: forget groups that have no members, with all their offsets."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct

# fmt: off


@message(api_key=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    """Delete groups (KIP-229). v2 flexible."""

    groups_names: tuple[str, ...] = array("string", "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=tuple(
                DeletableGroupResult(group_id=group_id, error_code=error, error_message=message)
                for group_id in self.groups_names
            )
        )


@struct
class DeletableGroupResult(Struct):
    """What became of one group."""

    group_id:      str        = string("0+")
    error_code:    int        = int16("0+")
    error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)


@message(api_key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse(Struct):
    """One result a group. v1 throttles after the reply. v2 flexible. v3 error message."""

    throttle_time_ms: int                              = int32("0+", default=0)
    results:          tuple[DeletableGroupResult, ...] = array(DeletableGroupResult, "0+")

# fmt: on
