"""One share partition: a partition as one group sees it. Without I/O and without a clock.

Source: Kafka's SharePartition; sentences and limits are those of a live 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from kshim.share_partitions.runs import NOBODY, RecordState, Run, Runs
from kshim_protocol.errors import ErrorCode, KafkaError

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""What a member says of a record."""

_STATES: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}


_FEWEST_DELIVERIES: Final = 2
"""The least that a group may allow: then a last try is no different from others."""


class StateBatch(NamedTuple):
    """Records in one state, as they are written and read."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class Acquired(NamedTuple):
    """Records that are a member's now, both offsets included."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledged(NamedTuple):
    """What a member says of the records of a range: one type, or one for each record."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Limits(NamedTuple):
    """What holds for a group, and for one request. `is_exact`: no more than `max_records`, even within a batch."""

    max_records: int
    batch_size: int
    is_exact: bool = False
    lock_ms: int = 30_000
    delivery_count_limit: int = 5
    max_in_flight: int = 2_000


class Write(NamedTuple):
    """What is to be kept of a change. `settle(error)` is to be called once it is known whether it is."""

    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    settle: Callable[[ErrorCode], None]


class SharePartition:
    """Who holds which records. `runs` are the records in flight: from `start_offset` to `end_offset`, both included.

    What is in flight and not in what was read is available, and was never delivered. `on_available` is called when records
    can be acquired that could not before.
    """

    def __init__(
        self,
        start_offset: int,
        batches: Iterable[StateBatch] = (),
        *,
        on_available: Callable[[], None] = lambda: None,
    ) -> None:
        self.start_offset = start_offset
        self.runs = Runs()
        self._on_available = on_available
        at = start_offset
        for batch in sorted(batches):
            if batch.last_offset < at:
                continue
            first = max(batch.first_offset, at)
            if at < first:
                self.runs.append(Run(at, first - 1, RecordState.AVAILABLE, 0))
            state = RecordState(batch.delivery_state)
            if state is RecordState.ARCHIVING:
                state = RecordState.ARCHIVED
            self.runs.append(Run(first, batch.last_offset, state, batch.delivery_count))
            at = batch.last_offset + 1
        self.end_offset = at - 1
        self._move_start()

    # Acquiring

    @property
    def next_offset(self) -> int:
        """From where on records are to be read for the next acquisition."""
        return next((run.first for run in self.runs if run.is_acquirable), self.end_offset + 1)

    def may_acquire(self, limits: Limits) -> bool:
        """Whether there is room for more, or something to be delivered again.

        The start moves when something is written. If nothing but records that are done with fill the window it moves here.
        """
        if self.end_offset - self.start_offset + 1 >= limits.max_in_flight:
            self._move_start()
        return self.next_offset <= self.end_offset or self.end_offset - self.start_offset + 1 < limits.max_in_flight

    def acquire(
        self, member_id: str, batches: Sequence[tuple[int, int]], limits: Limits, now_ms: int
    ) -> list[Acquired]:
        """Give records to a member. `batches`: first and last offset of the record batches that were read, in order.

        What was acquired together once is acquired together again, as far as the batches reach; only if the limit is exact
        are parts of it left behind. The room in the window is a limit like `max_records`.
        """
        if not batches or batches[-1][1] < self.start_offset:
            return []
        first, last = max(batches[0][0], self.start_offset), batches[-1][1]
        most = min(limits.max_records, limits.max_in_flight - (self.end_offset - self.start_offset + 1))
        if most <= 0:
            if self.next_offset > self.end_offset:
                return []
            most, last = limits.max_records, min(last, self.end_offset)
        taken = _Taken(member_id, limits, now_ms)
        known_last = first - 1
        for together in _together(self.runs.overlapping(first, last)):
            if taken.count >= most:
                return taken.ranges
            known_last = together[0].batch_first + together[0].batch_size - 1
            is_careful = _is_careful(together, first, last, limits)
            if is_careful and taken.count:
                return taken.ranges  # a record that nobody gets done must not take others with it
            run = together[0]
            is_part = run.batch_first < batches[0][0] or known_last > last
            is_part |= limits.is_exact and run.batch_size > most - taken.count
            if run.is_whole and not is_part and not is_careful:
                if run.is_acquirable:
                    taken.add(run)
            elif not run.is_whole or run.is_acquirable:
                count = self._take_some(run, first, min(last, known_last), most - taken.count, taken)
                if is_careful and count:
                    return taken.ranges
        if taken.count < most and known_last < last:
            self._take_new(batches, known_last + 1, most - taken.count, taken)
        return taken.ranges

    def _take_some(self, run: Run, first: int, last: int, most: int, taken: _Taken) -> int:
        """Records of a batch, one by one: fewer, the more often they were delivered without success. Returns how many."""
        limits = taken.limits
        limit, threshold = limits.delivery_count_limit, _threshold(limits)
        careful_most = 0
        count = 0
        for part in self.runs.between(max(first, run.batch_first), last):
            part.is_split = True
            if not part.is_acquirable:
                continue
            is_last_try = limit > _FEWEST_DELIVERIES and part.delivery_count == limit - 1
            if is_last_try and count:
                break
            if part.delivery_count >= threshold and not careful_most:
                careful_most = max(1, part.batch_size >> (part.delivery_count - threshold + 1))
            size = 1 if is_last_try else part.size
            if limits.is_exact:
                size = min(size, most - count)
            if careful_most > count:
                size = min(size, careful_most - count)
            if size < part.size:
                (part,) = self.runs.between(part.first, part.first + size - 1)
            taken.add(part)
            count += size
            if is_last_try or (limits.is_exact and count == most) or count == careful_most:
                break
        return count

    def _take_new(self, batches: Sequence[tuple[int, int]], begin: int, most: int, taken: _Taken) -> None:
        """Records that were never in flight: whole batches, in ranges that end where one of at least `batch_size` does."""
        begin = max(begin, batches[0][0])
        end = batches[-1][1]
        if most < end - begin + 1:
            end = next((last for _, last in batches if last >= begin + most - 1), end)
        if begin > self.end_offset + 1:  # offsets that do not exist
            self.runs.append(Run(self.end_offset + 1, begin - 1, RecordState.ARCHIVED, 0))
        self.end_offset = end
        if taken.limits.is_exact:
            run = Run(begin, end, RecordState.AVAILABLE, 0)
            self.runs.append(run)
            if run.size > most:
                run.is_split = True
                (run,) = self.runs.between(begin, begin + most - 1)
            taken.add(run)
            return
        for base, _ in batches:
            if base > end:
                break
            if base - begin >= taken.limits.batch_size:
                taken.add(self._appended(begin, base - 1))
                begin = base
        taken.add(self._appended(begin, end))

    def _appended(self, first: int, last: int) -> Run:
        run = Run(first, last, RecordState.AVAILABLE, 0)
        self.runs.append(run)
        return run

    # What became of records

    def acknowledge(self, member_id: str, batches: Sequence[Acknowledged], limits: Limits, now_ms: int) -> Write | None:
        """What a member has made of its records: all of that holds, or nothing. None: there is nothing to be written.

        Raises KafkaError: INVALID_REQUEST (past what is in flight), INVALID_RECORD_STATE (not acquired, or another's).
        """
        last = self.start_offset - 1
        for batch in batches:
            self._require_owner(member_id, batch)
            if self.start_offset <= batch.first_offset <= last:  # by this request already
                raise _not_acquired(self.runs.overlapping(last, last)[0])
            last = batch.last_offset
        changed: list[tuple[Run, RecordState]] = []
        for batch in batches:
            for first, last, type_ in _ranges(batch):
                for run in self.runs.between(first, last):
                    if type_ == RENEW:
                        run.deadline_ms = now_ms + limits.lock_ms
                    else:
                        changed.append((run, self._state_after(run, _STATES[type_], limits)))
        return self._change(changed)

    def _require_owner(self, member_id: str, batch: Acknowledged) -> None:
        first, last = batch.first_offset, batch.last_offset
        if last < self.start_offset:
            return
        if first > (self.end_offset if len(self.runs) else self.start_offset):
            raise _past("first")
        if not len(self.runs):
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        if last > self.end_offset:
            raise _past("last")
        for run in self.runs.overlapping(max(first, self.start_offset), last):
            if run.state is not RecordState.ACQUIRED or run.is_in_transition:
                raise _not_acquired(run)
            if run.member_id != member_id:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    "Member is not the owner of batch record" if run.is_whole else "Member is not the owner of offset",
                )

    @staticmethod
    def _state_after(run: Run, state: RecordState, limits: Limits) -> RecordState:
        """Records that were delivered as often as is allowed are not delivered again."""
        if state is RecordState.AVAILABLE and run.delivery_count >= limits.delivery_count_limit:
            return RecordState.ARCHIVED
        return state

    def release_all(self, member_id: str, limits: Limits) -> Write | None:
        """A member gives up what it holds: its session is over."""
        return self._release([run for run in self.runs if run.member_id == member_id], limits)

    def release_expired(self, limits: Limits, now_ms: int) -> Write | None:
        """Members have held records for too long."""
        return self._release([run for run in self.runs if run.member_id and run.deadline_ms <= now_ms], limits)

    def _release(self, runs: Iterable[Run], limits: Limits) -> Write | None:
        return self._change(
            [
                (run, self._state_after(run, RecordState.AVAILABLE, limits))
                for run in runs
                if run.state is RecordState.ACQUIRED and not run.is_in_transition
            ]
        )

    def next_deadline(self) -> int | None:
        """When the first lock ends, in monotonic ms."""
        return min(
            (run.deadline_ms for run in self.runs if run.state is RecordState.ACQUIRED and not run.is_in_transition),
            default=None,
        )

    def _change(self, changed: list[tuple[Run, RecordState]]) -> Write | None:
        """Records go over to other states as soon as that is written; until then nothing else happens to them."""
        if not changed:
            return None
        ranges = [(run.first, run.last, state) for run, state in changed]
        batches = _joined(StateBatch(run.first, run.last, state, run.delivery_count) for run, state in changed)
        for run, _ in changed:
            run.is_in_transition = True
        final = sum(run.size for run in self.runs if run.state.is_final)
        final += sum(run.size for run, state in changed if state.is_final)

        def settle(error: ErrorCode) -> None:
            is_available = False
            for first, last, state in ranges:
                for run in self.runs.between(first, last):
                    run.is_in_transition = False
                    if error is ErrorCode.NONE:
                        run.state = state
                        run.member_id = NOBODY
                        is_available |= state is RecordState.AVAILABLE
            has_moved = self._move_start()
            if is_available or has_moved:
                self._on_available()

        return Write(self.start_offset, final, batches, settle)

    # The start

    def _move_start(self) -> bool:
        """Past records that are done with, at the head. Returns whether it has moved."""
        start = next((run.first for run in self.runs if not run.state.is_final), self.end_offset + 1)
        if start == self.start_offset:
            return False
        self.start_offset = start
        self.runs.forget_before(start)
        return True

    def log_begins(self, offset: int) -> None:
        """Records before `offset` do not exist any more. Those that somebody holds are forgotten, too."""
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset - 1)
        self.runs.forget_before(offset)

    def skip(self, first: int, last: int) -> None:
        """Offsets that do not exist: nobody has to deliver them."""
        for run in self.runs.between(first, last):
            if run.is_acquirable:
                run.state = RecordState.ARCHIVED

    def archive(self, first: int, last: int) -> None:
        """Records that are there but are delivered to nobody: of aborted transactions. Nobody holds them yet."""
        for run in self.runs.between(first, last):
            if run.state is RecordState.ACQUIRED and not run.is_in_transition:
                run.state, run.member_id = RecordState.ARCHIVED, NOBODY


class _Taken:
    """What one acquisition has taken so far, for whom."""

    def __init__(self, member_id: str, limits: Limits, now_ms: int) -> None:
        self.limits = limits
        self.count = 0
        self.ranges: list[Acquired] = []
        self._member_id = member_id
        self._deadline_ms = now_ms + limits.lock_ms
        self._batch_first = -1

    def add(self, run: Run) -> None:
        """One more run. Neighbours that were acquired together before are one range."""
        run.state = RecordState.ACQUIRED
        run.delivery_count += 1
        run.member_id = self._member_id
        run.deadline_ms = self._deadline_ms
        self.count += run.size
        last = self.ranges[-1] if self.ranges else None
        if (
            last is not None
            and run.batch_first == self._batch_first
            and last.last_offset + 1 == run.first
            and last.delivery_count == run.delivery_count
        ):
            self.ranges[-1] = last._replace(last_offset=run.last)
        else:
            self.ranges.append(Acquired(run.first, run.last, run.delivery_count))
        self._batch_first = run.batch_first


def _together(runs: Iterable[Run]) -> Iterable[list[Run]]:
    """Runs by what was acquired together first."""
    return [list(found) for _, found in groupby(runs, key=attrgetter("batch_first"))]


def _is_careful(together: list[Run], first: int, last: int, limits: Limits) -> bool:
    """Whether some of these were delivered so often that a batch is not delivered as a whole any more."""
    return any(
        run.is_acquirable and run.delivery_count >= _threshold(limits) and run.first <= last and run.last >= first
        for run in together
    )


def _threshold(limits: Limits) -> int:
    """After so many deliveries a batch is not delivered as a whole any more."""
    return max(2, -(-limits.delivery_count_limit // 2))


def _not_acquired(run: Run) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_RECORD_STATE,
        "The batch cannot be acknowledged. The batch is not in the acquired state."
        if run.is_whole
        else "The offset cannot be acknowledged. The offset is not acquired.",
    )


def _past(which: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"Batch record not found. The {which} offset in request is past acquired records.",
    )


def _ranges(batch: Acknowledged) -> list[tuple[int, int, int]]:
    """Records of one type next to each other: first, last, type."""
    if len(batch.types) == 1:
        return [(batch.first_offset, batch.last_offset, batch.types[0])]
    found: list[tuple[int, int, int]] = []
    for offset, type_ in enumerate(batch.types, batch.first_offset):
        if found and found[-1][2] == type_:
            found[-1] = (found[-1][0], offset, type_)
        else:
            found.append((offset, offset, type_))
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
