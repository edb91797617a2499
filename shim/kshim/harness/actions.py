"""What a test does to a group that its clients did not ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.classic.rebalance import session_expired, start_rebalance
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer import removal
from kshim.coordinator.groups.consumer.append_plan import append_plan
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.consumer.plan import Plan
from kshim.coordinator.groups.consumer.state import ConsumerGroupState
from kshim.coordinator.groups.consumer.timers import restart_session
from kshim.coordinator.groups.events import Cause, Trigger
from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.groups.share.share_group_heartbeat import share_session_expired
from kshim.coordinator.groups.streams.group import StreamsGroup
from kshim.coordinator.groups.streams.streams_group_heartbeat import remove_expired
from kshim.coordinator.step import Now, RequestContext, Step
from kshim.harness.answer import Answer
from kshim.harness.groups import MemberView, group_view, shard_of
from kshim.history.keywords import ADMIN_LEAVE_REASON
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.groups.shard import Shard

_HOST = "/127.0.0.1"


def trigger_rebalance(cluster: Cluster, group_id: str, reason: str, now: Now) -> None:
    """Begin a rebalance, as though a member had changed; nothing, while one has begun and waits for members.

    Raises LookupError when the group has no members.
    """
    arguments = {"group": group_id, "reason": reason}
    cluster.operation("trigger-rebalance", arguments, lambda: _trigger_rebalance(cluster, group_id, reason, now))


def _trigger_rebalance(cluster: Cluster, group_id: str, reason: str, now: Now) -> None:
    shard, group = _group(cluster, group_id)
    if not group.member_count:
        raise LookupError(f"group {group_id} has no members that could rebalance (it is {group.state.value})")
    if group.state in (GroupState.PREPARING_REBALANCE, ConsumerGroupState.ASSIGNING):
        return
    step = cluster.groups.coordinator.begin()
    step.works_on(shard.partition)
    trigger = Trigger(cause=Cause.ADMIN, detail=reason)
    if isinstance(group, ConsumerGroup):
        plan = Plan(group, shard.hash_of_topics)
        plan.raise_epoch(trigger)
        _append(shard, plan, now, step)
    else:
        start_rebalance(shard, group, trigger, now, step)
    cluster.apply(step)


def _append(
    shard: Shard, plan: Plan, now: Now, step: Step, written: Callable[[Step], None] = lambda step: None
) -> None:
    """What cannot be written has not happened; the log of the broker says so."""
    append_plan(shard, plan, now, step, written=written, failed=lambda error, step: None)


def expel(cluster: Cluster, group_id: str, member: str, now: Now, reason: str = "expelled by the test") -> str:
    """Remove a member as an administrator does, and return its id: its next request is answered UNKNOWN_MEMBER_ID.

    `member` is its member, instance or client id. Raises LookupError when there is none, or are several.
    """
    arguments = {"group": group_id, "member": member, "reason": reason}
    return str(cluster.operation("expel", arguments, lambda: _expel(cluster, group_id, member, now, reason)))


def _expel(cluster: Cluster, group_id: str, member: str, now: Now, reason: str) -> str:
    _group(cluster, group_id)
    found = _member(cluster, group_id, member)
    identity = MemberIdentity(member_id=found.member_id, reason=f"{ADMIN_LEAVE_REASON}: {reason}")
    request = LeaveGroupRequest(group_id=group_id, members=(identity,))
    context = RequestContext(5, "kshim", _HOST, now)
    cluster.apply(cluster.groups.coordinator.leave_group(request, context, Answer()))
    return found.member_id


def expire(cluster: Cluster, group_id: str, member: str, now: Now) -> str:
    """End the session of a member as if no heartbeat had come for its session timeout, and return its id.

    Nobody else's time passes. `member` is its member, instance or client id. Raises LookupError when there is none, or are several;
    RuntimeError for one that waits in JoinGroup or SyncGroup, which counts as alive.
    """
    arguments = {"group": group_id, "member": member}
    return str(cluster.operation("expire", arguments, lambda: _expire(cluster, group_id, member, now)))


def _expire(cluster: Cluster, group_id: str, member: str, now: Now) -> str:
    shard, group = _group_of_any_kind(cluster, group_id)
    member_id = _member(cluster, group_id, member).member_id
    step = cluster.groups.coordinator.begin()
    step.works_on(shard.partition)
    if isinstance(group, ShareGroup):
        share_session_expired(shard, group, member_id, now, step)
    elif isinstance(group, StreamsGroup):
        remove_expired(shard, group, member_id, "session", now, step)
    elif isinstance(group, ConsumerGroup):
        removal.session_expired(shard, group, member_id, now, step)
    elif not group.members[member_id].is_new and (member_id in group.parked_joins or member_id in group.parked_syncs):
        raise RuntimeError(
            f"member {member_id} waits for the answer to its JoinGroup or SyncGroup, so that its session cannot expire: "
            f"wait until group {group_id} is stable"
        )
    else:
        session_expired(shard, group, member_id, now, step)
    cluster.apply(step)
    return member_id


def fence(cluster: Cluster, group_id: str, instance_id: str, now: Now) -> str:
    """Give the place of a static member to another with the same group.instance.id, and return that one's member id.

    The next request of the present one is answered FENCED_INSTANCE_ID. The other is nobody: it sends no heartbeat, so that its
    session expires unless a client with the instance id joins. Raises LookupError when there is no such member.
    """
    arguments = {"group": group_id, "instance": instance_id}
    return str(cluster.operation("fence", arguments, lambda: _fence(cluster, group_id, instance_id, now)))


def _fence(cluster: Cluster, group_id: str, instance_id: str, now: Now) -> str:
    shard, group = _group(cluster, group_id)
    member_id = group.static_members.get(instance_id)
    if member_id is None:
        known = ", ".join(sorted(group.static_members)) or "none"
        raise LookupError(f"group {group_id} has no member with the group.instance.id {instance_id} (it has: {known})")
    if isinstance(group, ConsumerGroup):
        return _fence_with_epoch(cluster, shard, group, member_id, now)
    member = group.members[member_id]
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        member_id="",
        group_instance_id=instance_id,
        protocol_type=group.protocol_type or "",
        protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=data) for name, data in member.protocols.items()),
        reason="fenced by the test",
    )
    context = RequestContext(9, member.client_id, member.client_host, now)
    cluster.apply(cluster.groups.coordinator.join_group(request, context, Answer()))
    return group.static_members[instance_id]


def _fence_with_epoch(cluster: Cluster, shard: Shard, group: ConsumerGroup, member_id: str, now: Now) -> str:
    """In the new protocol nobody takes over from a member that has not left; so this one leaves for now, unasked."""
    new_id = shard.new_short_id()
    ref = group.members[member_id].ref()
    occasion = Trigger(cause=Cause.STATIC_MEMBER_REPLACED, detail="fenced by the test", member=ref)
    plan = Plan(group, shard.hash_of_topics)
    plan.leave_for_now(member_id, occasion)
    plan.take_over(member_id, new_id, occasion)
    plan.reconcile(new_id, (), shard.topics)
    step = cluster.groups.coordinator.begin()
    step.works_on(shard.partition)
    _append(shard, plan, now, step, lambda step: restart_session(shard, group.group_id, new_id, now))
    cluster.apply(step)
    return new_id


def _group_of_any_kind(
    cluster: Cluster, group_id: str
) -> tuple[Shard, Group | ConsumerGroup | ShareGroup | StreamsGroup]:
    """Raises LookupError."""
    shard = shard_of(cluster, group_id)
    if shard is not None:
        group = shard.groups.get(group_id)
        if isinstance(group, ShareGroup | StreamsGroup):
            return shard, group
    return _group(cluster, group_id)


def _group(cluster: Cluster, group_id: str) -> tuple[Shard, Group | ConsumerGroup]:
    """Raises LookupError."""
    shard = shard_of(cluster, group_id)
    if shard is None or group_id not in shard.groups:
        raise LookupError(f"there is no group {group_id}")
    group = shard.groups[group_id]
    if isinstance(group, Group | ConsumerGroup):
        return shard, group
    raise LookupError(f"group {group_id} is a {group.kind.value} group, with which this cannot be done")


def _member(cluster: Cluster, group_id: str, name: str) -> MemberView:
    """Raises LookupError."""
    members = group_view(cluster, group_id).members
    found = [each for each in members if each.member_id == name]
    found = found or [each for each in members if name in (each.instance_id, each.client_id)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(each.member_id for each in found)
        raise LookupError(
            f"group {group_id} has {len(found)} members with the client id {name!r}: give the member id of one ({ids})"
        )
    known = ", ".join(each.instance_id or each.member_id for each in members) or "none"
    raise LookupError(
        f"group {group_id} has no member {name!r}: give a member id, group.instance.id or client id; its members "
        f"are: {known}"
    )
