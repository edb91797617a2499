"""One share partition: a partition as one group sees it. Without I/O and without a clock.

Source: Kafka's SharePartition; sentences and limits are those of a live 4.4.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice, takewhile
from operator import attrgetter
from typing import Final, NamedTuple

from kshim.share_partitions.acquisition import Acquired, Limits, acquire
from kshim.share_partitions.in_flight import InFlightBatch, RecordState, Run
from kshim.share_partitions.troubles import (
    LOCK_TIMEOUT,
    REJECTED,
    RELEASED,
    SESSION_ENDED,
    Trouble,
    renewed_again,
    trouble_of,
)
from kshim.share_partitions.window import Window
from kshim_protocol.errors import ErrorCode, KafkaError

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""What a member says of a record."""

_STATES: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}


_TROUBLES: Final = {RELEASE: RELEASED, REJECT: REJECTED}
"""What is told of records of which a member says that."""


class StateBatch(NamedTuple):
    """Records in one state, as they are written and read."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class Acknowledged(NamedTuple):
    """What a member says of the records of a range: one type, or one for each record."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Write(NamedTuple):
    """What is to be kept of a change. `settle(error, now_ms)` is to be called once it is known whether it is; it returns whether
    those who wait are to look for records, as the start has moved.
    """

    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    settle: Callable[[ErrorCode, int], bool]


class SharePartition:
    """Who holds which records. `on_available` is called when those who wait are to look for records again. `troubles` grows when
    deliveries do not end as they should: whoever tells of them empties it.

    As in Kafka they are not told of records that a member releases: what they wait for is new records, locks that end, a start
    that moves, and the next thing that somebody says of these records.
    """

    def __init__(
        self,
        start_offset: int,
        batches: Iterable[StateBatch] = (),
        *,
        on_available: Callable[[], None] = lambda: None,
    ) -> None:
        self.troubles: list[Trouble] = []
        self._on_available = on_available
        self._window = Window(start_offset, list(_runs(start_offset, batches)))
        self._window.move_start()

    @property
    def start_offset(self) -> int:
        """The first record that somebody may still have to deal with."""
        return self._window.start_offset

    @property
    def end_offset(self) -> int:
        """The last record in flight; where nothing is in flight the next record."""
        return self._window.end_offset

    @property
    def next_offset(self) -> int:
        """From where on records are to be read for the next acquisition."""
        return self._window.next_offset

    @property
    def runs(self) -> Iterator[Run]:
        """The records in flight in order, as runs of those that are alike."""
        return self._window.runs()

    # Acquiring

    def may_acquire(self, limits: Limits) -> bool:
        """Whether there is room for more, or something to be delivered again.

        The start moves when something is written. If nothing but records that are done with fill the window it moves here:
        Kafka delivers nothing any more then.
        """
        window = self._window
        if window.size >= limits.max_in_flight and window.is_done:
            window.move_start()
        return window.next_offset != window.end_offset + 1 or window.size < limits.max_in_flight

    def acquire(
        self, member_id: str, batches: Sequence[tuple[int, int]], limits: Limits, now_ms: int
    ) -> list[Acquired]:
        """Give records to a member. `batches`: first and last offset of the record batches that were read, in order.

        What was acquired together once is acquired together again, as far as the batches reach; only if the limit is exact
        are parts of it left behind. The room in the window is a limit like `max_records`.
        """
        return acquire(self._window, member_id, batches, limits, now_ms)

    def archive(self, first: int, last: int) -> None:
        """Records that are there but are delivered to nobody: of aborted transactions, which were acquired just now."""
        self._window.archive(first, last, RecordState.ACQUIRED)

    def log_begins(self, offset: int) -> None:
        """Records before `offset` do not exist any more."""
        self._window.log_begins(offset)

    # What became of records

    def acknowledge(self, member_id: str, batches: Sequence[Acknowledged], limits: Limits, now_ms: int) -> Write | None:
        """What a member has made of its records: all of that holds, or nothing but renewals. None: there is nothing to write.

        Raises KafkaError: INVALID_REQUEST (past what is in flight), INVALID_RECORD_STATE (not acquired, or another's),
        UNKNOWN_SERVER_ERROR (from before the start, and nothing is in flight).
        """
        changed: list[StateBatch] = []
        troubles: list[Trouble] = []  # which are certain when that is written
        try:
            for said in batches:
                if said.last_offset >= self.start_offset:
                    ranges = _ranges(said, self.start_offset)
                    for batch in self._spoken_of(said.first_offset, said.last_offset):
                        self._take(member_id, said, ranges, batch, limits, now_ms, changed, troubles)
        except KafkaError:
            for run in self._changing(changed):
                run.take_back()
            raise
        return self._write(changed, limits, troubles)

    def _spoken_of(self, first: int, last: int) -> Sequence[InFlightBatch]:
        """The batches with records of a range. Raises KafkaError."""
        window = self._window
        place = window.floor(first)
        if place is None and first < window.start_offset <= last:
            place = window.floor(window.start_offset)
            if place is None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka trips over it
        if place is None:
            raise _refused("Batch record not found. The request batch offsets are not found in the cache.")
        found = window.beginning_between(window.batches[place].first, last)
        for which, offset in (("first", first), ("last", last)):
            if offset > found[-1].last:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Batch record not found. The {which} offset in request is past acquired records.",
                )
        return found

    def _take(
        self,
        member_id: str,
        said: Acknowledged,
        ranges: Sequence[_Range],
        batch: InFlightBatch,
        limits: Limits,
        now_ms: int,
        changed: list[StateBatch],
        troubles: list[Trouble],
    ) -> None:
        """What a member says, of one batch. `ranges` are of `said`, as there may be many. Raises KafkaError."""
        if batch.last < self.start_offset:
            return
        is_whole = not batch.is_by_record
        if is_whole:
            self._require_owner(member_id, batch.runs[0], is_whole=True)
            batch.is_by_record = (
                not batch.is_within(said.first_offset, said.last_offset)
                or len(said.types) > 1
                or batch.straddles(self.start_offset)
            )
            is_whole = not batch.is_by_record
        place = max(0, bisect_right(ranges, batch.first, key=attrgetter("first")) - 1)
        for first, last, type_ in takewhile(lambda one: one.first <= batch.last, islice(ranges, place, None)):
            for run in batch.between(first, last):
                if not is_whole:
                    self._require_owner(member_id, run, is_whole=False)
                if type_ != RENEW:
                    if type_ > ACCEPT:
                        troubles.append(trouble_of(run, _TROUBLES[type_], limits, now_ms))
                    run.begin_change(self._state_after(run, _STATES[type_], limits))
                    changed.append(_as_written(run))
                elif limits.may_renew:
                    run.deadline_ms = now_ms + limits.lock_ms
                    if (trouble := renewed_again(run, limits, now_ms)) is not None:
                        self.troubles.append(trouble)
                else:
                    raise _refused("Renewing acquisition locks is not enabled for the group.")

    @staticmethod
    def _require_owner(member_id: str, run: Run, *, is_whole: bool) -> None:
        if run.state is not RecordState.ACQUIRED:
            raise _refused(
                "The batch cannot be acknowledged. The batch is not in the acquired state."
                if is_whole
                else "The offset cannot be acknowledged. The offset is not acquired."
            )
        if run.member_id != member_id:
            raise _refused(f"Member is not the owner of {'batch record' if is_whole else 'offset'}")

    @staticmethod
    def _state_after(run: Run, state: RecordState, limits: Limits) -> RecordState:
        """Records that were delivered as often as is allowed are not delivered again."""
        if state is RecordState.AVAILABLE and run.delivery_count >= limits.delivery_count_limit:
            return RecordState.ARCHIVED
        return state

    def release_all(self, member_id: str, limits: Limits, now_ms: int) -> Write | None:
        """A member gives up what it holds: its session is over."""
        changed: list[StateBatch] = []
        troubles: list[Trouble] = []
        for batch in self._window.batches:
            if any(run.member_id == member_id for run in batch.runs):
                for run in self._parts(batch, batch.first, batch.last):
                    if run.member_id == member_id:
                        if run.last >= self.start_offset:
                            troubles.append(trouble_of(run, SESSION_ENDED, limits, now_ms))
                        run.begin_change(self._released(run, limits))
                        changed.append(_as_written(run))
        return self._write(changed, limits, troubles)

    def _parts(self, batch: InFlightBatch, first: int, last: int) -> list[Run]:
        """Runs of a range within a batch that are on one side of the start."""
        if batch.straddles(self.start_offset):
            batch.is_by_record = True
            return batch.between(first, min(last, self.start_offset - 1)) + batch.between(
                max(first, self.start_offset), last
            )
        return batch.between(first, last)

    def _released(self, run: Run, limits: Limits) -> RecordState:
        """What becomes of records that are released: those before the start are delivered to nobody any more."""
        is_gone = run.last < self.start_offset
        return RecordState.ARCHIVED if is_gone else self._state_after(run, RecordState.AVAILABLE, limits)

    def release_expired(self, limits: Limits, now_ms: int) -> Write | None:
        """Members have held records for too long: these are available at once, whether that can be written or not.

        A batch of which records were looked at one by one has a lock for each: who waits gets the first of them alone.
        """
        written: list[StateBatch] = []
        due = sorted(
            (run.deadline_ms, run.first, run.last, batch)
            for batch in self._window.batches
            for run in batch.runs
            if run.state is RecordState.ACQUIRED and run.deadline_ms <= now_ms
        )
        for _, first, last, batch in due:
            while first <= last:
                is_one = batch.is_by_record and batch.size > 1
                released = self._expire(batch, first, first if is_one else last, limits, now_ms)
                written += released
                if released:
                    self._on_available()
                first = first + 1 if is_one else last + 1
                if is_one and not self._is_taken(batch, first - 1):
                    rest = self._expire(batch, first, last, limits, now_ms)
                    written += rest
                    if {one.delivery_state for one in rest} - {one.delivery_state for one in released}:
                        self._on_available()
                    break
        return self._kept(written)

    def _expire(self, batch: InFlightBatch, first: int, last: int, limits: Limits, now_ms: int) -> list[StateBatch]:
        """Records whose locks have ended, as they are now."""
        found = []
        for run in self._parts(batch, first, last):
            if run.state is RecordState.ACQUIRED and run.deadline_ms <= now_ms:
                if run.last >= self.start_offset:
                    self.troubles.append(trouble_of(run, LOCK_TIMEOUT, limits, now_ms))
                run.change(self._released(run, limits))
                found.append(_as_written(run))
        return found

    @staticmethod
    def _is_taken(batch: InFlightBatch, offset: int) -> bool:
        """Whether somebody who waited has what was released just now; else nobody wants the rest either."""
        run = batch.at(offset)
        return run is not None and run.state is RecordState.ACQUIRED

    def next_deadline(self) -> int | None:
        """When the first lock ends, in monotonic ms."""
        return min((run.deadline_ms for run in self.runs if run.state is RecordState.ACQUIRED), default=None)

    # Writing

    def _write(self, changed: Sequence[StateBatch], limits: Limits, troubles: Sequence[Trouble]) -> Write | None:
        """Records have gone over to other states, if that is written; until then nothing else happens to them."""
        if not changed:
            return None

        def settle(error: ErrorCode, now_ms: int) -> bool:
            if troubles and error is ErrorCode.NONE:
                self.troubles += troubles
            for run in self._changing(changed):
                if error is ErrorCode.NONE:
                    run.before = None
                    continue
                run.take_back()
                if run.state is RecordState.ACQUIRED and run.deadline_ms <= now_ms:
                    self.troubles.append(trouble_of(run, LOCK_TIMEOUT, limits, now_ms))
                    run.change(self._state_after(run, RecordState.AVAILABLE, limits))
            return error is ErrorCode.NONE and self._window.move_start()

        return Write(self.start_offset, self._window.done_count, _joined(changed), settle)

    def _kept(self, batches: Sequence[StateBatch]) -> Write | None:
        """States that hold already are written, too."""
        if not batches:
            return None

        def settle(error: ErrorCode, now_ms: int) -> bool:
            self._window.move_start()
            return False

        return Write(self.start_offset, self._window.done_count, _joined(batches), settle)

    def _changing(self, changed: Iterable[StateBatch]) -> Iterator[Run]:
        """The runs that these records are by now, as far as what became of them is being written."""
        for first, last, *_ in changed:
            place = self._window.floor(first)
            if place is not None:
                yield from (run for run in self._window.batches[place].between(first, last) if run.is_in_transition)


def _runs(start_offset: int, batches: Iterable[StateBatch]) -> Iterator[Run]:
    """What was read, from the start on."""
    at = start_offset
    for batch in sorted(batches):
        if batch.last_offset < at:
            continue
        state = RecordState(batch.delivery_state)
        if state is RecordState.ARCHIVING:
            state = RecordState.ARCHIVED
        yield Run(max(batch.first_offset, at), batch.last_offset, state, batch.delivery_count)
        at = batch.last_offset + 1


def _as_written(run: Run) -> StateBatch:
    return StateBatch(run.first, run.last, run.state, run.delivery_count)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, message)


class _Range(NamedTuple):
    """Records next to each other of which the same is said."""

    first: int
    last: int
    type: int


def _ranges(batch: Acknowledged, start_offset: int) -> list[_Range]:
    """What is said of the records from the start on."""
    begin = max(batch.first_offset, start_offset)
    if len(batch.types) == 1:
        return [_Range(begin, batch.last_offset, batch.types[0])]
    found: list[_Range] = []
    first = begin
    for type_, alike in groupby(islice(batch.types, begin - batch.first_offset, None)):
        last = first + sum(1 for _ in alike) - 1
        found.append(_Range(first, last, type_))
        first = last + 1
    return found


def _joined(batches: Iterable[StateBatch]) -> tuple[StateBatch, ...]:
    """Neighbours that are alike as one."""
    found: list[StateBatch] = []
    for batch in sorted(batches):
        if found and found[-1].last_offset + 1 == batch.first_offset and found[-1][2:] == batch[2:]:
            found[-1] = found[-1]._replace(last_offset=batch.last_offset)
        else:
            found.append(batch)
    return tuple(found)
