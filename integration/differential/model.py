"""What a sequence knows of its groups, in names that hold for both brokers.

Member ids are symbols such as `<M3>`, numbered in the order in which they were given out. Everything here was answered
alike by both brokers, so it is a memory of answers and not a second coordinator.
"""

from __future__ import annotations

import time
from typing import Any

from kshim_protocol.messages.join_group import JoinGroupRequest

LONG_MS = 10_000
"""Timeouts from here on end after the sequence."""

_MIN_SESSION_MS = 100  # group.min.session.timeout.ms: a Join with less is refused


class Slot:
    """A place for a member: a client that remembers what it was told.

    `status` guides the generation of sensible steps: new, pending (was given an id), joined (must sync), synced,
    rejoin (was told to). `waiting` counts its requests that are parked. Of the new protocol: `runs` counts the processes that
    were started in it, `owned` are the partitions that it was told to own, by topic, and the epoch stands for the generation.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.member = ""
        self.previous: list[str] = []
        self.instance: str | None = None
        self.generation = -1
        self.is_leader = False
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members: list[str] = []
        self.status = "new"
        self.waiting = 0
        self.join: dict[str, Any] | None = None
        self.runs = 0
        self.owned: list[list[Any]] = []

    def has_new_id(self, member: str) -> None:
        """The broker named the slot's member."""
        if member and member != self.member:
            if self.member:
                self.previous.append(self.member)
            self.member = member

    def forget(self) -> None:
        """The id is no good any more."""
        if self.member:
            self.previous.append(self.member)
        self.member = ""
        self.generation = -1
        self.is_leader = False
        self.status = "new"


class Timers:
    """When timers of a group may fire: those shorter than the sequence lasts.

    Which of the answered requests restarted which timer is not known here. So all of them may fire between
    `first + shortest` and `last + longest`, and in between nothing but waiting is done.
    """

    def __init__(self) -> None:
        self.sessions_ms: set[int] = set()
        self.rebalances_ms: set[int] = set()
        self.hidden = 0
        self.first = 0.0
        self.last = 0.0

    def may_start(self, join: JoinGroupRequest, version: int) -> None:
        """This Join is about to be sent."""
        session_ms = join.session_timeout_ms
        rebalance_ms = join.rebalance_timeout_ms if version >= 1 else session_ms
        if _MIN_SESSION_MS <= session_ms < LONG_MS:
            self.sessions_ms.add(session_ms)
        if rebalance_ms < LONG_MS:
            self.rebalances_ms.add(max(rebalance_ms, 0))
        if self.sessions_ms or self.rebalances_ms:
            self.first = self.first or time.monotonic()

    @property
    def run(self) -> bool:
        """Whether any timer may fire."""
        return self.first > 0

    def touched(self, started: float) -> None:
        """A request that was sent at `started` has been handled by now: it may have restarted every timer."""
        if not self.sessions_ms and not self.rebalances_ms:
            return
        self.first = self.first or started
        self.last = time.monotonic()

    @property
    def quiet_until(self) -> float:
        """Before this no timer fires."""
        return self.first + min(self.sessions_ms | self.rebalances_ms) / 1000

    @property
    def over_at(self) -> float:
        """By then every timer has fired, also those that others start without anybody being told."""
        session_ms = max(self.sessions_ms, default=0)
        rebalance_ms = max(self.rebalances_ms, default=0)
        chain_ms = session_ms + rebalance_ms + self.hidden * max(session_ms, rebalance_ms)
        if self.rebalances_ms:
            chain_ms += rebalance_ms
        return self.last + chain_ms / 1000

    def have_fired(self, *, somebody_waits: bool) -> None:
        """Nothing runs any more. Who waits for an answer lives on, and is timed again once answered."""
        self.first = self.last = 0.0
        if not somebody_waits and not self.hidden:
            self.sessions_ms.clear()
            self.rebalances_ms.clear()


class GroupModel:
    """One group of the sequence.

    `incarnation` counts the fresh groups that took this one's place; `has_choice`: an assignor may choose between equals. `leader` is the last leader that was named,
    `protocols` what each member offered last, `state` what the last DescribeGroups said, `issued` ids
    that were given out with MEMBER_ID_REQUIRED and not used since.
    """

    def __init__(self, name: str, incarnation: int = 0) -> None:
        self.name = name
        self.incarnation = incarnation
        self.slots: dict[str, Slot] = {}
        self.leader: str | None = None
        self.protocols: dict[str, list[str]] = {}
        self.timers = Timers()
        self.state = ""
        self.issued: set[str] = set()
        self.has_choice = False

    def slot(self, name: str) -> Slot:
        """The slot of that name."""
        found = self.slots.get(name)
        if found is None:
            found = self.slots[name] = Slot(name)
        return found

    def slot_of(self, member: str) -> str | None:
        """The slot that holds a member id."""
        return next((slot.name for slot in self.slots.values() if slot.member == member), None)


class Model:
    """All groups of one sequence. `prefix` makes their ids fresh."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.groups: dict[str, GroupModel] = {}

    def group(self, name: str) -> GroupModel:
        """The group of that name."""
        found = self.groups.get(name)
        if found is None:
            found = self.groups[name] = GroupModel(name)
        return found

    def group_id(self, name: str) -> str:
        """The id on both brokers. Names that are no group of the sequence are ids themselves (\"\")."""
        if not name.startswith("g"):
            return name
        return f"{self.prefix}.{name}.{self.group(name).incarnation}"

    def replace(self, name: str) -> None:
        """Go on with a fresh group under this name."""
        self.groups[name] = GroupModel(name, self.group(name).incarnation + 1)

    def member(self, group: GroupModel, slot: Slot, reference: str) -> str:
        """What `@`, `@'`, `@b`, `@b'` or a literal id stands for; "" for a member there is not."""
        if not reference.startswith("@"):
            return reference
        name = reference[1:].rstrip("'")
        owner = group.slot(name) if name else slot
        if reference.endswith("'"):
            return owner.previous[-1] if owner.previous else "nobody"
        return owner.member

    def is_active(self, group_id: str) -> bool:
        """Whether a group id belongs to the sequence and not to a group it has left behind."""
        return any(self.group_id(name) == group_id for name in self.groups)
