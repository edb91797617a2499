"""Samples of a group's state and members, taken again and again: what happened between its records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from kshim.explain.facts import Member

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
"""States of a group in a rebalance."""

_LOOKS_KEPT = 20_000
_DENSE_MS = 2_500
"""What happens between two looks that are so near to each other, and is seen in neither, is known well enough."""
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


class Noticed(NamedTuple):
    """When something was seen, or is known from what is known anyway; and how much later than it happened that may be."""

    ts_ms: int
    late_ms: int


class Looks:
    """When all groups were looked at: those of which there is no sample then were in no rebalance. The newest are kept."""

    def __init__(self) -> None:
        self._times_ms: list[int] = []
        self._gaps: dict[tuple[int, int], tuple[int, int]] = {}
        """What was asked for, once for each group of a partition; there is one for each election of its leader."""

    def add(self, ts_ms: int) -> None:
        """Add one, when its samples were added: its beginning, before any of their times."""
        self._times_ms.append(ts_ms)
        if len(self._times_ms) > 2 * _LOOKS_KEPT:
            del self._times_ms[:_LOOKS_KEPT]

    def before(self, ts_ms: int) -> int | None:
        """The last one until a time; None: there was none."""
        place = bisect_right(self._times_ms, ts_ms)
        return self._times_ms[place - 1] if place else None

    def gap(self, from_ms: int, to_ms: int) -> tuple[int, int]:
        """When nobody was there to be asked: the longest time without a look between two times, or all, if each was soon followed by another."""
        asked = (from_ms, to_ms)
        if asked not in self._gaps:
            begin, end = bisect_left(self._times_ms, from_ms), bisect_right(self._times_ms, to_ms)
            gaps = pairwise((from_ms, *self._times_ms[begin:end], to_ms))
            found = max(gaps, key=lambda gap: gap[1] - gap[0])
            self._gaps[asked] = found if found[1] - found[0] > 2 * _DENSE_MS else asked
        return self._gaps[asked]


class _Members(NamedTuple):
    """Ids of those that were there, and how long before that the group was looked at last."""

    ts_ms: int
    ids: frozenset[str]
    late_ms: int


class Presence:
    """What the samples of one group show, in order of time. Bounded: what is old is forgotten."""

    def __init__(self, looks: Looks | None = None) -> None:
        self.looks = Looks() if looks is None else looks
        self.members: Mapping[str, Member] = {}
        """When it was last asked for them, by member id."""
        self.epoch: int | None = None
        """When it was last asked for it."""
        self.behind: tuple[Member, ...] = ()
        self.group_type = ""
        self.unstable_since_ms: int | None = None
        """Since when it was seen in no sample to be Stable; None: it is."""
        self._seen: deque[_Members] = deque(maxlen=_KEPT)
        """Whenever others were there than before."""
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
                looked_ms = self.looks.before(sample.ts_ms)
                late_ms = 0 if looked_ms is None else sample.ts_ms - looked_ms
                self._seen.append(_Members(sample.ts_ms, frozenset(self.members), late_ms))

    @property
    def is_rebalancing(self) -> bool:
        """Whether the group was in a rebalance when it was looked at last."""
        return self.state in REBALANCING

    def gone(self, member_id: str, after_ms: int, until_ms: int) -> Noticed | None:
        """When a member that was there at a time was there no longer, as is known of another time; None: nobody looked in between."""
        looks = (each for each in self._seen if after_ms <= each.ts_ms <= until_ms and member_id not in each.ids)
        return self._time_of(next(looks, None), after_ms, until_ms)

    def came(self, member_id: str, after_ms: int, until_ms: int) -> Noticed | None:
        """When a member that was not there at a time was there, as is known of another time; None: nobody looked in between."""
        looks = (each for each in self._seen if after_ms <= each.ts_ms <= until_ms and member_id in each.ids)
        return self._time_of(next(looks, None), after_ms, until_ms)

    def _time_of(self, found: _Members | None, after_ms: int, until_ms: int) -> Noticed | None:
        if found is not None:
            return Noticed(found.ts_ms, min(found.late_ms, found.ts_ms - after_ms))
        looked_ms = self._looked_just_before(until_ms, after_ms)
        return None if looked_ms is None else Noticed(until_ms, until_ms - looked_ms)

    def _looked_just_before(self, ts_ms: int, after_ms: int) -> int | None:
        looked_ms = self.looks.before(ts_ms)
        is_near = looked_ms is not None and looked_ms >= after_ms and ts_ms - looked_ms <= _DENSE_MS
        return looked_ms if is_near else None

    def began_ms(self, after_ms: int, until_ms: int) -> int | None:
        """When a phase JOIN began that ended at `until_ms`, if that was after another time: when it was seen, or, if it was not, at the earliest."""
        began = [ts_ms for ts_ms in self._began if after_ms <= ts_ms <= until_ms]
        return began[-1] if began else self._looked_just_before(until_ms, after_ms)
