"""The window of a share partition: from the first record that somebody may still have to deal with to the last in flight.

Source: Kafka's SharePartition (cachedState, startOffset, endOffset, GapWindow).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kshim.share_partitions.in_flight import InFlightBatch, RecordState, Run


class _Gap(NamedTuple):
    """Records between batches that were read from the log of states: they are still to be acquired, from `start` on.

    That holds as long as `end` is the last offset of the window.
    """

    start: int
    end: int


class Window:
    """`start_offset` and `end_offset` are those of the window, both included; where nothing is in flight both are the offset
    of the next record. Batches may begin before `start_offset`: what is there is done with.
    """

    def __init__(self, start_offset: int, read: Sequence[Run] = ()) -> None:
        """`read`: the runs that were read from the log of states, in order."""
        self.start_offset = start_offset
        self.end_offset = read[-1].last if read else start_offset
        self.batches = [InFlightBatch(run) for run in read]
        self._gap: _Gap | None = None
        at = start_offset
        for run in read:
            if run.first > at:
                self._gap = _Gap(at, self.end_offset)
                break
            at = run.last + 1

    def runs(self) -> Iterator[Run]:
        """All runs in order."""
        return (run for batch in self.batches for run in batch.runs)

    @property
    def next_offset(self) -> int:
        """From where on records are to be read for the next acquisition."""
        if not self.batches or self.start_offset > self.batches[-1].last:
            return self.end_offset
        gap_start = None if self.gap is None else self.gap.start
        for batch in self.batches:
            if gap_start is not None:
                if batch.first > gap_start:
                    return gap_start
                gap_start = max(batch.last + 1, gap_start)
            for run in batch.runs:
                if run.is_acquirable:
                    return run.first
        return self.end_offset + 1

    @property
    def size(self) -> int:
        """How many records are in flight, those that are done with behind the start included."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def done_count(self) -> int:
        """How many records behind the start are done with, or will be when it is written."""
        return sum(
            run.last - max(run.first, self.start_offset) + 1
            for run in self.runs()
            if run.state.is_final and run.last >= self.start_offset
        )

    # Gaps between what was read

    @property
    def gap(self) -> _Gap | None:
        """The gap, while it has to be minded."""
        return self._gap if self._gap is not None and self._gap.end == self.end_offset else None

    def gap_is_filled_to(self, offset: int) -> None:
        """Records before `offset` were acquired."""
        gap = self.gap
        self._gap = None if gap is None or offset > gap.end else gap._replace(start=offset)

    # Batches

    def floor(self, offset: int) -> int | None:
        """The place of the last batch that does not begin behind `offset`."""
        place = bisect_right(self.batches, offset, key=lambda batch: batch.first) - 1
        return None if place < 0 else place

    def beginning_between(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that begin from `first` to `last`, both included."""
        begin = bisect_left(self.batches, first, key=lambda batch: batch.first)
        end = bisect_right(self.batches, last, key=lambda batch: batch.first)
        return self.batches[begin:end]

    def add(self, batch: InFlightBatch) -> None:
        """One more, of records that were not in flight."""
        self.batches.insert(bisect_left(self.batches, batch.first, key=lambda one: one.first), batch)
        if self.batches[0] is batch:
            self.start_offset = batch.first
        self.end_offset = max(self.end_offset, batch.last)

    def archive(self, first: int, last: int, state: RecordState) -> None:
        """Records of a range that are in `state` are delivered to nobody any more."""
        place = self.floor(first)
        begins = first if place is None or self.batches[place].last < first else self.batches[place].first
        for batch in self.beginning_between(begins, last):
            if not batch.is_within(first, last) and not batch.is_by_record:
                if batch.runs[0].state is not state:
                    continue
                batch.is_by_record = True
            for run in batch.between(first, last):
                if run.state is state:
                    run.archive()

    # The start

    def log_begins(self, offset: int) -> None:
        """Records before `offset` do not exist any more. Those that somebody holds stay in flight until he lets them go.

        Kafka goes on to ask for what is missing before `offset`, and delivers nothing any more.
        """
        if self._gap is not None and self._gap.start < offset:
            self._gap = self._gap._replace(start=offset)
        if self.batches:  # also what was acquired before the start, as a part of a batch
            self.archive(self.batches[0].first, offset - 1, RecordState.AVAILABLE)
        if offset <= self.start_offset:
            return
        if self.batches:
            self.end_offset = max(self.end_offset, offset)
        else:
            self.end_offset = offset
        self.start_offset = offset

    def move_start(self) -> bool:
        """Past records that are done with, at the head. Returns whether it has moved."""
        if not self._starts_with_done():
            return False
        last = self._last_done()
        if last is None:
            return False
        if last == self.batches[-1].last:
            self.start_offset = self.end_offset = last + 1
            self.batches.clear()
            return True
        place = self.floor(last)
        assert place is not None
        if last == self.batches[place].last:
            self.start_offset = max(self.batches[place + 1].first, self.start_offset)
            if self.gap is not None:
                self.start_offset = min(self.gap.start, self.start_offset)
            del self.batches[: place + 1]
        else:
            self.start_offset = max(last + 1, self.start_offset)
            self.batches[place].merge_until(last)
            del self.batches[:place]
        return True

    @property
    def is_done(self) -> bool:
        """Whether all records in flight are done with."""
        return bool(self.batches) and self._last_done() == self.batches[-1].last

    def _starts_with_done(self) -> bool:
        place = self.floor(self.start_offset)
        if place is None:
            return False
        batch = self.batches[place]
        run = batch.at(self.start_offset) if batch.is_by_record else batch.runs[0]
        return run is not None and run.is_done

    def _last_done(self) -> int | None:
        """The last of the records from the first batch on that are done with, without one between that is not."""
        last = None
        for batch in self.batches:
            if self.gap is not None and batch.last >= self.gap.start:
                return last
            for run in batch.runs:
                if not run.is_done:
                    return last
                last = run.last
        return last
