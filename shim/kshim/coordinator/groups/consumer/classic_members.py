"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup, where the group is one of the new protocol and has members.

A member of the classic protocol is assigned its partitions as all others are, in rounds: Heartbeat says when it has to join
again, JoinGroup is a heartbeat of the new protocol with what it owns, and SyncGroup says what it may own now. Its generation
is its member epoch.

Source: Kafka's GroupMetadataManager (classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup,
classicGroupHeartbeatToConsumerGroup, classicGroupLeaveToConsumerGroup).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.classic.replies import join_error
from kshim.coordinator.groups.consumer.append_plan import append_plan
from kshim.coordinator.groups.consumer.conversion import (
    append_downgrade,
    classic_metadata,
    is_downgraded,
    require_migration,
)
from kshim.coordinator.groups.consumer.embedded_protocol import build_assignment, parse_subscription, partitions_of
from kshim.coordinator.groups.consumer.group import NOT_JOINED_YET, ConsumerGroup, Member
from kshim.coordinator.groups.consumer.plan import Plan
from kshim.coordinator.groups.consumer.removal import remove_members
from kshim.coordinator.groups.consumer.state import MemberState
from kshim.coordinator.groups.consumer.static_members import require_owner, require_room
from kshim.coordinator.groups.consumer.timers import await_join, await_sync, restart_classic_session
from kshim.coordinator.groups.consumer.updates import build_update
from kshim.coordinator.groups.events import Cause, MemberRef, MemberReplaced, Trigger
from kshim.coordinator.groups.kinds import CONSUMER_PROTOCOL_TYPE
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription
from kshim_protocol.internal.consumer_group import ConsumerGroupMemberMetadataValue
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kshim_protocol.messages.leave_group import MemberIdentity
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_UNCHANGED_MS: Final = -1


# JoinGroup


def join(
    shard: Shard,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
    *,
    wants_id: bool,
) -> None:
    """Answer a JoinGroup, which never waits. `wants_id`: who has no member id is to come again with one.

    Raises KafkaError: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    GROUP_ID_NOT_FOUND (see `downgraded`).
    """
    require_migration(shard, group.group_id)
    has_id, instance_id = bool(request.member_id), request.group_instance_id
    member_id = request.member_id or shard.new_short_id()
    require_room(shard, group, member_id, instance_id)
    if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    if wants_id and not has_id:
        step.reply(ticket, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.api_version))
        return
    owner_id = None if instance_id is None else group.static_members.get(instance_id)
    if instance_id is not None and has_id:
        require_owner(group.static_members, instance_id, member_id)
    _Join(shard, group, member_id, request, context, ticket).go_on(owner_id, step)


class _Join:
    """One JoinGroup of a member that may join. Raises KafkaError: INCONSISTENT_GROUP_PROTOCOL."""

    __slots__ = ("context", "group", "member_id", "now", "request", "shard", "subscription", "ticket")

    def __init__(
        self,
        shard: Shard,
        group: ConsumerGroup,
        member_id: str,
        request: JoinGroupRequest,
        context: RequestContext,
        ticket: Ticket,
    ) -> None:
        self.shard = shard
        self.group = group
        self.member_id = member_id
        self.request = request
        self.context = context
        self.ticket = ticket
        self.now = context.now
        try:
            self.subscription: ConsumerProtocolSubscription = parse_subscription(request.protocols[0].metadata)
        except ProtocolError:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                "Malformed embedded consumer protocol in subscription deserialization.",
            ) from None

    def go_on(self, owner_id: str | None, step: Step) -> None:
        """The member is in the group from now on. `owner_id` had its instance id so far."""
        shard, group, member_id = self.shard, self.group, self.member_id
        plan = Plan(
            group,
            shard.hash_of_topics,
            default_assignor=shard.config.default_assignor,
            occasion=lambda: self.trigger(Cause.RECONCILED, "reconciled its assignment"),
        )
        if owner_id is not None and owner_id != member_id:
            plan.take_over(owner_id, member_id, self.replaced())
        plan.put_member(member_id, self.metadata(plan.group), self.joined())
        plan.look_at_topics(shard.topics.version)
        owned = partitions_of(self.subscription.owned_partitions, shard.topics)
        if owner_id is not None and self.is_downgraded(owner_id):
            is_stale = group.target_epoch < plan.group.group_epoch
            if not is_stale:
                plan.reconcile(member_id, owned, shard.topics)
            self.downgrade(plan, owner_id, step, is_stale=is_stale)
            return
        interval_ms = shard.settings_of(group.group_id).assignment_interval_ms
        plan.compute_target(shard.topics, self.now.wall_ms, interval_ms)
        plan.reconcile(member_id, owned, shard.topics)

        def written(step: Step) -> None:
            member = group.members[member_id]
            restart_classic_session(shard, group.group_id, member, self.now)
            await_sync(shard, group.group_id, member, self.now)
            self.answer(member, step)

        if plan.updates:
            append_plan(shard, plan, self.now, step, written=written, failed=self.failed)
        else:
            written(step)

    def metadata(self, group: ConsumerGroup) -> ConsumerGroupMemberMetadataValue:
        """What the member is and wants from now on."""
        request, subscription = self.request, self.subscription
        member = group.members.get(self.member_id)
        before = NOT_JOINED_YET.metadata if member is None else member.metadata
        timeout_ms = request.rebalance_timeout_ms if self.context.api_version >= 1 else request.session_timeout_ms
        return ConsumerGroupMemberMetadataValue(
            instance_id=before.instance_id if request.group_instance_id is None else request.group_instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            client_id=self.context.client_id or "",
            client_host=self.context.client_host,
            subscribed_topic_names=tuple(sorted(set(subscription.topics))),
            subscribed_topic_regex="",
            rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == _UNCHANGED_MS else timeout_ms,
            server_assignor=before.server_assignor,
            classic_member_metadata=classic_metadata(
                request.session_timeout_ms, [(protocol.name, protocol.metadata) for protocol in request.protocols]
            ),
        )

    # The last member of the new protocol is replaced

    def is_downgraded(self, owner_id: str) -> bool:
        """Whether the group has no member of the new protocol any more."""
        is_classic = self.group.members[owner_id].is_classic
        return not is_classic and is_downgraded(self.shard, self.group, {owner_id}, joining_count=1)

    def downgrade(self, plan: Plan, owner_id: str, step: Step, *, is_stale: bool) -> None:
        """The group becomes classic. It rebalances only where its target is older than what its members want."""
        group, after = self.group, plan.group.members[self.member_id]
        staying = [
            (member, group.targets.get(member_id, frozenset()))
            for member_id, member in group.members.items()
            if member_id != owner_id
        ]
        staying.append((after, group.targets.get(owner_id, frozenset())))
        replaced = MemberReplaced(
            **group.event(self.now), state=group.state, member=self.ref(), replaced_member_id=owner_id
        )
        append_downgrade(
            self.shard,
            group,
            staying,
            [build_update(group.group_id, update) for update in plan.updates] + plan.group.tombstones(),
            self.now,
            step,
            rebalance=self.replaced() if is_stale else None,
            events=[] if owner_id == self.member_id else [replaced],
            written=lambda step: self.answer(after, step),
            failed=self.failed,
        )

    # Answers

    def answer(self, member: Member, step: Step) -> None:
        """The member hears its epoch as a generation, and that another one leads."""
        response = JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=member.current.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=self.request.protocols[0].name,
            leader="",
            member_id=self.member_id,
            members=(),
        )
        step.reply(self.ticket, response)

    def failed(self, error: ErrorCode, step: Step) -> None:
        """Nothing was written, and nothing has changed."""
        step.reply(self.ticket, self.request.error_response(append_error(error), self.context.api_version))

    # For events

    def ref(self) -> MemberRef:
        """The client that sent this JoinGroup."""
        return MemberRef(
            member_id=self.member_id,
            group_instance_id=self.request.group_instance_id,
            client_id=self.context.client_id or "",
            client_host=self.context.client_host,
            client_reason=self.request.reason,
        )

    def trigger(self, cause: Cause, what: str) -> Trigger:
        """Why the group now does what it does."""
        reason = self.request.reason or "not provided"
        detail = f"member {self.member_id} {what}; client reason: {reason}"
        return Trigger(cause=cause, detail=detail, member=self.ref())

    def joined(self) -> Trigger:
        """Of a new member, or of one that wants something else."""
        if self.member_id in self.group.members:
            return self.trigger(Cause.SUBSCRIPTION_CHANGED, "has changed what it wants")
        return self.trigger(Cause.MEMBER_JOINED, "joined with the classic protocol")

    def replaced(self) -> Trigger:
        """Of a static member that comes back."""
        return self.trigger(
            Cause.STATIC_MEMBER_REPLACED, f"with instance id {self.request.group_instance_id} joined again"
        )


# SyncGroup and Heartbeat


def sync(shard: Shard, group: ConsumerGroup, request: SyncGroupRequest, now: Now) -> SyncGroupResponse:
    """What a member may own now; it never waits, and what the member says about assignments does not count.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
    REBALANCE_IN_PROGRESS.
    """
    member = _require_member(group, request)
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    first = classic.supported_protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, first.name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    current = member.current
    if group.target_epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
        # One that revokes has joined already; the next JoinGroup follows by itself.
        await_join(shard, group.group_id, member, now)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    shard.deadlines.cancel(("sync", group.group_id, member.member_id))
    restart_classic_session(shard, group.group_id, member, now)
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=build_assignment(current.assigned, first.metadata, shard.topics),
    )


def heartbeat(shard: Shard, group: ConsumerGroup, request: HeartbeatRequest, now: Now) -> ErrorCode:
    """Restart a member's session. REBALANCE_IN_PROGRESS, if it has to join again: there is a newer target, or it was told to
    give up partitions, or all those are free for which it waits.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    member = _require_member(group, request)
    restart_classic_session(shard, group.group_id, member, now)
    current = member.current
    if (
        current.epoch >= group.target_epoch
        and current.state is not MemberState.UNREVOKED_PARTITIONS
        and (current.state is not MemberState.UNRELEASED_PARTITIONS or _waits_for_others(group, member))
    ):
        return ErrorCode.NONE
    await_join(shard, group.group_id, member, now)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _require_member(group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest) -> Member:
    if request.group_instance_id is not None:
        require_owner(group.static_members, request.group_instance_id, request.member_id)
    member = group.require_member(request.member_id)
    if not member.is_classic:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if request.generation_id != member.current.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    missing = group.targets.get(member.member_id, frozenset()) - member.current.assigned.keys()
    return any(not group.is_free(partition) for partition in missing)


# LeaveGroup


def leave(
    shard: Shard,
    group: ConsumerGroup,
    leaving: Sequence[MemberIdentity],
    now: Now,
    step: Step,
    *,
    answered: Callable[[Sequence[ErrorCode], Step], None],
    failed: Callable[[ErrorCode, Step], None],
) -> None:
    """Remove each member named, of any protocol, with one new epoch; `answered` gets the error of each."""
    found: dict[str, Trigger] = {}
    errors = [_leave(group, entry, found) for entry in leaving]
    if found:
        remove_members(shard, group, found, now, step, written=lambda step: answered(errors, step), failed=failed)
    else:
        answered(errors, step)


def _leave(group: ConsumerGroup, entry: MemberIdentity, found: dict[str, Trigger]) -> ErrorCode:
    """Adds the member to `found`, if it is there."""
    member_id, instance_id = entry.member_id, entry.group_instance_id
    try:
        if instance_id is not None:
            member_id = member_id or group.static_members.get(instance_id, "")
            require_owner(group.static_members, instance_id, member_id)
        member = group.require_member(member_id)
    except KafkaError as error:
        return error.code
    reason = entry.reason or "not provided"
    detail = f"explicit `LeaveGroup` request for ({member_id}); client reason: {reason}"
    found[member_id] = Trigger(cause=Cause.MEMBER_LEFT, detail=detail, member=member.ref(entry.reason))
    return ErrorCode.NONE
