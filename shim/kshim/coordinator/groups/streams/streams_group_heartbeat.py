"""StreamsGroupHeartbeat: a member joins with its topology, says what it runs, is told what to run, and leaves.

Source: Kafka's GroupMetadataManager.streamsGroupHeartbeat, streamsGroupLeave and what they call; KIP-1071.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.consumer.static_members import require_owner, unreleased
from kshim.coordinator.groups.epoch_report import ref_of, report_refusal
from kshim.coordinator.groups.events import Cause, Trigger
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.streams.append_plan import append_streams_plan, restart_streams_session
from kshim.coordinator.groups.streams.configured_topology import ConfiguredTopology
from kshim.coordinator.groups.streams.endpoints import partitions_by_endpoint
from kshim.coordinator.groups.streams.group import (
    INITIAL_DELAY,
    JOIN_EPOCH,
    LEFT_EPOCH,
    LEFT_FOR_NOW_EPOCH,
    StreamsGroup,
    StreamsMember,
    StreamsMemory,
    TaskOffsets,
)
from kshim.coordinator.groups.streams.plan import Delay, StreamsPlan
from kshim.coordinator.groups.streams.reconciliation import require_epoch
from kshim.coordinator.groups.streams.statuses import creation_failed, statuses, unauthorized
from kshim.coordinator.groups.streams.task_assignor import Task
from kshim.coordinator.groups.streams.tasks import by_subtopology
from kshim.coordinator.groups.streams.topology import Topology
from kshim.coordinator.groups.streams.updates import topology_of
from kshim.coordinator.groups.streams.validation import (
    owned_tasks,
    require_known_tasks,
    require_valid,
    task_offsets,
)
from kshim.coordinator.hash_order import hash_map_order
from kshim.coordinator.step import Now, RequestContext, Step, Ticket, TopicsWanted, WantedTopic
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.streams_group import Endpoint, KeyValue, StreamsGroupMemberMetadataValue
from kshim_protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

_UNCHANGED_MS: Final = -1
_RETRY_MS: Final = 500
_REMEMBERED_INTERVALS: Final = 2
"""For how many intervals between heartbeats it is remembered that a topic could not be made."""


def streams_group_heartbeat(
    shard: Shard, request: StreamsGroupHeartbeatRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Answer a heartbeat: at once when it changes nothing, else when the changes are in the log.

    Errors are replies with a sentence: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY, COORDINATOR_LOAD_IN_PROGRESS,
    GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID,
    FENCED_INSTANCE_ID, UNKNOWN_SERVER_ERROR.
    """
    try:
        topology = None if request.topology is None else topology_of(request.topology)
        require_valid(request, topology)
        shard.require_loaded()
        if request.member_epoch in (LEFT_EPOCH, LEFT_FOR_NOW_EPOCH):
            _leave(shard, request, context, ticket, step)
        else:
            _Heartbeat(shard, request, context, ticket).go_on(topology, step)
    except KafkaError as error:
        group = shard.groups.get(request.group_id)
        if isinstance(group, StreamsGroup):
            member = ref_of(request.member_id, request.instance_id, context)
            report_refusal(group, member, error, context.now, step)
        step.reply(ticket, request.error_response(error.code, context.api_version, error.message))


class _Heartbeat:
    """The heartbeat of a member that joins or goes on."""

    def __init__(
        self, shard: Shard, request: StreamsGroupHeartbeatRequest, context: RequestContext, ticket: Ticket
    ) -> None:
        self.shard = shard
        self.request = request
        self.context = context
        self.ticket = ticket
        self.now = context.now
        self.settings = shard.streams_settings_of(request.group_id)
        self.is_joining = request.member_epoch == JOIN_EPOCH
        self.group = self.find_group()

    def find_group(self) -> StreamsGroup:
        """The group; a new one, which nobody knows before its first record is written, when a member joins."""
        group_id, groups = self.request.group_id, self.shard.groups
        if self.is_joining:
            classic = self.shard.classic_groups.get(group_id)
            if group_id not in groups or (classic is not None and classic.is_empty):
                return StreamsGroup(group_id, self.shard.partition)
        elif group_id not in groups:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        return self.shard.streams_group(group_id)

    def go_on(self, topology: Topology | None, step: Step) -> None:
        """Join, join again, or report."""
        request, group, member_id = self.request, self.group, self.request.member_id
        if self.is_joining:
            self.require_room()
        plan = StreamsPlan(group, self.settings)
        plan.causes.occasion = self.reconciled
        plan.replaces = self.shard.classic_groups.get(group.group_id)
        owned = owned_tasks(request)
        before = self.find_member(plan)
        metadata = self.metadata(before.metadata)
        plan.put_member(member_id, metadata, by_instance_id=request.instance_id is not None)
        if topology is not None:
            plan.bring_topology(topology)
        validation = plan.validate(self.shard.topics, self.shard.hash_of_topics)
        configured = validation.configured
        if configured.is_ready:
            require_known_tasks(request, configured)
        self.keep_task_offsets(group.memory)
        plan.raise_epoch_if_due(validation)
        begins_delay = group.is_empty and self.settings.initial_rebalance_delay_ms > 0
        if begins_delay or self.shard.deadlines.get((INITIAL_DELAY, group.group_id)) is not None:
            delay: Delay | None = Delay.INITIAL
        else:
            joining_id = None if member_id in group.members else member_id
            delay = plan.compute_target(configured, self.now.wall_ms, joining_id=joining_id)
        plan.reconcile(member_id, owned, has_target=delay is not Delay.INITIAL)
        missing = tuple(
            WantedTopic(topic.name, topic.partitions, topic.replication_factor, topic.topic_configs)
            for topic in configured.missing_internal_topics
        )
        refused = [topic.name for topic in missing if not self.may_create(topic.name)]
        response = self.response(plan, before, configured, delay, missing, refused)

        def written(step: Step) -> None:
            restart_streams_session(self.shard, group.group_id, member_id, self.now)
            if begins_delay:
                self.begin_delay()
            step.reply(self.ticket, response)
            if missing and not refused:
                self.want(missing, step)

        if plan.updates:
            append_streams_plan(self.shard, plan, self.now, step, written=written, failed=self.failed)
        else:
            written(step)

    def reconciled(self) -> Trigger:
        """Why the state of the group is another one, if no epoch rises."""
        member = ref_of(self.request.member_id, self.request.instance_id, self.context)
        return Trigger(
            cause=Cause.RECONCILED, detail=f"member {member.member_id} reconciled its assignment", member=member
        )

    def require_room(self) -> None:
        """Raises KafkaError: GROUP_MAX_SIZE_REACHED, unless the member is in the group or takes a place there."""
        request, group, most = self.request, self.group, self.settings.max_size
        if request.instance_id in group.static_members or request.member_id in group.members:
            return
        if group.member_count >= most:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {most} members.",
            )

    def find_member(self, plan: StreamsPlan) -> StreamsMember:
        """The member before this heartbeat, after it took over what a static one has left.

        Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID.
        """
        request, group, member_id = self.request, self.group, self.request.member_id
        instance_id = request.instance_id
        if self.is_joining:
            owner_id = None if instance_id is None else group.static_members.get(instance_id)
            if instance_id is not None and owner_id is not None:
                if group.members[owner_id].current.epoch != LEFT_FOR_NOW_EPOCH:
                    raise unreleased(instance_id, member_id, owner_id)
                plan.take_over(owner_id, member_id)
            return plan.member(member_id)
        if instance_id is not None:
            require_owner(group.static_members, instance_id, member_id)
        member = group.require_member(member_id)
        require_epoch(member.current, request.member_epoch, owned_tasks(request))
        return member

    def metadata(self, before: StreamsGroupMemberMetadataValue) -> StreamsGroupMemberMetadataValue:
        """What the member is from now on: what it does not say is as before, but for the endpoint of one that joins."""
        request = self.request
        endpoint = None if self.is_joining else before.user_endpoint
        if request.user_endpoint is not None:
            endpoint = Endpoint(host=request.user_endpoint.host, port=request.user_endpoint.port)
        tags, timeout_ms = request.client_tags, request.rebalance_timeout_ms
        return StreamsGroupMemberMetadataValue(
            instance_id=before.instance_id if request.instance_id is None else request.instance_id,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            client_id=self.context.client_id or "",
            client_host=self.context.client_host,
            rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == _UNCHANGED_MS else timeout_ms,
            topology_epoch=before.topology_epoch if request.topology is None else request.topology.epoch,
            process_id=before.process_id if request.process_id is None else request.process_id,
            user_endpoint=endpoint,
            client_tags=before.client_tags if tags is None else _in_order({tag.key: tag.value for tag in tags}),
        )

    def keep_task_offsets(self, memory: StreamsMemory) -> None:
        """Raises KafkaError: INVALID_REQUEST."""
        if self.request.task_offsets is not None or self.request.task_end_offsets is not None:
            member_id = self.request.member_id
            memory.task_offsets[member_id] = task_offsets(
                self.request, memory.task_offsets.get(member_id, TaskOffsets())
            )

    # Internal topics

    def may_create(self, name: str) -> bool:
        """Whether the member has the right to."""
        return self.context.may_create is None or self.context.may_create(name)

    def want(self, missing: tuple[WantedTopic, ...], step: Step) -> None:
        """Have internal topics made, but for those that could not be made a moment ago."""
        failed = self.failed_topics(self.shard.streams_group(self.request.group_id).memory)
        topics = tuple(topic for topic in missing if topic.name not in failed)
        if topics:
            step.topics_wanted = (*step.topics_wanted, TopicsWanted(topics, self.now, self.not_made))

    def not_made(self, errors: Mapping[str, str]) -> None:
        """Some could not be made: the member is told so with its next heartbeats."""
        group = self.shard.groups.get(self.request.group_id)
        if isinstance(group, StreamsGroup):
            until_ms = self.now.mono_ms + _REMEMBERED_INTERVALS * self.settings.heartbeat_interval_ms
            group.memory.failed_topics.update({name: (error, until_ms) for name, error in errors.items()})

    def failed_topics(self, memory: StreamsMemory) -> dict[str, str]:
        """Those that could not be made, and why, as long as that is remembered."""
        now_ms = self.now.mono_ms
        return {name: error for name, (error, until_ms) in memory.failed_topics.items() if now_ms < until_ms}

    # The answer

    def response(
        self,
        plan: StreamsPlan,
        before: StreamsMember,
        configured: ConfiguredTopology,
        delay: Delay | None,
        missing: tuple[WantedTopic, ...],
        refused: list[str],
    ) -> StreamsGroupHeartbeatResponse:
        """What the member is told when the plan is written. What is only remembered changes now."""
        request, group, settings = self.request, plan.group, self.settings
        member, memory = group.members[request.member_id], self.group.memory
        is_news = self.is_joining or member.current.assigned != before.current.assigned
        has_other_endpoint = member.metadata.user_endpoint != before.metadata.user_endpoint
        if has_other_endpoint or (
            member.current.assigned != before.current.assigned and member.metadata.user_endpoint is not None
        ):
            memory.endpoint_epoch += 1
        if request.shutdown_application and memory.shutdown_member_id is None:
            memory.shutdown_member_id = request.member_id
        partitions = None
        if memory.endpoint_epoch != request.endpoint_information_epoch:
            partitions = partitions_by_endpoint(group, member, configured, self.shard.topics)
        assert group.topology is not None, group.group_id
        if refused:
            creation = unauthorized(refused)
        else:
            failed = self.failed_topics(memory)
            creation = creation_failed({topic.name: failed[topic.name] for topic in missing if topic.name in failed})
        assigned = member.current.assigned
        return StreamsGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=member.current.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            task_offset_interval_ms=settings.task_offset_interval_ms,
            acceptable_recovery_lag=settings.acceptable_recovery_lag,
            status=statuses(
                group.topology,
                member.metadata,
                configured,
                shutdown_member_id=memory.shutdown_member_id,
                delay=delay,
                creation=creation,
                rack_aware_tags=settings.rack_aware_tags,
                api_version=self.context.api_version,
            ),
            active_tasks=_task_ids(assigned.active) if is_news else None,
            standby_tasks=_task_ids(assigned.standby) if is_news else None,
            warmup_tasks=_task_ids(assigned.warmup) if is_news else None,
            endpoint_information_epoch=memory.endpoint_epoch if self.is_known() else 0,
            partitions_by_user_endpoint=partitions,
        )

    def is_known(self) -> bool:
        """Whether the group exists already, so that what is remembered of it stays: that of a new one does not, as in Kafka."""
        return self.request.group_id in self.shard.groups

    def begin_delay(self) -> None:
        """The group had no members: it waits a while for others. A delay that goes on is not made longer."""
        key = (INITIAL_DELAY, self.request.group_id)
        if self.shard.deadlines.get(key) is None:
            self.shard.deadlines.set(key, self.now.mono_ms + self.settings.initial_rebalance_delay_ms)

    def failed(self, error: ErrorCode, step: Step) -> None:
        """Nothing was written, and nothing has changed."""
        step.reply(self.ticket, self.request.error_response(append_error(error), self.context.api_version))


def _in_order(tags: Mapping[str, str]) -> tuple[KeyValue, ...]:
    return tuple(KeyValue(key=key, value=tags[key]) for key in sorted(tags))


def _task_ids(tasks: Iterable[Task]) -> tuple[TaskIds, ...]:
    found = by_subtopology(tasks)
    return tuple(TaskIds(subtopology_id=name, partitions=found[name]) for name in hash_map_order(found))


# Leaving


def _leave(
    shard: Shard, request: StreamsGroupHeartbeatRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """For good, or a static member for now. The wish that all others stop, too, is heard from one that leaves."""
    group, member_id = shard.streams_group(request.group_id), request.member_id
    if request.shutdown_application and group.memory.shutdown_member_id is None:
        group.memory.shutdown_member_id = member_id
    if request.instance_id is not None:
        require_owner(group.static_members, request.instance_id, member_id)
    group.require_member(member_id)
    plan = StreamsPlan(group, shard.streams_settings_of(group.group_id))
    cause, detail = Cause.MEMBER_LEFT, f"member {member_id} left"
    if request.member_epoch == LEFT_FOR_NOW_EPOCH:
        ref = group.members[member_id].ref()
        plan.causes.occasion = lambda: Trigger(cause=cause, detail=detail, member=ref)
        plan.leave_for_now(member_id)
    else:
        plan.remove_member(member_id, cause, detail)

    def written(step: Step) -> None:
        step.reply(
            ticket,
            StreamsGroupHeartbeatResponse(
                error_code=ErrorCode.NONE, member_id=member_id, member_epoch=request.member_epoch
            ),
        )

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(append_error(error), context.api_version))

    append_streams_plan(shard, plan, context.now, step, written=written, failed=failed)


def remove_expired(shard: Shard, group: StreamsGroup, member_id: str, timer: str, now: Now, step: Step) -> None:
    """A member has not been heard of for its session timeout, or still runs tasks that it was told to give up when its
    rebalance timeout is over: `timer` says which."""
    plan = StreamsPlan(group, shard.streams_settings_of(group.group_id))
    if timer == "session":
        cause, why = Cause.SESSION_EXPIRED, "because its session expired"
    else:
        timeout_ms = group.members[member_id].metadata.rebalance_timeout_ms
        cause, why = Cause.REBALANCE_TIMEOUT, f"which has not given up its tasks within {timeout_ms} ms"
    plan.remove_member(member_id, cause, f"removing member {member_id} {why}")
    append_streams_plan(
        shard,
        plan,
        now,
        step,
        written=_nothing,
        failed=partial(_try_again, shard, (timer, group.group_id, member_id), now),
    )


def initial_delay_over(shard: Shard, group_id: str, now: Now, step: Step) -> None:
    """The members that came until now get their tasks. Where the topology was not looked at yet, the next heartbeat does that."""
    group = shard.groups.get(group_id)
    if not isinstance(group, StreamsGroup) or group.is_empty or group.memory.configured is None:
        return
    plan = StreamsPlan(group, shard.streams_settings_of(group_id), configs=group.assignment_configs)
    plan.compute_target(group.memory.configured, now.wall_ms)
    plan.causes.occasion = lambda: Trigger(cause=Cause.INITIAL_DELAY_OVER, detail="the initial rebalance delay is over")
    if plan.updates:
        failed = partial(_try_again, shard, (INITIAL_DELAY, group_id), now)
        append_streams_plan(shard, plan, now, step, written=_nothing, failed=failed)


def _try_again(shard: Shard, key: tuple[str, ...], now: Now, error: ErrorCode, step: Step) -> None:
    shard.deadlines.set(key, now.mono_ms + _RETRY_MS)


def _nothing(step: Step) -> None:
    pass
