"""Error answers that the coordinator makes itself: to parked requests, and where the request's own shape differs."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.join_group import JoinGroupResponse
from kshim_protocol.messages.sync_group import SyncGroupResponse

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: ErrorCode) -> ErrorCode:
    """What a client is told when a record could not be written because of `error`."""
    return _APPEND_ERRORS.get(error, error)


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
