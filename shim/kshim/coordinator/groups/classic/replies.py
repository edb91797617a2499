"""Error answers that the coordinator makes itself: to parked requests, and where the request's own shape differs."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.join_group import JoinGroupResponse
from kshim_protocol.messages.sync_group import SyncGroupResponse


def join_error(error: ErrorCode, member_id: str, api_version: int) -> JoinGroupResponse:
    """A refused Join."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_name=None if api_version >= 7 else "",
        leader="",
        member_id=member_id,
        members=(),
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """A refused Sync."""
    return SyncGroupResponse(error_code=error, assignment=b"")
