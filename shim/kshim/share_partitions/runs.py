"""The states of the records in flight of one share partition, as runs of records that are alike."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from typing import Final


class RecordState(IntEnum):
    """What has become of a record; numbers as in the log. Acquired is in memory only."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether the record is delivered to nobody any more."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


NOBODY: Final = ""


class Run:
    """Records from `first` to `last`, both included, that are alike.

    `delivery_count`: how often they were acquired. `member_id` and `deadline_ms` (monotonic) are of those that are acquired.
    `is_in_transition`: what became of them is being written, and nothing else may happen to them. `batch_first` and
    `batch_size`: the first offset and the number of the records that were acquired together when these were first;
    `is_split`: these were once looked at one by one.
    """

    __slots__ = (
        "batch_first",
        "batch_size",
        "deadline_ms",
        "delivery_count",
        "first",
        "is_in_transition",
        "is_split",
        "last",
        "member_id",
        "state",
    )

    def __init__(self, first: int, last: int, state: RecordState, delivery_count: int) -> None:
        self.batch_first = first
        self.batch_size = last - first + 1
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = NOBODY
        self.deadline_ms = 0
        self.is_in_transition = False
        self.is_split = False

    @property
    def size(self) -> int:
        """How many records they are."""
        return self.last - self.first + 1

    @property
    def is_whole(self) -> bool:
        """Whether they are all that were acquired together, and have been treated alike since."""
        return self.size == self.batch_size and not self.is_split

    @property
    def is_acquirable(self) -> bool:
        """Whether they can be delivered now."""
        return self.state is RecordState.AVAILABLE and not self.is_in_transition

    def cut(self, last: int) -> Run:
        """Keep the records up to `last`, and return those behind."""
        rest = Run(last + 1, self.last, self.state, self.delivery_count)
        rest.batch_first, rest.batch_size, rest.is_split = self.batch_first, self.batch_size, self.is_split
        rest.member_id, rest.deadline_ms, rest.is_in_transition = (
            self.member_id,
            self.deadline_ms,
            self.is_in_transition,
        )
        self.last = last
        return rest

    def __repr__(self) -> str:
        return f"<{self.first}-{self.last} {self.state.name} x{self.delivery_count} {self.member_id}>"


class Runs:
    """All runs of a share partition, in order and without a gap between them."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def append(self, run: Run) -> None:
        """One more at the end."""
        assert not self._runs or self._runs[-1].last + 1 == run.first, (self._runs[-1], run)
        self._runs.append(run)

    def between(self, first: int, last: int) -> list[Run]:
        """Runs that hold exactly the records from `first` to `last`, as far as these are in flight: runs are cut for it."""
        if not self._runs or last < self._runs[0].first or first > self._runs[-1].last:
            return []
        begin = self._cut_before(max(first, self._runs[0].first))
        end = self._cut_before(min(last, self._runs[-1].last) + 1)
        return self._runs[begin:end]

    def overlapping(self, first: int, last: int) -> list[Run]:
        """Runs with one of these records, whole."""
        return [run for run in self._runs[self._place(first) :] if run.first <= last and run.last >= first]

    def forget_before(self, offset: int) -> None:
        """Records before `offset` are not in flight any more."""
        del self._runs[: self._cut_before(offset)]

    def _place(self, offset: int) -> int:
        """Of the run that holds `offset`, or 0."""
        return max(0, bisect_right(self._runs, offset, key=lambda run: run.first) - 1)

    def _cut_before(self, offset: int) -> int:
        """The place of the run that begins with `offset`, which is made if need be; the number of runs behind the last."""
        if not self._runs or offset <= self._runs[0].first:
            return 0
        if offset > self._runs[-1].last:
            return len(self._runs)
        place = self._place(offset)
        run = self._runs[place]
        if run.first == offset:
            return place
        self._runs.insert(place + 1, run.cut(offset - 1))
        return place + 1
