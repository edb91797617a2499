"""JoinGroup: enter a group or rejoin it; the answer waits for the end of the join phase.

Source: Kafka's classicGroupJoinToClassicGroup and what it calls. Two differences: a Join that a newer one of the same
member supersedes is answered REBALANCE_IN_PROGRESS (Kafka never answers it), and a Join that lists a protocol twice is
refused (Kafka never answers it either, and the group stays in PreparingRebalance).
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.classic.group import Group, vote, with_entry
from kshim.coordinator.groups.classic.member import Member, ParkedJoin
from kshim.coordinator.groups.classic.rebalance import (
    append_failed,
    join_response,
    rebalance_or_complete_join,
    remove_member,
    remove_pending,
    restart_session,
    start_rebalance,
)
from kshim.coordinator.groups.classic.replies import join_error, sync_error
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer import classic_members
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.events import (
    Cause,
    MemberAdded,
    MemberIdIssued,
    MemberRef,
    MemberRefused,
    MemberReplaced,
    Offer,
    Trigger,
)
from kshim.coordinator.groups.kinds import CONSUMER_PROTOCOL_TYPE, GroupKind, converted
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.groups.streams.group import StreamsGroup
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.group_metadata import GroupMetadataValue
from kshim_protocol.internal.records import build_group_metadata_key, build_group_metadata_value
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""Session of a member whose first Join is parked: it cannot heartbeat yet, and its client may be gone."""

_MEMBER_ID_REQUIRED_SINCE = 4
_SKIP_ASSIGNMENT_SINCE = 9
_MAX_NAME_BYTES = 32_767 - 64
"""What fits in a record's string, with room for the UUID of a member id made from it."""


def join_group(shard: Shard, request: JoinGroupRequest, context: RequestContext, ticket: Ticket, step: Step) -> None:
    """Answer or park a Join.

    Raises KafkaError: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INCONSISTENT_GROUP_PROTOCOL,
    INVALID_REQUEST (a name too long for a record), COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_MEMBER_ID.
    Every other refusal is a reply.
    """
    _check(shard, request, context)
    shard.require_loaded()
    group = shard.groups.get(request.group_id)
    if isinstance(group, Group):
        _Join(shard, group, request, context, ticket).handle(step)
    elif isinstance(group, ConsumerGroup) and not group.is_empty:
        try:
            classic_members.join(shard, group, request, context, ticket, step, wants_id=_wants_id(request, context))
        except KafkaError as error:  # as in Kafka, these refusals do not say which member they are for
            step.reply(ticket, join_error(error.code, "", context.api_version))
    elif isinstance(group, ShareGroup) or (isinstance(group, StreamsGroup) and not group.is_empty):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif request.member_id:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    else:
        _create_group(shard, request, context, ticket, step)


def _check(shard: Shard, request: JoinGroupRequest, context: RequestContext) -> None:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    config = shard.config
    if not (config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms):
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
    names = [protocol.name for protocol in request.protocols]
    if len(names) != len(set(names)):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    strings = (
        request.group_id,
        request.group_instance_id or "",
        context.client_id or "",
        request.protocol_type,
        *names,
    )
    if max(map(len, strings)) > _MAX_NAME_BYTES // 4 and max(len(text.encode()) for text in strings) > _MAX_NAME_BYTES:
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _create_group(shard: Shard, request: JoinGroupRequest, context: RequestContext, ticket: Ticket, step: Step) -> None:
    """A group seen for the first time is recorded as empty before its first member is let in.

    If there is one of another kind, which is empty, it ends; its offsets stay.
    """
    group_id, now = request.group_id, context.now
    before = shard.groups.get(group_id)
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=now.wall_ms,
        members=(),
    )

    def written(_base_offset: int, step: Step) -> None:
        if before is not None:
            shard.end_group(group_id)
            step.events.append(converted(before, GroupKind.CLASSIC, now))
        shard.put_group(group_id, value)
        _Join(shard, shard.classic_groups[group_id], request, context, ticket).handle(step)

    def failed(error: ErrorCode, step: Step) -> None:
        step.events.append(append_failed(Group(group_id, shard.partition), error, "a new group", now))
        if _wants_id(request, context):  # it gets one nevertheless, which will be unknown when it is used
            member_id = _new_id(shard, context.client_id)
            step.reply(ticket, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.api_version))
        else:
            step.reply(ticket, join_error(append_error(error), "", context.api_version))

    pairs = [] if before is None else before.tombstones()
    pairs.append((build_group_metadata_key(group_id), build_group_metadata_value(value)))
    shard.append(step, pairs, now, written=written, failed=failed)


def _wants_id(request: JoinGroupRequest, context: RequestContext) -> bool:
    """Whether a client without a member id is to come again with one it is given (KIP-394)."""
    return request.group_instance_id is None and context.api_version >= _MEMBER_ID_REQUIRED_SINCE


def _new_id(shard: Shard, prefix: str | None) -> str:
    return f"{prefix or ''}-{shard.new_id()}"


class _Join:
    """One Join on its way through the rules, in a group that exists."""

    __slots__ = ("context", "group", "now", "protocols", "rebalance_timeout_ms", "request", "shard", "ticket")

    def __init__(
        self, shard: Shard, group: Group, request: JoinGroupRequest, context: RequestContext, ticket: Ticket
    ) -> None:
        self.shard = shard
        self.group = group
        self.request = request
        self.context = context
        self.ticket = ticket
        self.now = context.now
        self.protocols = {protocol.name: protocol.metadata for protocol in request.protocols}
        self.rebalance_timeout_ms = (
            request.rebalance_timeout_ms if context.api_version >= 1 else request.session_timeout_ms
        )

    def handle(self, step: Step) -> None:
        """Answer or park."""
        member_id = self.request.member_id
        if not self.has_room():
            self.turn_away(step)
        elif not self.group.supports(self.request.protocol_type, self.protocols):
            self.tell_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, self.difference(), step)
            self.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, step)
        elif member_id == "":
            self.enter_without_id(step)
        elif member_id in self.group.pending_joins and self.request.group_instance_id is None:
            self.add(member_id, step)
        else:
            try:
                member = self.group.require_member(member_id, self.request.group_instance_id)
            except KafkaError as error:
                self.refuse(error.code, step)
            else:
                self.rejoin(member, step)

    # Checks

    def has_room(self) -> bool:
        """Whether group.max.size lets this Join in. While members gather, those already parked count."""
        group, max_size = self.group, self.shard.config.group_max_size
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                return self.request.member_id in group.parked_joins or len(group.parked_joins) < max_size
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return self.request.member_id in group.members or len(group.members) < max_size

    def turn_away(self, step: Step) -> None:
        """The group is full: the client is no longer a member."""
        group, member_id = self.group, self.request.member_id
        if member_id in group.pending_joins:
            remove_pending(self.shard, group, member_id, Cause.GROUP_TOO_LARGE, self.now, step)
        elif member_id in group.members:
            member = group.members[member_id]
            remove_member(self.shard, group, member, Cause.GROUP_TOO_LARGE, self.now, step)
        self.tell_refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"group.max.size is {self.shard.config.group_max_size}", step
        )
        step.reply(self.ticket, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, "", self.context.api_version))

    def refuse(self, error: ErrorCode, step: Step) -> None:
        """Answer with an error."""
        step.reply(self.ticket, join_error(error, self.request.member_id, self.context.api_version))

    def tell_refused(self, error: ErrorCode, detail: str, step: Step) -> None:
        """Report that the client may not join."""
        step.events.append(
            MemberRefused(
                **self.group.event(self.now),
                state=self.group.state,
                member=self.ref(self.request.member_id),
                error=error,
                detail=detail,
                offer=self.offer(None),
            )
        )

    def difference(self) -> str:
        """What this JoinGroup and the group do not have in common."""
        group, names = self.group, ", ".join(self.protocols) or "none"
        if group.protocol_type is not None and self.request.protocol_type != group.protocol_type:
            return f"it has the protocol type {self.request.protocol_type}, and the group {group.protocol_type}"
        common = ", ".join(sorted(name for name, count in group.supporters.items() if count == len(group.members)))
        return f"its protocols are {names}, and all members of the group have {common or 'none'}"

    # Coming in

    def enter_without_id(self, step: Step) -> None:
        """A client that has no member id (any more)."""
        group, instance_id = self.group, self.request.group_instance_id
        if instance_id is not None:
            known = group.static_members.get(instance_id)
            new_id = _new_id(self.shard, instance_id)
            if known is None:
                self.add(new_id, step)
            else:
                self.replace(group.members[known], new_id, step)
            return
        new_id = _new_id(self.shard, self.context.client_id)
        if _wants_id(self.request, self.context):
            self.issue_id(new_id, step)
        else:
            self.add(new_id, step)

    def issue_id(self, member_id: str, step: Step) -> None:
        """Hand out an id and have the client come again with it; until then the group waits for it (KIP-394)."""
        group = self.group
        ref = self.ref(member_id)
        group.pending_joins = with_entry(group.pending_joins, member_id, ref)
        self.shard.deadlines.set(
            ("session", group.group_id, member_id), self.now.mono_ms + self.request.session_timeout_ms
        )
        step.events.append(MemberIdIssued(**group.event(self.now), state=group.state, member=ref))
        step.reply(self.ticket, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, self.context.api_version))

    def add(self, member_id: str, step: Step) -> None:
        """A new member, under an id it has just been given or was issued before."""
        group = self.group
        issued_to = group.pending_joins.get(member_id)
        member = self.new_member(member_id)
        member.is_new = True
        step.events.append(
            MemberAdded(
                **group.event(self.now),
                state=group.state,
                member=self.ref(member_id) if issued_to is None else issued_to,
                had_id=issued_to is not None,
                offer=self.offer(None),
            )
        )
        if group.state is GroupState.EMPTY:
            group.protocol_type = intern(self.request.protocol_type)
        if group.initial_delay is not None:
            group.initial_delay.has_new_member = True
        group.add_member(member)
        self.park(member_id, step)
        self.shard.deadlines.set(member.session_key, self.now.mono_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        trigger = self.trigger(Cause.MEMBER_JOINED, f"adding new member {member_id}", member)
        rebalance_or_complete_join(self.shard, group, trigger, self.now, step)

    def new_member(self, member_id: str) -> Member:
        """The member this Join describes."""
        return Member(
            member_id,
            group_id=self.group.group_id,
            group_instance_id=self.request.group_instance_id,
            client_id=self.context.client_id or "",
            client_host=self.context.client_host,
            session_timeout_ms=self.request.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
        )

    # Coming back

    def rejoin(self, member: Member, step: Step) -> None:
        """A member of the group joins again."""
        group, is_leader = self.group, member.member_id == self.group.leader_id
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                self.update(member, Cause.MEMBER_JOINED, f"member {member.member_id} joining", step)
            case GroupState.STABLE if is_leader:
                # Leaders rejoin when they have seen topics change, which their metadata need not show.
                self.update(member, Cause.LEADER_REJOINED, f"leader {member.member_id} re-joining", step)
            case GroupState.STABLE | GroupState.COMPLETING_REBALANCE:
                if member.has_protocols(self.protocols):
                    # The answer to its last Join was lost, or it only wants to hear its generation.
                    step.reply(self.ticket, join_response(group, member, self.context.api_version))
                else:
                    self.update(member, Cause.METADATA_CHANGED, f"new metadata of member {member.member_id}", step)
            case GroupState.EMPTY | GroupState.DEAD:
                self.refuse(ErrorCode.UNKNOWN_MEMBER_ID, step)

    def update(self, member: Member, cause: Cause, detail: str, step: Step) -> None:
        """Take over what the member says now and park its Join."""
        offer = self.offer(member.protocols)
        self.group.update_member(
            member,
            protocols=self.protocols,
            session_timeout_ms=self.request.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
        )
        self.park(member.member_id, step)
        trigger = self.trigger(cause, detail, member, offer)
        rebalance_or_complete_join(self.shard, self.group, trigger, self.now, step)

    def park(self, member_id: str, step: Step) -> None:
        """Park the JoinGroup. An earlier one of the same member is answered, because its client no longer waits for it."""
        since_ms = self.now.mono_ms
        group = self.group
        older = group.parked_joins.get(member_id)
        if older is not None:
            error = join_error(ErrorCode.REBALANCE_IN_PROGRESS, member_id, older.api_version)
            step.reply(older.ticket, error)
            since_ms = older.since_ms  # it has been here since then
        parked = ParkedJoin(self.ticket, self.context.api_version, since_ms)
        group.parked_joins = with_entry(group.parked_joins, member_id, parked)

    # A static member coming back without its id

    def replace(self, old: Member, new_id: str, step: Step) -> None:
        """Give the slot of a static member to its new member id; the old one is fenced."""
        group = self.group
        new = self.new_member(new_id)
        new.client_id, new.client_host = old.client_id, old.client_host  # as Kafka: the slot's first client is named
        new.assignment = old.assignment
        if group.state is GroupState.STABLE:
            ballots = [new.protocols if member is old else member.protocols for member in group.members.values()]
            if vote(ballots) == group.protocol_name:
                self.replace_without_rebalance(old, new, step)
                return
        self.swap(old, new, step)
        self.park(new_id, step)
        detail = f"static member {new_id} with instance id {new.group_instance_id} joined again"
        trigger = self.trigger(Cause.STATIC_MEMBER_REPLACED, detail, new)
        if group.state is GroupState.PREPARING_REBALANCE:
            rebalance_or_complete_join(self.shard, group, trigger, self.now, step)
        else:
            start_rebalance(self.shard, group, trigger, self.now, step)

    def swap(self, old: Member, new: Member, step: Step) -> None:
        """Put `new` where `old` is."""
        group = self.group
        parked_join = group.parked_joins.pop(old.member_id, None)
        if parked_join is not None:
            error = join_error(ErrorCode.FENCED_INSTANCE_ID, old.member_id, parked_join.api_version)
            step.reply(parked_join.ticket, error)
        parked_sync = group.parked_syncs.pop(old.member_id, None)
        if parked_sync is not None:
            step.reply(parked_sync.ticket, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        self.shard.deadlines.cancel(old.session_key)
        group.replace_member(old, new)
        # The first session of the new id is as long as the old one's was; its own timeout counts from the next restart.
        self.shard.deadlines.set(new.session_key, self.now.mono_ms + old.session_timeout_ms)
        step.events.append(
            MemberReplaced(
                **group.event(self.now),
                state=group.state,
                member=self.ref(new.member_id),
                replaced_member_id=old.member_id,
                offer=self.offer(old.protocols),
            )
        )

    def replace_without_rebalance(self, old: Member, new: Member, step: Step) -> None:
        """In Stable, when the vote stays: the record is written again with the new id; the generation goes on."""
        group = self.group
        value = group.record_with(new, in_place_of=old)

        def written(_base_offset: int, step: Step) -> None:
            self.swap(old, new, step)  # which is all that the record changes
            step.reply(self.ticket, self.replaced_response(old, new))

        def failed(error: ErrorCode, step: Step) -> None:
            # Nothing has changed: the old id stays, and is taken to be alive.
            restart_session(self.shard, old, self.now)
            group.records_of_members = None
            step.events.append(append_failed(group, error, f"the replacement of {old.member_id}", self.now))
            response = JoinGroupResponse(
                error_code=append_error(error),
                generation_id=group.generation_id,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader=group.leader_id or "",
                member_id="",
                members=(),
            )
            step.reply(self.ticket, response)

        pair = (build_group_metadata_key(group.group_id), value)
        self.shard.append(step, [pair], self.now, written=written, failed=failed)

    def replaced_response(self, old: Member, new: Member) -> JoinGroupResponse:
        """The current generation for a replaced member. It must not assign again, even if it leads (KIP-814).

        Before v9 there is no way to say so, hence the leader named is the old id and the client acts as a follower.
        """
        group = self.group
        response = join_response(group, new, self.context.api_version)
        if new.member_id != group.leader_id:
            return response
        can_skip = self.context.api_version >= _SKIP_ASSIGNMENT_SINCE
        return JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=response.generation_id,
            protocol_type=response.protocol_type,
            protocol_name=response.protocol_name,
            leader=new.member_id if can_skip else old.member_id,
            skip_assignment=can_skip,
            member_id=new.member_id,
            members=response.members if can_skip else (),
        )

    # For events

    def ref(self, member_id: str) -> MemberRef:
        """The client that sent this JoinGroup."""
        return MemberRef(
            member_id=member_id,
            group_instance_id=self.request.group_instance_id,
            client_id=self.context.client_id or "",
            client_host=self.context.client_host,
            client_reason=self.request.reason,
        )

    def offer(self, before: Mapping[str, bytes] | None) -> Offer | None:
        """What this JoinGroup offers; None if it is none of a consumer, whose metadata are subscriptions."""
        if self.request.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        return Offer(self.protocols, before, self.request.session_timeout_ms, self.rebalance_timeout_ms)

    def trigger(self, cause: Cause, detail: str, member: Member, offer: Offer | None = None) -> Trigger:
        """Why the group now does what it does."""
        reason = self.request.reason or "not provided"
        ref = member.ref(self.request.reason)
        return Trigger(cause=cause, detail=f"{detail}; client reason: {reason}", member=ref, offer=offer)
