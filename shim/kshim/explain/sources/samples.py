"""Samples of a group's state and members, taken again and again: what happened between its records."""

from __future__ import annotations

from typing import NamedTuple

_REBALANCING = ("PreparingRebalance", "CompletingRebalance")


class Sample(NamedTuple):
    """What a coordinator said of a group at a time. `members` None: it was asked for the state alone."""

    ts_ms: int
    group: str
    state: str
    members: frozenset[str] | None


class Presence:
    """What the samples of one group show, in order of time. Bounded: what is old is forgotten."""

    _KEPT = 1_000

    def __init__(self) -> None:
        self._members: frozenset[str] = frozenset()
        self._gone: dict[str, int] = {}
        self._began: list[int] = []
        self.state = ""
        """The latest one; "" before the first sample."""

    def add(self, sample: Sample) -> None:
        """Take in the next sample."""
        if sample.state == "PreparingRebalance" and self.state != "PreparingRebalance":
            self._began = [*self._began[-self._KEPT :], sample.ts_ms]
        self.state = sample.state
        if sample.members is not None:
            for member_id in self._members - sample.members:
                self._gone[member_id] = sample.ts_ms
            while len(self._gone) > self._KEPT:
                del self._gone[next(iter(self._gone))]
            self._members = sample.members

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
