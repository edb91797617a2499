"""What must hold of every group after every step, read from the coordinator's own state."""

from __future__ import annotations

from collections.abc import Collection

from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, Ticket
from tests.simulation.violation import Violation

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


def check_group(shard: Shard, group: Group, waiting: Collection[Ticket], now: Now) -> None:
    """Members, leader, counts, parked requests and timers fit together. `waiting`: calls that are owed an answer."""
    _check_members(group)
    _check_parked(group, waiting)
    _check_state(group)
    _check_timers(shard, group, now)


def _fail(rule: str, group: Group, text: object) -> None:
    raise Violation(rule, f"{group.group_id} ({group.state}, generation {group.generation_id}): {text}")


def _check_members(group: Group) -> None:
    members = group.members
    if members:
        if group.leader_id not in members:
            _fail("leader-no-member", group, f"{group.leader_id} leads {list(members)}")
    elif group.leader_id is not None:
        _fail("leader-no-member", group, f"{group.leader_id} leads nobody")
    supporters: dict[str, int] = {}
    instances: dict[str, str] = {}
    for member_id, member in members.items():
        if member.member_id != member_id:
            _fail("members-inconsistent", group, f"{member.member_id} stands as {member_id}")
        if member.group_instance_id is not None:
            instances[member.group_instance_id] = member_id
        for name in member.protocols:
            supporters[name] = supporters.get(name, 0) + 1
    if supporters != group.supporters:
        _fail("supporters-wrong", group, f"{group.supporters}, counted {supporters}")
    if instances != group.static_members:
        _fail("static-members-wrong", group, f"{group.static_members}, counted {instances}")
    if not members.keys().isdisjoint(group.pending_joins):
        _fail("members-inconsistent", group, f"pending and member: {list(group.pending_joins)}")
    if not group.pending_syncs <= members.keys():
        _fail("members-inconsistent", group, f"pending syncs {group.pending_syncs} of {list(members)}")


def _check_parked(group: Group, waiting: Collection[Ticket]) -> None:
    joins, syncs = group.parked_joins, group.parked_syncs
    if not joins.keys() <= group.members.keys() or not syncs.keys() <= group.members.keys():
        _fail("parked-no-member", group, f"{list(joins)} and {list(syncs)} parked, members {list(group.members)}")
    tickets = [join.ticket for join in joins.values()] + [sync.ticket for sync in syncs.values()]
    for ticket in tickets:
        if ticket not in waiting:
            _fail("parked-twice", group, "a parked request is not waiting for an answer")
    if len(tickets) != len(waiting):
        _fail("ticket-forgotten", group, f"{len(waiting)} requests wait, {len(tickets)} are parked")


def _check_state(group: Group) -> None:
    match group.state:
        case GroupState.EMPTY:
            is_fine = not group.members and not group.parked_joins and not group.pending_syncs
        case GroupState.PREPARING_REBALANCE:
            is_fine = not group.parked_syncs and not group.pending_syncs
        case GroupState.COMPLETING_REBALANCE:
            is_fine = bool(group.members) and not group.parked_joins and group.leader_id not in group.parked_syncs
        case GroupState.STABLE:
            is_fine = bool(group.members) and not group.parked_joins and not group.parked_syncs
        case GroupState.DEAD:
            is_fine = False
    if not is_fine:
        _fail("state-inconsistent", group, f"members {list(group.members)}, joins {list(group.parked_joins)}")
    has_protocol = group.state is GroupState.COMPLETING_REBALANCE or group.state is GroupState.STABLE
    if has_protocol and group.supporters.get(group.protocol_name or "") != len(group.members):
        _fail("protocol-unsupported", group, f"{group.protocol_name} of {group.supporters}")


def _check_timers(shard: Shard, group: Group, now: Now) -> None:
    get = shard.deadlines.get
    now_ms = now.mono_ms
    group_id = group.group_id
    for member_id, member in group.members.items():
        deadline_ms = get(member.session_key)
        is_parked = member_id in group.parked_joins or member_id in group.parked_syncs
        if deadline_ms is None:
            if not is_parked or member.is_new:
                _fail("timer-forgotten", group, f"no session timer for {member_id}")
        elif deadline_ms > now_ms + max(member.session_timeout_ms, NEW_MEMBER_JOIN_TIMEOUT_MS):
            _fail("timer-wrong", group, f"session of {member_id} ends at {deadline_ms}, it is {now_ms}")
    for member_id in group.pending_joins:
        if get(("session", group_id, member_id)) is None:
            _fail("timer-forgotten", group, f"no session timer for the issued id {member_id}")
    is_preparing = group.state is GroupState.PREPARING_REBALANCE
    join_ms = get(group.join_key)
    if (join_ms is not None) != is_preparing:
        _fail("timer-forgotten" if is_preparing else "timer-left", group, f"join timer at {join_ms}")
    has_stragglers = bool(group.pending_syncs)
    sync_ms = get(group.sync_key)
    if (sync_ms is not None) != has_stragglers:
        _fail("timer-forgotten" if has_stragglers else "timer-left", group, f"sync timer at {sync_ms}")


def deadline_count(shard: Shard) -> int:
    """How many deadlines the groups of a shard have: sessions, join and sync timers."""
    count = 0
    for group in shard.classic_groups.values():
        count += len(group.pending_joins)
        count += sum(shard.deadlines.get(member.session_key) is not None for member in group.members.values())
        count += shard.deadlines.get(group.join_key) is not None
        count += shard.deadlines.get(group.sync_key) is not None
    return count
