"""One acquisition: which of the records that were read a member gets.

Source: Kafka's SharePartition.acquire; whole batches are acquired unless the limit is exact, or a part is not available.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kshim.share_partitions.in_flight import InFlightBatch, RecordState, Run
from kshim.share_partitions.window import Window

_FEWEST_DELIVERIES: Final = 2
"""The least that a group may allow: then a last try is no different from others."""


class Limits(NamedTuple):
    """What holds for a group, and for one request. `is_exact`: no more than `max_records`, even within a batch."""

    max_records: int
    batch_size: int
    is_exact: bool = False
    lock_ms: int = 30_000
    delivery_count_limit: int = 5
    max_in_flight: int = 2_000
    may_renew: bool = True

    @property
    def careful_from(self) -> int:
        """After so many deliveries a batch is not delivered as a whole any more."""
        return max(_FEWEST_DELIVERIES, -(-self.delivery_count_limit // 2))


class Acquired(NamedTuple):
    """Records that are a member's now, both offsets included."""

    first_offset: int
    last_offset: int
    delivery_count: int


def acquire(
    window: Window, member_id: str, batches: Sequence[tuple[int, int]], limits: Limits, now_ms: int
) -> list[Acquired]:
    """Give records to a member. `batches`: first and last offset of the record batches that were read, in order.

    Available records that should have been among what was read, and were not, do not exist any more.
    """
    if limits.max_records <= 0 or not batches or batches[-1][1] < window.start_offset:
        return []
    acquisition = _Acquisition(window, member_id, batches, limits, now_ms)
    if acquisition.most > 0:
        acquisition.run()
    if acquisition.ranges:
        window.gap_is_filled_to(acquisition.ranges[-1].last_offset + 1)
    return acquisition.ranges


class _Acquisition:
    def __init__(
        self, window: Window, member_id: str, batches: Sequence[tuple[int, int]], limits: Limits, now_ms: int
    ) -> None:
        self.ranges: list[Acquired] = []
        self._window = window
        self._member_id = member_id
        self._batches = batches
        self._limits = limits
        self._now_ms = now_ms
        self._deadline_ms = now_ms + limits.lock_ms
        self._count = 0
        self._next_offset = window.next_offset
        self._last = batches[-1][1]
        self.most = min(limits.max_records, limits.max_in_flight - window.size)
        if self.most <= 0 and self._next_offset <= window.end_offset:  # what is in the window returns to somebody
            self.most = min(limits.max_records, window.end_offset - self._next_offset + 1)
            self._last = min(self._last, window.end_offset)

    def run(self) -> None:
        """First what is in flight already, then what is behind it."""
        window, begins = self._window, self._batches[0][0]
        if self._next_offset < begins:
            window.archive(self._next_offset, begins - 1, RecordState.AVAILABLE)
        base = begins
        place = window.floor(base)
        if place is None:
            base = max(base, window.start_offset)
        elif window.batches[place].last >= base:
            base = window.batches[place].first
        known = window.beginning_between(min(begins, base), self._last)
        if not known:
            self._take_new(base, self._last)
            return
        if not self._take_known(known, base) or self._count >= self.most:
            return
        if known[-1].last < self._last:
            self._take_new(known[-1].last + 1, self._last)

    def _take_known(self, known: Sequence[InFlightBatch], begins: int) -> bool:
        """Returns whether there may be more for this member."""
        window, read_from = self._window, self._batches[0][0]
        gap_start = begins
        for batch in known:
            if self._count >= self.most:
                return False
            if window.gap is not None:
                if gap_start < batch.first:
                    self._take_new(gap_start, batch.first - 1)
                gap_start = batch.last + 1
                if self._count >= self.most:
                    return False
            is_careful = self._is_careful(batch, read_from)
            if is_careful and self._count:
                return False  # a record that nobody gets done must not take others with it
            is_too_large = self._limits.is_exact and batch.size > self.most - self._count
            is_in_part = not batch.is_within(read_from, self._last) or is_too_large or is_careful
            if not batch.is_by_record:
                if not batch.runs[0].is_acquirable:
                    continue
                batch.is_by_record = is_in_part
            if not batch.is_by_record:
                self.ranges.append(self._take(batch.runs[0]))
            elif self._take_records(batch, read_from) and is_careful:
                return False
        return True

    def _is_careful(self, batch: InFlightBatch, read_from: int) -> bool:
        """Whether records of it were delivered so often that it is not delivered as a whole any more."""
        return any(
            run.is_acquirable and run.delivery_count >= self._limits.careful_from
            for run in (batch.overlapping(read_from, self._last) if batch.is_by_record else batch.runs)
        )

    def _take_records(self, batch: InFlightBatch, read_from: int) -> int:
        """Records of a batch, one by one: fewer, the more often they were delivered without success. Returns how many."""
        limits, most = self._limits, self.most - self._count
        careful_most = 0
        found: list[Acquired] = []
        before = self._count
        for part in batch.between(read_from, self._last):
            if not part.is_acquirable:
                continue
            count = self._count - before
            is_last_try = (
                limits.delivery_count_limit > _FEWEST_DELIVERIES
                and part.delivery_count == limits.delivery_count_limit - 1
            )
            if is_last_try and count:
                break
            if part.delivery_count >= limits.careful_from and not careful_most:
                careful_most = max(1, batch.size >> (part.delivery_count - limits.careful_from + 1))
            size = 1 if is_last_try else part.size
            if limits.is_exact:
                size = min(size, most - count)
            if careful_most > count:
                size = min(size, careful_most - count)
            (run,) = batch.between(part.first, part.first + size - 1)
            one = self._take(run)
            if found and found[-1].last_offset + 1 == run.first and found[-1].delivery_count == one.delivery_count:
                found[-1] = found[-1]._replace(last_offset=run.last)
            else:
                found.append(one)
            count += size
            if is_last_try or (limits.is_exact and count == most) or count == careful_most:
                break
        self.ranges += found
        return self._count - before

    def _take(self, run: Run) -> Acquired:
        run.acquire(self._member_id, self._now_ms, self._deadline_ms)
        self._count += run.size
        return Acquired(run.first, run.last, run.delivery_count)

    def _take_new(self, first: int, last: int) -> None:
        """Records that were never in flight: whole batches, in ranges that end where one of at least `batch_size` does."""
        window, most = self._window, self.most - self._count
        if not window.batches:
            first = max(first, window.end_offset)
        if most < last - first + 1:
            within = window.gap is not None
            wanted = first + most - 1
            end = next((end for begin, end in self._batches if begin <= wanted <= end), wanted)
            last = min(end, last) if within else end
        if self._limits.is_exact:
            last = self._add(first, last, most)
        else:
            begin = first
            for base, _ in self._batches:
                if base > last:
                    break
                if base - begin >= self._limits.batch_size and last - first + 1 > self._limits.batch_size:
                    if base > begin:
                        self._add(begin, base - 1)
                    else:  # of a size of 0: Kafka tells of a range without a record
                        self.ranges.append(Acquired(begin, base - 1, 1))
                    begin = base
            self._add(begin, last)
        window.gap_is_filled_to(last + 1)

    def _add(self, first: int, last: int, most: int | None = None) -> int:
        """A batch, of which the first `most` records are the member's. Returns the last of these."""
        batch = InFlightBatch(Run(first, last, RecordState.AVAILABLE, 0))
        if most is not None and batch.size > most:
            batch.is_by_record = True
            last = first + most - 1
        (run,) = batch.between(first, last)
        self._window.add(batch)
        self.ranges.append(self._take(run))
        return last
