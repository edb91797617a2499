"""ShareAcknowledge: what became of records, without fetching more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.features import SHARE_VERSION
from kshim.broker.handlers.share.acknowledgements import Result, acknowledge_all, require_member
from kshim.broker.request import PendingReply, answered, handles, needs_feature
from kshim.coordinator.step import RequestContext, Step
from kshim.share_partitions.share_sessions import CLOSE_EPOCH, OPEN_EPOCH, Place
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node

_LOCK_TOLD_SINCE = 2


@needs_feature(SHARE_VERSION)
@handles(ShareAcknowledgeRequest)
def share_acknowledge(
    node: Node, request: ShareAcknowledgeRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """Answer when everything is written. Epoch -1 ends the session, and releases what else the member holds.

    Errors: INVALID_REQUEST (null group, bad member id), SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH (also for 0),
    UNKNOWN_SERVER_ERROR (as in `acknowledge_all`).
    """
    sessions = node.share_sessions
    try:
        group_id, member_id = require_member(request.group_id, request.member_id)
        if request.share_session_epoch == OPEN_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        is_last = request.share_session_epoch == CLOSE_EPOCH
        if is_last:
            session = sessions.find(group_id, member_id)
        else:
            session = sessions.resume(group_id, member_id, request.share_session_epoch)
    except KafkaError as error:
        return answered(ticket, request.error_response(error.code, context.api_version))

    def then(results: dict[Place, Result]) -> None:
        if is_last:
            node.cluster.share_partitions.release(session, context.now)
        lock_ms = node.cluster.share_partitions.settings(group_id).record_lock_duration_ms
        ticket.complete(
            ShareAcknowledgeResponse(
                error_code=ErrorCode.NONE,
                acquisition_lock_timeout_ms=lock_ms if context.api_version >= _LOCK_TOLD_SINCE else 0,
                responses=_responses(results),
            )
        )

    is_renewal = request.is_renew_ack
    try:
        writes = acknowledge_all(node, group_id, member_id, request.topics, context, is_renewal=is_renewal, then=then)
    except KafkaError as error:
        return answered(ticket, request.error_response(error.code, context.api_version))  # the session goes on
    if is_last:
        sessions.close(group_id, member_id)
    for write in writes:
        write()
    return Step()


def _responses(results: dict[Place, Result]) -> tuple[ShareAcknowledgeTopicResponse, ...]:
    by_topic: dict[bytes, list[PartitionData]] = {}
    for (topic_id, index), result in results.items():
        data = PartitionData(partition_index=index, error_code=result.error, error_message=result.message)
        by_topic.setdefault(topic_id, []).append(data)
    return tuple(
        ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=tuple(found))
        for topic_id, found in by_topic.items()
    )
