"""Coordinators with one defect each, made by patching, so that the simulation can show that it fails.

This is the one place of the project where its own code is patched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from kshim.coordinator.deadlines import Deadlines
from kshim.coordinator.groups.classic import heartbeat, join_group, rebalance, sync_group
from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.classic.member import Member, ParkedJoin
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.groups.offsets import offset_commit
from kshim.coordinator.groups.offsets.offset_values import OffsetValues
from kshim.coordinator.groups.replay import Replay
from kshim.coordinator.groups.shard import Shard
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.group_metadata import GroupMetadataValue

Defect = Callable[[], AbstractContextManager[Any]]


def _timer_is_never_set(kind: str) -> Defect:
    set_ = Deadlines.set

    def set_others(self: Deadlines, key: tuple[str, ...], deadline_ms: int) -> None:
        if key[0] != kind:
            set_(self, key, deadline_ms)

    return lambda: patch.object(Deadlines, "set", set_others)


def _timer_is_never_cancelled(kind: str) -> Defect:
    cancel = Deadlines.cancel

    def cancel_others(self: Deadlines, key: tuple[str, ...]) -> None:
        if key[0] != kind:
            cancel(self, key)

    return lambda: patch.object(Deadlines, "cancel", cancel_others)


def _session_does_not_restart_after_sync() -> AbstractContextManager[Any]:
    return patch.object(sync_group, "restart_session", lambda *_: None)


def _second_reply_to_a_follower() -> AbstractContextManager[Any]:
    original = GroupCoordinator.sync_group

    def twice(self: GroupCoordinator, *arguments: Any) -> Any:
        step = original(self, *arguments)
        step.replies += step.replies[:1]
        return step

    return patch.object(GroupCoordinator, "sync_group", twice)


def _superseded_join_is_forgotten() -> AbstractContextManager[Any]:
    def park(self: Any, member_id: str, _step: Any) -> None:
        parked = ParkedJoin(self.ticket, self.context.api_version, self.now.mono_ms)
        self.group.parked_joins = {**self.group.parked_joins, member_id: parked}

    return patch.object(join_group._Join, "park", park)


def _fenced_sync_is_forgotten() -> AbstractContextManager[Any]:
    swap = join_group._Join.swap

    def without_sync(self: Any, old: Member, new: Member, step: Any) -> None:
        self.group.parked_syncs.pop(old.member_id, None)
        swap(self, old, new, step)

    return patch.object(join_group._Join, "swap", without_sync)


def _commit_is_not_kept_in_memory() -> AbstractContextManager[Any]:
    return patch.object(OffsetValues, "apply", lambda *_: None)


def _commit_that_failed_is_acknowledged() -> AbstractContextManager[Any]:
    return patch.object(offset_commit, "append_error", lambda _error: ErrorCode.NONE)


def _commit_counts_before_it_is_written() -> AbstractContextManager[Any]:
    add = OffsetValues.add

    def add_and_apply(self: Any, *topic: Any) -> None:
        add(self, *topic)
        self.apply(0, self._shard.put_offsets)

    return patch.object(OffsetValues, "add", add_and_apply)


def _old_leader_stays() -> AbstractContextManager[Any]:
    remove = Group.remove_member

    def remove_but_lead(self: Group, member: Member) -> None:
        leader_id = self.leader_id
        remove(self, member)
        self.leader_id = leader_id

    return patch.object(Group, "remove_member", remove_but_lead)


def _absent_leader_is_kept() -> AbstractContextManager[Any]:
    return patch.object(rebalance, "_has_joined_leader", lambda group, *_: bool(group.parked_joins))


def _replay_forgets_instance_ids() -> AbstractContextManager[Any]:
    member_from = Group._member_from

    def without_instance(self: Group, *arguments: Any) -> Member:
        member = member_from(self, *arguments)
        member.group_instance_id = None
        return member

    return patch.object(Group, "_member_from", without_instance)


def _replay_ignores_tombstones() -> AbstractContextManager[Any]:
    return patch.object(Replay, "_forget", lambda self, key, offset: None)


@contextmanager
def _generation_starts_again() -> Iterator[None]:
    def from_zero(**fields: Any) -> Any:
        return GroupMetadataValue(**{**fields, "generation": 0})

    with patch.object(rebalance, "GroupMetadataValue", from_zero):
        yield


def _rejoin_does_not_count_protocols() -> AbstractContextManager[Any]:
    def update(self: Group, member: Member, *, protocols: Any, **_timeouts: int) -> None:
        member.protocols = dict(protocols)

    return patch.object(Group, "update_member", update)


def _vote_ignores_who_supports_what() -> AbstractContextManager[Any]:
    return patch.object(rebalance, "vote", lambda ballots: next(iter(next(iter(ballots)))))


def _heartbeat_never_asks_to_rejoin() -> AbstractContextManager[Any]:
    return patch.object(heartbeat, "_REBALANCE_IN_PROGRESS", heartbeat._NONE)


def _everybody_gets_the_first_assignment() -> AbstractContextManager[Any]:
    original = sync_group._response

    def response(group: Group, _member: Member) -> Any:
        return original(group, next(iter(group.members.values())))

    return patch.object(sync_group, "_response", response)


def _retention_takes_what_is_read() -> AbstractContextManager[Any]:
    return patch.object(Group, "is_subscribed_to", lambda *_: False)


def _silent_members_are_kept() -> AbstractContextManager[Any]:
    def expired(shard: Shard, group: Group, member_id: str, now: Any, _step: Any) -> None:
        if member_id in group.members:
            rebalance.restart_session(shard, group.members[member_id], now)

    return patch.object(rebalance, "session_expired", expired)


def _rebalance_is_not_started_by_a_leave() -> AbstractContextManager[Any]:
    original = rebalance.rebalance_or_complete_join

    def only_for_joins(shard: Shard, group: Group, *arguments: Any) -> None:
        if group.state is not GroupState.STABLE or group.parked_joins:
            original(shard, group, *arguments)

    return patch("kshim.coordinator.groups.classic.leave_group.rebalance_or_complete_join", only_for_joins)


def _static_slot_is_not_moved() -> AbstractContextManager[Any]:
    replace = Group.replace_member

    def without_slot(self: Group, old: Member, new: Member) -> None:
        replace(self, old, new)
        assert old.group_instance_id is not None
        self.static_members[old.group_instance_id] = old.member_id

    return patch.object(Group, "replace_member", without_slot)


DEFECTS: dict[str, Defect] = {
    "a join timer is never set": _timer_is_never_set("join"),
    "a sync timer is never set": _timer_is_never_set("sync"),
    "a session timer is never set": _timer_is_never_set("session"),
    "the expiry check is never set": _timer_is_never_set("expiry"),
    "a sync timer is never cancelled": _timer_is_never_cancelled("sync"),
    "a session timer is never cancelled": _timer_is_never_cancelled("session"),
    "a session does not restart after Sync": _session_does_not_restart_after_sync,
    "a silent member is kept": _silent_members_are_kept,
    "a second reply to a follower": _second_reply_to_a_follower,
    "a superseded Join is forgotten": _superseded_join_is_forgotten,
    "a fenced Sync is forgotten": _fenced_sync_is_forgotten,
    "a commit is not kept in memory": _commit_is_not_kept_in_memory,
    "a commit that failed is acknowledged": _commit_that_failed_is_acknowledged,
    "a commit counts before it is written": _commit_counts_before_it_is_written,
    "a leader that left leads on": _old_leader_stays,
    "a leader that did not come back leads on": _absent_leader_is_kept,
    "replay forgets instance ids": _replay_forgets_instance_ids,
    "replay ignores tombstones": _replay_ignores_tombstones,
    "generations start again when a group is empty": _generation_starts_again,
    "a rejoin does not count protocols": _rejoin_does_not_count_protocols,
    "the vote ignores who supports what": _vote_ignores_who_supports_what,
    "a heartbeat never asks to rejoin": _heartbeat_never_asks_to_rejoin,
    "everybody gets the first assignment": _everybody_gets_the_first_assignment,
    "retention takes what is read": _retention_takes_what_is_read,
    "a leave starts no rebalance": _rebalance_is_not_started_by_a_leave,
    "a static slot is not moved": _static_slot_is_not_moved,
}
"""Name -> a context in which every coordinator has that defect."""
