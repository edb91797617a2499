"""The records of a share partition that are in flight: batches that were acquired together, and states within them.

Source: Kafka's InFlightBatch and InFlightState.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from operator import attrgetter
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
_FIRST: Final = attrgetter("first")


class Run:
    """Records from `first` to `last`, both included, that are alike.

    `delivery_count`: how often they were acquired. `member_id`, and `since_ms` and `deadline_ms` (monotonic), are of those that
    are acquired.
    `before`: state and member that hold again if the change of state cannot be written, which is on its way; or None.
    """

    __slots__ = ("before", "deadline_ms", "delivery_count", "first", "last", "member_id", "since_ms", "state")

    def __init__(self, first: int, last: int, state: RecordState, delivery_count: int) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = NOBODY
        self.since_ms = 0
        self.deadline_ms = 0
        self.before: tuple[RecordState, str] | None = None

    @property
    def size(self) -> int:
        """How many records they are."""
        return self.last - self.first + 1

    @property
    def is_in_transition(self) -> bool:
        """Whether what became of them is being written."""
        return self.before is not None

    @property
    def is_acquirable(self) -> bool:
        """Whether they can be delivered now."""
        return self.state is RecordState.AVAILABLE and self.before is None

    @property
    def is_done(self) -> bool:
        """Whether they are done with, and that is written."""
        return self.state.is_final and self.before is None

    def acquire(self, member_id: str, now_ms: int, deadline_ms: int) -> None:
        """They are a member's now, until `deadline_ms`."""
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.since_ms = now_ms
        self.deadline_ms = deadline_ms

    def change(self, state: RecordState) -> None:
        """They are in another state, and nobody's."""
        self.state = state
        self.member_id = NOBODY

    def begin_change(self, state: RecordState) -> None:
        """The same, as soon as it is written: until then nobody may acquire them."""
        self.before = self.state, self.member_id
        self.change(state)

    def take_back(self) -> None:
        """It could not be written."""
        assert self.before is not None, self
        self.state, self.member_id = self.before
        self.before = None

    def archive(self) -> None:
        """They are delivered to nobody any more, whatever is written of them."""
        self.change(RecordState.ARCHIVED)
        if self.before is not None:
            self.before = RecordState.ARCHIVED, NOBODY

    def cut(self, last: int) -> Run:
        """Keep the records up to `last`, and return those behind."""
        rest = Run(last + 1, self.last, self.state, self.delivery_count)
        rest.member_id, rest.before = self.member_id, self.before
        rest.since_ms, rest.deadline_ms = self.since_ms, self.deadline_ms
        self.last = last
        return rest

    def __repr__(self) -> str:
        return f"<{self.first}-{self.last} {self.state.name} x{self.delivery_count} {self.member_id}>"


class InFlightBatch:
    """Records from `first` to `last`, both included, that were acquired together when they were first.

    `is_by_record`: they were once looked at one by one, and are from then on; until then all are alike, in one run.
    """

    __slots__ = ("first", "is_by_record", "last", "runs")

    def __init__(self, run: Run) -> None:
        self.first = run.first
        self.last = run.last
        self.runs = [run]
        self.is_by_record = False

    @property
    def size(self) -> int:
        """How many records there are."""
        return self.last - self.first + 1

    def is_within(self, first: int, last: int) -> bool:
        """Whether a range has all of its records."""
        return self.first >= first and self.last <= last

    def straddles(self, offset: int) -> bool:
        """Whether it has records before `offset`, and that one."""
        return self.first < offset <= self.last

    def overlapping(self, first: int, last: int) -> Iterator[Run]:
        """Runs with one of these records, whole."""
        return (run for run in self.runs if run.first <= last and run.last >= first)

    def between(self, first: int, last: int) -> list[Run]:
        """Runs that hold exactly the records from `first` to `last`, as far as they are here: runs are cut for it."""
        first, last = max(first, self.first), min(last, self.last)
        if first > last:
            return []
        place = self._cut_before(first)
        run = self.runs[place]
        return [run] if run.last == last else self.runs[place : self._cut_before(last + 1)]

    def merge_until(self, last: int) -> None:
        """Records up to `last`, which are all done with, are one run from now on: what is looked at again and again is short."""
        end = self._cut_before(last + 1)
        self.runs[0].last = last
        del self.runs[1:end]

    def at(self, offset: int) -> Run | None:
        """The run with a record."""
        return next(self.overlapping(offset, offset), None)

    def _cut_before(self, offset: int) -> int:
        """The place of the run that begins with `offset`, which is made if need be; the number of runs behind the last."""
        if offset > self.last:
            return len(self.runs)
        place = bisect_right(self.runs, offset, key=_FIRST) - 1
        run = self.runs[place]
        if run.first == offset:
            return place
        self.runs.insert(place + 1, run.cut(offset - 1))
        return place + 1

    def __repr__(self) -> str:
        return f"<{self.first}-{self.last}{' by record' if self.is_by_record else ''} {self.runs}>"
