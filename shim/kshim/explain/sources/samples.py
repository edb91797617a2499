"""Samples of a group's state and members, taken again and again: what happened between its records."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from kshim.explain.facts import Member

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
"""States of a group in a rebalance."""

_KEPT = 200
"""So many changes of a group's members are kept, and so many times when a rebalance began."""


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
    since_ms: int | None = None
    """When it was looked at before; None: when there was a sample of it."""


class _Look(NamedTuple):
    """Ids of the members that were there, and how long before it the group was looked at last."""

    ts_ms: int
    ids: frozenset[str]
    late_ms: int


class Presence:
    """What the samples of one group show, in order of time. Bounded: what is old is forgotten."""

    def __init__(self) -> None:
        self.members: Mapping[str, Member] = {}
        """When it was last asked for them, by member id."""
        self.epoch: int | None = None
        """When it was last asked for it."""
        self.behind: tuple[Member, ...] = ()
        self.group_type = ""
        self.unstable_since_ms: int | None = None
        """Since when it was seen in no sample to be Stable; None: it is."""
        self._seen: deque[_Look] = deque(maxlen=_KEPT)
        """Whenever others were there than before."""
        self._looked_ms: int | None = None
        self._began: deque[int] = deque(maxlen=_KEPT)
        self.state = ""
        """The latest one; "" before the first sample."""

    def add(self, sample: Sample) -> None:
        """Take in the next sample."""
        if sample.state == "PreparingRebalance" and self.state != "PreparingRebalance":
            self._began.append(sample.ts_ms)
        self.state, self.group_type = sample.state, sample.group_type
        if sample.state == "Stable":
            self.unstable_since_ms = None
        elif self.unstable_since_ms is None:
            self.unstable_since_ms = sample.ts_ms
        self.behind = sample.behind
        if sample.epoch is not None:
            self.epoch = sample.epoch
        if sample.members is not None:
            self.members = {each.member_id: each for each in sample.members}
            if sample.state != "Dead" and (not self._seen or self._seen[-1].ids != self.members.keys()):
                looked_ms = self._looked_ms if sample.since_ms is None else sample.since_ms
                late_ms = 0 if looked_ms is None else sample.ts_ms - looked_ms
                self._seen.append(_Look(sample.ts_ms, frozenset(self.members), late_ms))
        self._looked_ms = sample.ts_ms

    @property
    def is_rebalancing(self) -> bool:
        """Whether the group was in a rebalance when it was looked at last."""
        return self.state in REBALANCING

    def gone_ms(self, member_id: str, after_ms: int, until_ms: int) -> tuple[int, int] | None:
        """When a member that was there at a time was seen to be there no longer, if that was until another time; and how late at most."""
        looks = (each for each in self._seen if after_ms <= each.ts_ms <= until_ms and member_id not in each.ids)
        found = next(looks, None)
        return None if found is None else (found.ts_ms, min(found.late_ms, found.ts_ms - after_ms))

    def came_ms(self, member_id: str, after_ms: int, until_ms: int) -> int | None:
        """When a member that was not there at a time was seen to be there, if that was until another time."""
        looks = (each.ts_ms for each in self._seen if after_ms <= each.ts_ms <= until_ms and member_id in each.ids)
        return next(looks, None)

    def began_ms(self, after_ms: int, until_ms: int) -> int | None:
        """When a phase JOIN was seen to have begun that ended at `until_ms`, if that was after another time."""
        began = [ts_ms for ts_ms in self._began if after_ms <= ts_ms <= until_ms]
        return began[-1] if began else None
