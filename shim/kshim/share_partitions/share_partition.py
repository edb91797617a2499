"""One share partition: a partition as one group sees it. Without I/O and without a clock.

Source: Kafka's SharePartition; sentences and limits are those of a live 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
        """Whether there is room for more, or something to be delivered again."""
        return self.next_offset <= self.end_offset or self.end_offset - self.start_offset + 1 < limits.max_in_flight

    def acquire(
        self, member_id: str, batches: Sequence[tuple[int, int]], limits: Limits, now_ms: int
    ) -> list[Acquired]:
        """Give records to a member. `batches`: first and last offset of the record batches that were read, in order."""
        if not batches:
            return []
        first, last = max(batches[0][0], self.start_offset), batches[-1][1]
        taken: list[Run] = []
        left = limits.max_records
        can_go_on = True
        for run in self.runs.overlapping(first, last):
            is_of_last = bool(taken) and run.batch_first == taken[-1].batch_first and not limits.is_exact
            if left <= 0 and not (is_of_last and can_go_on):
                break
            if not run.is_acquirable:
                continue
            if run.first < first:
                run = self.runs.between(first, run.last)[0]
            most = self._most_of(run, limits)
            is_careful = run.batch_size > 1 and run.delivery_count >= _threshold(limits)
            if limits.is_exact:
                most = min(most, left)
            if most < run.size:
                (run,) = self.runs.between(run.first, run.first + most - 1)
            taken.append(run)
            left -= run.size
            if is_careful:
                left, can_go_on = 0, False  # a record that nobody gets done must not take others with it
        if left > 0:
            taken += self._take_new(batches, left, limits)
        for run in taken:
            run.state = RecordState.ACQUIRED
            run.delivery_count += 1
            run.member_id = member_id
            run.deadline_ms = now_ms + limits.lock_ms
        return [Acquired(run.first, run.last, run.delivery_count) for run in taken]

    @staticmethod
    def _most_of(run: Run, limits: Limits) -> int:
        """How many records of a run are delivered together: fewer, the more often they were without success."""
        limit = limits.delivery_count_limit
        threshold = _threshold(limits)
        if run.delivery_count < threshold:
            return run.size
        if run.delivery_count >= limit - 1:
            return 1
        return min(run.size, max(1, run.batch_size >> (run.delivery_count - threshold + 1)))

    def _take_new(self, batches: Sequence[tuple[int, int]], left: int, limits: Limits) -> list[Run]:
        """Records that were never in flight: whole batches, in ranges of at least `batch_size` records."""
        begin = max(self.end_offset + 1, batches[0][0])
        room_end = self.start_offset + limits.max_in_flight - 1
        end = min(batches[-1][1], room_end)
        if begin > end:
            return []
        if limits.is_exact:
            end = min(end, begin + left - 1)
        else:
            wanted_last = begin + left - 1
            end = min(end, next((last for first, last in batches if last >= wanted_last), end))
        if begin > self.end_offset + 1:  # offsets that do not exist
            self.runs.append(Run(self.end_offset + 1, begin - 1, RecordState.ARCHIVED, 0))
        runs = []
        at = begin
        base = begin  # of the record batch in which the range begins, from where its size counts
        enough = min(limits.batch_size, limits.max_records) if limits.is_exact else limits.batch_size
        for batch_first, batch_last in batches:
            if batch_last < at:
                continue
            if batch_first <= at:
                base = batch_first
            last = min(batch_last, end)
            if last - base + 1 >= enough or last == end:
                run = Run(at, last, RecordState.AVAILABLE, 0)
                self.runs.append(run)
                runs.append(run)
                at = last + 1
            if last == end:
                break
        self.end_offset = end
        return runs

    # What became of records

    def acknowledge(self, member_id: str, batches: Sequence[Acknowledged], limits: Limits, now_ms: int) -> Write | None:
        """What a member has made of its records: all of that holds, or nothing. None: there is nothing to be written.

        Raises KafkaError: INVALID_REQUEST (past what is in flight), INVALID_RECORD_STATE (not acquired, or another's).
        """
        for batch in batches:
            self._require_owner(member_id, batch)
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
        if not len(self.runs):
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        if first > self.end_offset:
            raise _past("first")
        if last > self.end_offset:
            raise _past("last")
        for run in self.runs.overlapping(max(first, self.start_offset), last):
            if run.state is not RecordState.ACQUIRED or run.is_in_transition:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    "The batch cannot be acknowledged. The batch is not in the acquired state."
                    if run.is_whole
                    else "The offset cannot be acknowledged. The offset is not acquired.",
                )
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
        self._move_start()

    def skip(self, first: int, last: int) -> None:
        """Offsets that do not exist: nobody has to deliver them."""
        for run in self.runs.between(first, last):
            if run.is_acquirable:
                run.state = RecordState.ARCHIVED
        self._move_start()

    def archive(self, first: int, last: int) -> None:
        """Records that are there but are delivered to nobody: of aborted transactions. Nobody holds them yet."""
        for run in self.runs.between(first, last):
            if run.state is RecordState.ACQUIRED and not run.is_in_transition:
                run.state, run.member_id = RecordState.ARCHIVED, NOBODY
        self._move_start()


def _threshold(limits: Limits) -> int:
    """After so many deliveries a batch is not delivered as a whole any more."""
    return max(2, -(-limits.delivery_count_limit // 2))


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
