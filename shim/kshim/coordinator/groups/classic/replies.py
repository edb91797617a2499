"""Error answers that the coordinator makes itself: to parked requests, and where the request's own shape differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.join_group import JoinGroupResponse
from kshim_protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from kshim.coordinator.groups.classic.group import Group
    from kshim.coordinator.step import Step


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


def refuse_parked(group: Group, error: ErrorCode, step: Step) -> None:
    """Answer everything that waits in a group."""
    for member_id, join in group.parked_joins.items():
        step.reply(join.ticket, join_error(error, member_id, join.api_version))
    for sync in group.parked_syncs.values():
        step.reply(sync.ticket, sync_error(error))
    group.parked_joins.clear()
    group.parked_syncs.clear()
