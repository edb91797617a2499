"""Samples of a group's state and members, taken again and again: what happened between its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kshim.explain.facts import Member

_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


class Sample(NamedTuple):
    """What a coordinator said of a group at a time. `members` None: it was asked for the state alone."""

    ts_ms: int
    group: str
    state: str
    members: tuple[Member, ...] | None
    group_type: str = "classic"
    epoch: int | None = None
    """Of a group of the new protocol, where it was asked for."""
    behind: tuple[Member, ...] = ()
    """Its members that a rebalance waits for."""


class Presence:
    """What the samples of one group show, in order of time. Bounded: what is old is forgotten."""

    _KEPT = 1_000

    def __init__(self) -> None:
        self.members: Mapping[str, Member] = {}
        """When it was last asked for them, by member id."""
        self.epoch: int | None = None
        """When it was last asked for it."""
        self.behind: tuple[Member, ...] = ()
        self.group_type = ""
        self.unstable_since_ms: int | None = None
        """Since when it was seen in no sample to be Stable; None: it is."""
        self._gone: dict[str, int] = {}
        self._began: list[int] = []
        self.state = ""
        """The latest one; "" before the first sample."""

    def add(self, sample: Sample) -> None:
        """Take in the next sample."""
        if sample.state == "PreparingRebalance" and self.state != "PreparingRebalance":
            self._began = [*self._began[-self._KEPT :], sample.ts_ms]
        self.state, self.group_type = sample.state, sample.group_type
        if sample.state == "Stable":
            self.unstable_since_ms = None
        elif self.unstable_since_ms is None:
            self.unstable_since_ms = sample.ts_ms
        self.behind = sample.behind
        if sample.epoch is not None:
            self.epoch = sample.epoch
        if sample.members is not None:
            members = {each.member_id: each for each in sample.members}
            for member_id in self.members.keys() - members.keys():
                self._gone[member_id] = sample.ts_ms
            while len(self._gone) > self._KEPT:
                del self._gone[next(iter(self._gone))]
            self.members = members

    @property
    def is_rebalancing(self) -> bool:
        """Whether the group was in a rebalance when it was looked at last."""
        return self.state in _REBALANCING

    def gone_ms(self, member_id: str, after_ms: int, until_ms: int) -> int | None:
        """When a member was seen to be no longer there, if that was between two times."""
        found = self._gone.get(member_id)
        return found if found is not None and after_ms <= found <= until_ms else None

    def join_ms(self, after_ms: int, until_ms: int) -> int | None:
        """For how long at least the JOIN phase lasted that ended at `until_ms`, as far as it was seen."""
        began = [ts_ms for ts_ms in self._began if after_ms <= ts_ms <= until_ms]
        return until_ms - began[-1] if began else None
