"""Members that stay alive while the clock is moved ahead, though their clients get no time to send a heartbeat."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.streams.group import StreamsGroup
from kshim.harness.groups import group_view, shard_of

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.groups.classic.group import Group
    from kshim.coordinator.groups.classic.member import Member
    from kshim.coordinator.groups.shard import Shard
    from kshim.coordinator.step import Now


Names = tuple[str, str, str]
"""Member, client and instance id of a member."""
Timer = tuple[tuple[str, ...], int]
"""The key of a deadline, and how long it lasts (ms)."""


class KeepAlive:
    """The members that `names` name by member, client or instance id; `*` stands for any text.

    Their sessions do not expire, as if they went on sending heartbeats; and while one of them has still to rejoin, or to
    send SyncGroup, the time for that does not run out either. Raises LookupError for a name without `*` that nobody has.
    """

    def __init__(self, cluster: Cluster, names: Sequence[str]) -> None:
        self._cluster = cluster
        self._names = list(names)
        self._pattern = re.compile("|".join(".*".join(map(re.escape, name.split("*"))) for name in names), re.DOTALL)
        self._due_ms: int | None = 0 if names else None
        members = [(member_id, names) for _, member_id, names, _ in self._members()] if names else []
        for name in names:
            if "*" not in name and not any(name in known for _, known in members):
                known = ", ".join(sorted(member_id for member_id, _ in members)) or "none"
                raise LookupError(f"no group has a member {name!r} to be kept alive; the members are: {known}")

    def next_deadline(self) -> int | None:
        """When `refresh` is due, so that nobody's time runs out (monotonic ms); None: not at all."""
        return self._due_ms

    def refresh(self, now: Now) -> None:
        """All of them have just been heard of."""
        if self._names:
            self._cluster.operation("keep-alive", {"members": self._names}, lambda: self._refresh(now))

    def _refresh(self, now: Now) -> None:
        self._due_ms = None
        for shard, _, names, timers in self._members():
            if any(map(self._pattern.fullmatch, names)):
                for key, duration_ms in timers:
                    self._prolong(shard, key, now.mono_ms + duration_ms)

    def _prolong(self, shard: Shard, key: tuple[str, ...], deadline_ms: int) -> None:
        """Move a deadline later, if there is one."""
        found_ms = shard.deadlines.get(key)
        if found_ms is not None:
            deadline_ms = max(found_ms, deadline_ms)
            shard.deadlines.set(key, deadline_ms)
            before_ms = deadline_ms - 1  # and not at the same instant, where what comes first would matter
            self._due_ms = before_ms if self._due_ms is None else min(self._due_ms, before_ms)

    def _members(self) -> Iterator[tuple[Shard, str, Names, Iterator[Timer]]]:
        """Shard, id, names and timers of each member."""
        coordinator = self._cluster.groups.made
        for group_id in () if coordinator is None else coordinator.group_ids():
            shard = shard_of(self._cluster, group_id)
            if shard is None:
                continue
            group = shard.classic_groups.get(group_id)
            if group is not None:
                for member in group.members.values():
                    names = member.member_id, member.client_id, member.group_instance_id or member.member_id
                    yield shard, member.member_id, names, _timers(group, member)
                continue
            for view in group_view(self._cluster, group_id).members:
                member_id = view.member_id
                names = member_id, view.client_id, view.instance_id or member_id
                session = ("session", group_id, member_id), view.session_timeout_ms
                rebalance = ("rebalance", group_id, member_id), _rebalance_timeout_ms(shard, group_id, member_id)
                yield shard, member_id, names, iter((session, rebalance))


def _rebalance_timeout_ms(shard: Shard, group_id: str, member_id: str) -> int:
    """How long a member of a group that is not classic may take to give up what it was told to; members of share groups
    never have to."""
    match shard.groups[group_id]:
        case ConsumerGroup(members=members):
            return members[member_id].metadata.rebalance_timeout_ms
        case StreamsGroup(members=streams_members):
            return streams_members[member_id].metadata.rebalance_timeout_ms
        case _:
            return 0


def _timers(group: Group, member: Member) -> Iterator[Timer]:
    """The deadlines that must not run out for a member of a classic group, and how long each lasts."""
    yield member.session_key, member.session_timeout_ms
    if group.initial_delay is None and member.member_id not in group.parked_joins:
        yield group.join_key, group.rebalance_timeout_ms
    if member.member_id in group.pending_syncs:
        yield group.sync_key, group.rebalance_timeout_ms
