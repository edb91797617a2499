"""Members that stay alive while the clock is moved ahead, though their clients get no time to send a heartbeat."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.groups.classic.group import Group
    from kshim.coordinator.groups.classic.member import Member
    from kshim.coordinator.groups.shard import Shard
    from kshim.coordinator.step import Now


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
        members = [member for _, _, member in self._members()] if names else []
        for name in names:
            if "*" not in name and not any(name in _names_of(member) for member in members):
                known = ", ".join(sorted(member.member_id for member in members)) or "none"
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
        for shard, group, member in self._members():
            if not any(map(self._pattern.fullmatch, _names_of(member))):
                continue
            self._prolong(shard, member.session_key, now.mono_ms + member.session_timeout_ms)
            if group.initial_delay is None and member.member_id not in group.parked_joins:
                self._prolong(shard, group.join_key, now.mono_ms + group.rebalance_timeout_ms)
            if member.member_id in group.pending_syncs:
                self._prolong(shard, group.sync_key, now.mono_ms + group.rebalance_timeout_ms)

    def _prolong(self, shard: Shard, key: tuple[str, ...], deadline_ms: int) -> None:
        """Move a deadline later, if there is one."""
        found_ms = shard.deadlines.get(key)
        if found_ms is not None:
            deadline_ms = max(found_ms, deadline_ms)
            shard.deadlines.set(key, deadline_ms)
            before_ms = deadline_ms - 1  # and not at the same instant, where what comes first would matter
            self._due_ms = before_ms if self._due_ms is None else min(self._due_ms, before_ms)

    def _members(self) -> Iterator[tuple[Shard, Group, Member]]:
        coordinator = self._cluster.groups.made
        for shard, group in () if coordinator is None else coordinator.classic_groups():
            for member in group.members.values():
                yield shard, group, member


def _names_of(member: Member) -> tuple[str, str, str]:
    return member.member_id, member.client_id, member.group_instance_id or member.member_id
