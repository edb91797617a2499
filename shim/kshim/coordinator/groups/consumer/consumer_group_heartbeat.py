"""ConsumerGroupHeartbeat: a member joins, says what it wants and owns, is told what to own, and leaves.

Source: Kafka's GroupMetadataManager.consumerGroupHeartbeat and what it calls; KIP-848.
"""

from __future__ import annotations

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.consumer.append_plan import append_plan
from kshim.coordinator.groups.consumer.conversion import upgraded
from kshim.coordinator.groups.consumer.group import (
    JOIN_EPOCH,
    LEFT_EPOCH,
    LEFT_FOR_NOW_EPOCH,
    NOT_JOINED_YET,
    ConsumerGroup,
    Member,
)
from kshim.coordinator.groups.consumer.lookups import look_up_if_due
from kshim.coordinator.groups.consumer.plan import Plan, is_at_odds
from kshim.coordinator.groups.consumer.reconciliation import Current, Owned, require_epoch
from kshim.coordinator.groups.consumer.removal import remove_members
from kshim.coordinator.groups.consumer.static_members import require_owner, require_room, take_over_or_join
from kshim.coordinator.groups.consumer.timers import restart_session
from kshim.coordinator.groups.consumer.updates import Update, by_topic
from kshim.coordinator.groups.consumer.validation import require_valid
from kshim.coordinator.groups.epoch_report import ref_of, report_refusal
from kshim.coordinator.groups.events import Cause, Trigger
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.consumer_group import ConsumerGroupMemberMetadataValue
from kshim_protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_UNCHANGED_MS = -1


def consumer_group_heartbeat(
    shard: Shard, request: ConsumerGroupHeartbeatRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Answer a heartbeat: at once when it changes nothing, else when the changes are in the log.

    Errors are replies with a sentence: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, COORDINATOR_LOAD_IN_PROGRESS,
    GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID,
    FENCED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION.
    """
    try:
        if not shard.is_loading and _changes_nothing(shard, request, context):
            restart_session(shard, request.group_id, request.member_id, context.now)
            step.reply(ticket, _response(shard, request.group_id, request.member_id, request.member_epoch))
            group = shard.consumer_group(request.group_id)
            if group.expression_members:
                look_up_if_due(shard, group, context, step)
            return
        require_valid(request, context.api_version, shard.config.group_consumer_assignors)
        shard.require_loaded()
        heartbeat = _Heartbeat(shard, request, context, ticket)
        match request.member_epoch:
            case epoch if epoch == LEFT_EPOCH:
                heartbeat.leave(step)
            case epoch if epoch == LEFT_FOR_NOW_EPOCH:
                heartbeat.leave_for_now(step)
            case _:
                heartbeat.go_on(step)
    except KafkaError as error:
        refusing = shard.groups.get(request.group_id)
        if isinstance(refusing, ConsumerGroup):
            report_refusal(refusing, ref_of(request.member_id, request.instance_id, context), error, context.now, step)
        step.reply(ticket, request.error_response(error.code, context.api_version, error.message))


def _changes_nothing(shard: Shard, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> bool:
    """Whether a member only says that it is alive, and nothing waits for it: most heartbeats, which have to be fast."""
    group = shard.groups.get(request.group_id)
    if (
        not isinstance(group, ConsumerGroup)
        or group.topics_version != shard.topics.version
        or (group.target_epoch != group.group_epoch and not _awaits_target(shard, group, context))
    ):
        return False
    member = group.members.get(request.member_id)
    return (
        member is not None
        and member.current.epoch == request.member_epoch
        and member.current.is_at(group.target_epoch)
        and _is_as_before(member, request, context)
        and not is_at_odds(group, shard.config.default_assignor, member)
    )


def _is_as_before(member: Member, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> bool:
    """Whether a heartbeat says nothing of what its member is and wants, and so changes none of that."""
    return (
        request.subscribed_topic_names is None
        and request.instance_id is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == _UNCHANGED_MS
        and member.metadata.client_id == (context.client_id or "")
        and member.metadata.client_host == context.client_host
        and not member.is_classic
    )


def _awaits_target(shard: Shard, group: ConsumerGroup, context: RequestContext) -> bool:
    """Whether it is too early for the next target, so that members at the last one have nothing to do until then.

    What expressions stand for may have changed since the last one: their members may have to give up partitions.
    """
    interval_ms = shard.settings_of(group.group_id).assignment_interval_ms
    return context.now.wall_ms - group.target_ms < interval_ms and not group.expression_members


class _Heartbeat:
    """One heartbeat on its way through the rules."""

    __slots__ = ("context", "group", "member_id", "now", "request", "shard", "ticket", "upgrade")

    def __init__(
        self, shard: Shard, request: ConsumerGroupHeartbeatRequest, context: RequestContext, ticket: Ticket
    ) -> None:
        self.shard = shard
        self.request = request
        self.context = context
        self.ticket = ticket
        self.now = context.now
        self.member_id = request.member_id
        self.upgrade: list[Update] = []
        self.group = self.find_group()

    def find_group(self) -> ConsumerGroup:
        """The group; a new one, which nobody knows before its first record is written, when a member joins."""
        group_id = self.request.group_id
        if self.request.member_epoch == JOIN_EPOCH:
            classic = self.shard.classic_groups.get(group_id)
            if classic is not None and not classic.is_empty:
                group, self.upgrade = upgraded(self.shard, classic)
                return group
            if classic is not None or group_id not in self.shard.groups:
                return ConsumerGroup(group_id, self.shard.partition)
        if self.request.member_epoch > JOIN_EPOCH and group_id not in self.shard.groups:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return self.shard.consumer_group(group_id)

    # Going on

    def go_on(self, step: Step) -> None:
        """Join, join again, or report."""
        request, group = self.request, self.group
        is_joining = request.member_epoch == JOIN_EPOCH
        if is_joining and not self.member_id:
            self.member_id = self.shard.new_short_id()
        if self.member_id not in group.members:
            require_room(self.shard, group, self.member_id, request.instance_id)
        plan = Plan(
            group,
            self.shard.hash_of_topics,
            default_assignor=self.shard.config.default_assignor,
            occasion=lambda: self.trigger(Cause.RECONCILED),
        )
        plan.replaces = self.shard.classic_groups.get(group.group_id)
        plan.updates += self.upgrade
        before = self.find_current()
        if is_joining and request.instance_id is not None:
            take_over_or_join(plan, request, self.member_id, self.metadata, self.trigger)
        else:
            if request.instance_id is not None:
                require_owner(group.static_members, request.instance_id, self.member_id)
            member = None if is_joining else group.require_member(self.member_id)
            if member is not None:
                require_epoch(member.current, request.member_epoch, self.owned)
            if (
                member is None
                or not _is_as_before(member, request, self.context)
                or is_at_odds(group, self.shard.config.default_assignor, member)
            ):
                plan.put_member(self.member_id, self.metadata(plan.group), self.trigger(Cause.MEMBER_JOINED))
        is_new = self.require_expression(plan)
        plan.look_at_topics(self.shard.topics.version)
        interval_ms = self.shard.settings_of(group.group_id).assignment_interval_ms
        plan.compute_target(self.shard.topics, self.now.wall_ms, interval_ms)
        plan.reconcile(self.member_id, self.owned, self.shard.topics)

        def written(step: Step) -> None:
            group = self.shard.consumer_group(self.request.group_id)
            self.answer(group, before, step)
            if group.expression_members:
                look_up_if_due(self.shard, group, self.context, step, is_new=is_new)

        if plan.updates:
            append_plan(self.shard, plan, self.now, step, written=written, failed=self.failed)
        else:
            written(step)

    def require_expression(self, plan: Plan) -> bool:
        """Whether the member brings an expression that nobody has had. Raises KafkaError: INVALID_REGULAR_EXPRESSION."""
        expression = plan.member(self.member_id).metadata.subscribed_topic_regex
        if not expression or expression in self.group.expression_members:
            return False
        self.shard.require_expression(expression)
        return True

    def find_current(self) -> Current:
        """Where the member is before this heartbeat."""
        member = self.group.members.get(self.member_id)
        return NOT_JOINED_YET.current if member is None else member.current

    @property
    def owned(self) -> Owned:
        """What the member says it owns."""
        topics = self.request.topic_partitions
        if topics is None:
            return None
        return [(topic.topic_id, index) for topic in topics for index in topic.partitions]

    def metadata(self, group: ConsumerGroup) -> ConsumerGroupMemberMetadataValue:
        """What the member is and wants from now on: what it does not say is as before."""
        request = self.request
        member = group.members.get(self.member_id)
        before = NOT_JOINED_YET.metadata if member is None else member.metadata
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        return ConsumerGroupMemberMetadataValue(
            instance_id=before.instance_id if request.instance_id is None else request.instance_id,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            client_id=self.context.client_id or "",
            client_host=self.context.client_host,
            subscribed_topic_names=before.subscribed_topic_names if names is None else tuple(sorted(set(names))),
            subscribed_topic_regex=before.subscribed_topic_regex if regex is None else regex,
            rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == _UNCHANGED_MS else timeout_ms,
            server_assignor=before.server_assignor if request.server_assignor is None else request.server_assignor,
            classic_member_metadata=None,
        )

    def trigger(self, cause: Cause) -> Trigger:
        """Why the epoch rises, if it does. A member that is known already has changed what it wants."""
        member_id, is_known = self.member_id, self.member_id in self.group.members
        if cause is Cause.MEMBER_JOINED and is_known:
            cause, detail = Cause.SUBSCRIPTION_CHANGED, f"member {member_id} has changed what it wants"
        elif cause is Cause.MEMBER_JOINED:
            detail = f"member {member_id} joined"
        elif cause is Cause.MEMBER_LEFT:
            detail = f"member {member_id} left"
        elif cause is Cause.RECONCILED:
            detail = f"member {member_id} reconciled its assignment"
        else:
            detail = f"static member {member_id} with instance id {self.request.instance_id} joined again"
        return Trigger(cause=cause, detail=detail, member=ref_of(member_id, self.request.instance_id, self.context))

    # Leaving

    def leave(self, step: Step) -> None:
        """For good."""
        if self.request.instance_id is not None:
            require_owner(self.group.static_members, self.request.instance_id, self.member_id)
        self.group.require_member(self.member_id)
        leaving = {self.member_id: self.trigger(Cause.MEMBER_LEFT)}
        remove_members(self.shard, self.group, leaving, self.now, step, written=self.answer_left, failed=self.failed)

    def leave_for_now(self, step: Step) -> None:
        """A static member will be back."""
        require_owner(self.group.static_members, self.request.instance_id or "", self.member_id)
        plan = Plan(self.group, self.shard.hash_of_topics)
        plan.leave_for_now(self.member_id, self.trigger(Cause.MEMBER_LEFT))
        append_plan(self.shard, plan, self.now, step, written=self.answer_left, failed=self.failed)

    # Answers

    def answer(self, group: ConsumerGroup, before: Current, step: Step) -> None:
        """The member is where it is to be: say so, with what it may own when that is news or it asks for all."""
        request, group_id = self.request, group.group_id
        current = group.members[self.member_id].current
        restart_session(self.shard, group_id, self.member_id, self.now)
        asks_for_all = (
            request.rebalance_timeout_ms != _UNCHANGED_MS
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        is_news = asks_for_all or current.assigned.keys() != before.assigned.keys()
        assignment = _assignment(current) if is_news else None
        step.reply(self.ticket, _response(self.shard, group_id, self.member_id, current.epoch, assignment))

    def answer_left(self, step: Step) -> None:
        """The member has left."""
        step.reply(
            self.ticket,
            ConsumerGroupHeartbeatResponse(
                error_code=ErrorCode.NONE, member_id=self.member_id, member_epoch=self.request.member_epoch
            ),
        )

    def failed(self, error: ErrorCode, step: Step) -> None:
        """Nothing was written, and nothing has changed."""
        step.reply(self.ticket, self.request.error_response(append_error(error), self.context.api_version))


def _response(
    shard: Shard, group_id: str, member_id: str, epoch: int, assignment: Assignment | None = None
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=shard.settings_of(group_id).heartbeat_interval_ms,
        assignment=assignment,
    )


def _assignment(current: Current) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic(current.assigned).items()
        )
    )
