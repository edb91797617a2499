"""ShareGroupHeartbeat: join, go on, leave. Nothing is ever given up first, so one answer says where a member is.

Source: Kafka's GroupMetadataManager.shareGroupHeartbeat and shareGroupLeave; what it leaves open is that of a live 4.4.
"""

from __future__ import annotations

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.consumer.updates import by_topic
from kshim.coordinator.groups.epoch_report import ref_of, report_refusal
from kshim.coordinator.groups.events import Cause
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.share.append_plan import append_share_plan, restart_share_session
from kshim.coordinator.groups.share.group import JOIN_EPOCH, LEFT_EPOCH, NOT_JOINED, ShareGroup, ShareMember
from kshim.coordinator.groups.share.initialization import initialize
from kshim.coordinator.groups.share.plan import SharePlan, changes_nothing
from kshim.coordinator.groups.share.updates import Current
from kshim.coordinator.groups.share.validation import require_epoch, require_valid
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.share_group import ShareGroupMemberMetadataValue
from kshim_protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

_RETRY_MS = 500


def share_group_heartbeat(
    shard: Shard, request: ShareGroupHeartbeatRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Answer a heartbeat: at once when it changes nothing, else when the changes are in the log.

    Errors are replies with a sentence: INVALID_REQUEST, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
    """
    try:
        require_valid(request)
        shard.require_loaded()
        if request.member_epoch == LEFT_EPOCH:
            _leave(shard, request, context, ticket, step)
        else:
            _go_on(shard, request, context, ticket, step)
    except KafkaError as error:
        group = shard.groups.get(request.group_id)
        if isinstance(group, ShareGroup):
            report_refusal(group, ref_of(request.member_id, None, context), error, context.now, step)
        step.reply(ticket, request.error_response(error.code, context.api_version, error.message))


def _find_group(shard: Shard, request: ShareGroupHeartbeatRequest) -> ShareGroup:
    """The group; a new one, which nobody knows before its first record is written, when a member joins."""
    if request.group_id not in shard.groups:
        if request.member_epoch == JOIN_EPOCH:
            return ShareGroup(request.group_id, shard.partition)
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {request.group_id} not found.")
    return shard.share_group(request.group_id)


def _go_on(
    shard: Shard, request: ShareGroupHeartbeatRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    group, member_id, now = _find_group(shard, request), request.member_id, context.now
    _require_room(shard, group, member_id)
    is_joining = request.member_epoch == JOIN_EPOCH
    member = group.members.get(member_id) if is_joining else group.require_member(member_id)
    if not is_joining:
        assert member is not None
        require_epoch(member.current, request.member_epoch)
    metadata = _metadata(request, context, member)
    before = NOT_JOINED if member is None else member.current

    def answer(step: Step) -> None:
        _answer(shard, request, before, now, ticket, step)

    if member is not None and member.metadata == metadata and changes_nothing(group, member, shard.topics):
        answer(step)
        return
    plan = SharePlan(group, shard.hash_of_topics)
    plan.put_member(member_id, metadata)
    plan.look_at_topics(shard.topics.version)
    plan.compute_target(shard.topics, now.wall_ms, shard.share_settings_of(group.group_id).assignment_interval_ms)
    plan.reconcile(member_id, shard.topics)
    missing = plan.initialize(shard.topics)

    def written(step: Step) -> None:
        answer(step)
        if missing:
            initialize(shard, shard.share_group(group.group_id), missing, now, step)

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(append_error(error), context.api_version))

    if plan.updates:
        append_share_plan(shard, plan, now, step, written=written, failed=failed)
    else:
        if plan.topics_version is not None:
            group.topics_version = plan.topics_version
        written(step)


def _require_room(shard: Shard, group: ShareGroup, member_id: str) -> None:
    most = shard.share_settings_of(group.group_id).max_size
    if member_id not in group.members and group.member_count >= most:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The share group has reached its maximum capacity of {most} members."
        )


def _metadata(
    request: ShareGroupHeartbeatRequest, context: RequestContext, member: ShareMember | None
) -> ShareGroupMemberMetadataValue:
    """What the member is and wants from now on: what it does not say is as before."""
    names = request.subscribed_topic_names
    if names is None:
        names = () if member is None else member.metadata.subscribed_topic_names
    rack_id = request.rack_id
    if rack_id is None and member is not None:
        rack_id = member.metadata.rack_id
    return ShareGroupMemberMetadataValue(
        rack_id=rack_id,
        client_id=context.client_id or "",
        client_host=context.client_host,
        subscribed_topic_names=tuple(sorted(set(names))),
    )


def _answer(
    shard: Shard, request: ShareGroupHeartbeatRequest, before: Current, now: Now, ticket: Ticket, step: Step
) -> None:
    """The member is where it is to be: say so, with what it reads when that is news or it said what it wants."""
    group_id, member_id = request.group_id, request.member_id
    current = shard.share_group(group_id).members[member_id].current
    restart_share_session(shard, group_id, member_id, now)
    is_news = request.subscribed_topic_names is not None or current.assigned != before.assigned
    response = ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=shard.share_settings_of(group_id).heartbeat_interval_ms,
        assignment=_assignment(current) if is_news or request.member_epoch == JOIN_EPOCH else None,
    )
    step.reply(ticket, response)


def _assignment(current: Current) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic(current.assigned).items()
        )
    )


# Leaving


def _leave(
    shard: Shard, request: ShareGroupHeartbeatRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    group = shard.share_group(request.group_id)
    group.require_member(request.member_id)
    plan = SharePlan(group, shard.hash_of_topics)
    plan.remove_member(request.member_id, Cause.MEMBER_LEFT, f"member {request.member_id} left")

    def written(step: Step) -> None:
        response = ShareGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=LEFT_EPOCH,
            heartbeat_interval_ms=0,
        )
        step.reply(ticket, response)

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(append_error(error), context.api_version))

    append_share_plan(shard, plan, context.now, step, written=written, failed=failed)


def share_session_expired(shard: Shard, group: ShareGroup, member_id: str, now: Now, step: Step) -> None:
    """A member has not been heard of for its session timeout: it is as if it left."""
    plan = SharePlan(group, shard.hash_of_topics)
    detail = f"removing member {member_id} because its session expired"
    plan.remove_member(member_id, Cause.SESSION_EXPIRED, detail)

    def written(step: Step) -> None:
        pass

    def failed(error: ErrorCode, step: Step) -> None:
        shard.deadlines.set(("session", group.group_id, member_id), now.mono_ms + _RETRY_MS)

    append_share_plan(shard, plan, now, step, written=written, failed=failed)
