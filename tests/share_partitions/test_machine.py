"""Random members on one share partition: no record is lost, none is delivered to two at once, counts are right, and every delivery
that fails is told once, with who had the record for how long.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kshim.share_partitions.acquisition import Limits
from kshim.share_partitions.in_flight import RecordState
from kshim.share_partitions.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledged,
    SharePartition,
    StateBatch,
    Write,
)
from kshim_protocol.errors import ErrorCode, KafkaError

MEMBERS = ["a", "b", "c"]
LIMIT = 3
WINDOW = 25
MOST_IN_BATCH = 6
LOCK_MS = 1_000


class _Said(NamedTuple):
    """What is being written of a record, who had it until when, and since when. `ended_by`: None where it is done with."""

    type: int
    member_id: str
    until_ms: int
    since_ms: int
    ended_by: str | None
    told_ms: int


_Failure = tuple[int, str, str, str | None, int]
"""A record, who had it, why that is told, how it ended, and how long it took."""
_ENDED_BY = {RELEASE: "released", REJECT: "rejected"}


class Deliveries(RuleBasedStateMachine):
    """What members and the share coordinator's log know is kept record by record, and compared with the partition."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.log: list[tuple[int, int]] = []
        self.held: dict[int, str] = {}
        self.locked_until: dict[int, int] = {}
        self.since: dict[int, int] = {}
        self.failed: Counter[_Failure] = Counter()
        self.told: Counter[_Failure] = Counter()
        self.counts: dict[int, int] = {}
        self.done: set[int] = set()
        self.stored: dict[int, tuple[int, int]] = {}  # state and count, as written
        self.stored_start = 0
        self.waiting: list[tuple[Write, dict[int, _Said]]] = []
        self.partition = SharePartition(0)

    @initialize(sizes=st.lists(st.integers(1, MOST_IN_BATCH), min_size=4, max_size=12))
    def records(self, sizes: list[int]) -> None:
        at = 0
        for size in sizes:
            self.log.append((at, at + size - 1))
            at += size

    @property
    def in_transition(self) -> set[int]:
        return {offset for _, said in self.waiting for offset in said}

    def batches(self) -> list[tuple[int, int]]:
        return [(first, last) for first, last in self.log if last >= self.partition.next_offset]

    @rule(member_id=st.sampled_from(MEMBERS), most=st.integers(1, 12), size=st.integers(1, 6), is_exact=st.booleans())
    def acquire(self, member_id: str, most: int, size: int, is_exact: bool) -> None:
        limits = Limits(most, size, is_exact, LOCK_MS, LIMIT, WINDOW)
        count = 0
        for one in self.partition.acquire(member_id, self.batches(), limits, self.now_ms):
            for offset in range(one.first_offset, one.last_offset + 1):
                assert offset not in self.held, f"{offset} is held by {self.held[offset]}"
                assert offset not in self.done
                assert offset not in self.in_transition
                self.counts[offset] = self.counts.get(offset, 0) + 1
                assert one.delivery_count == self.counts[offset] <= LIMIT
                self.held[offset] = member_id
                self.locked_until[offset] = self.now_ms + LOCK_MS
                self.since[offset] = self.now_ms
                count += 1
        if is_exact:
            assert count <= most

    @rule(
        data=st.data(), member_id=st.sampled_from(MEMBERS), type_=st.sampled_from([GAP, ACCEPT, RELEASE, REJECT, RENEW])
    )
    def acknowledge(self, data: st.DataObject, member_id: str, type_: int) -> None:
        mine = sorted(offset for offset, holder in self.held.items() if holder == member_id)
        if not mine:
            return
        first = data.draw(st.sampled_from(mine))
        last = data.draw(st.integers(first, first + 4))
        limits = Limits(1, 1, False, LOCK_MS, LIMIT, WINDOW)
        offsets = range(first, last + 1)
        is_allowed = all(self.held.get(offset) == member_id for offset in offsets)
        try:
            write = self.partition.acknowledge(member_id, [Acknowledged(first, last, [type_])], limits, self.now_ms)
        except KafkaError:
            assert not is_allowed
            self._read_locks()  # what it renews before that is renewed
            return
        assert is_allowed
        if type_ == RENEW:
            assert write is None
            self.locked_until.update(dict.fromkeys(offsets, self.now_ms + LOCK_MS))
        else:
            self._begun(write, offsets, type_, _ENDED_BY.get(type_))

    @rule(ms=st.integers(1, LOCK_MS))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        write = self.partition.release_expired(Limits(1, 1, False, LOCK_MS, LIMIT, WINDOW), self.now_ms)
        over = [offset for offset, until_ms in self.locked_until.items() if until_ms <= self.now_ms]
        assert (write is not None) == bool(over)
        if write is not None:
            assert _offsets(write) == set(over)
            for offset in over:
                self._fails(offset, self.held[offset], "lock_timeout", self.now_ms - self.since[offset])
            self._free(over)
            self.waiting.append((write, {}))

    @rule(member_id=st.sampled_from(MEMBERS))
    def session_ends(self, member_id: str) -> None:
        write = self.partition.release_all(member_id, Limits(1, 1, False, LOCK_MS, LIMIT, WINDOW), self.now_ms)
        mine = [offset for offset, holder in self.held.items() if holder == member_id]
        assert (write is not None) == bool(mine)
        if mine:
            self._begun(write, mine, RELEASE, "session_ended")

    def _fails(self, offset: int, member_id: str, ended_by: str, held_ms: int) -> None:
        is_last = self.counts[offset] >= LIMIT and ended_by != "rejected"
        self.failed[offset, member_id, "delivery_limit" if is_last else ended_by, ended_by, held_ms] += 1

    def _begun(self, write: Write | None, offsets: Iterable[int], type_: int, ended_by: str | None) -> None:
        assert write is not None
        said = {
            offset: _Said(
                type_,
                self.held.pop(offset),
                self.locked_until.pop(offset),
                self.since[offset],
                ended_by,
                self.now_ms,
            )
            for offset in offsets
        }
        assert _offsets(write) == said.keys()
        self.waiting.append((write, said))

    def _free(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self.held.pop(offset, None)
            self.locked_until.pop(offset, None)
            if self.counts[offset] >= LIMIT:
                self.done.add(offset)

    def _read_locks(self) -> None:
        for run in self.partition.runs:
            if run.state is RecordState.ACQUIRED:
                self.locked_until.update(dict.fromkeys(range(run.first, run.last + 1), run.deadline_ms))

    @rule(data=st.data(), is_kept=st.booleans())
    def write_ends(self, data: st.DataObject, is_kept: bool) -> None:
        if not self.waiting:
            return
        write, said = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        if is_kept:
            self._store(write)
            self._hold(said)
            write.settle(ErrorCode.NONE, self.now_ms)
            for offset, one in said.items():
                if one.ended_by is not None:
                    self._fails(offset, one.member_id, one.ended_by, one.told_ms - one.since_ms)
            return
        write.settle(ErrorCode.NOT_COORDINATOR, self.now_ms)
        for offset, one in said.items():
            if one.until_ms <= self.now_ms:
                self._fails(offset, one.member_id, "lock_timeout", self.now_ms - one.since_ms)
                self._free([offset])
            else:
                self.held[offset] = one.member_id
                self.locked_until[offset] = one.until_ms

    def _store(self, write: Write) -> None:
        self.stored_start = max(self.stored_start, write.start_offset)
        for batch in write.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                if batch.delivery_count >= self.stored.get(offset, (0, 0))[1]:
                    self.stored[offset] = batch.delivery_state, batch.delivery_count

    def _hold(self, said: dict[int, _Said]) -> None:
        self.done.update(offset for offset, one in said.items() if one.type != RELEASE or self.counts[offset] >= LIMIT)

    @rule()
    def crash(self) -> None:
        """Only what was written is left; what members held returns."""
        batches = [
            StateBatch(offset, offset, state, count)
            for offset, (state, count) in self.stored.items()
            if offset >= self.stored_start
        ]
        self.partition = SharePartition(self.stored_start, batches)
        self.held.clear()
        self.locked_until.clear()
        self.waiting.clear()
        self.counts = {offset: count for offset, (_, count) in self.stored.items()}
        self.done = {offset for offset, (state, _) in self.stored.items() if RecordState(state).is_final}
        self.done.update(range(self.stored_start))

    @invariant()
    def each_delivery_that_fails_is_told_once(self) -> None:
        for trouble in self.partition.troubles:
            member_id, reason, ended_by, first, last, _, held_ms = trouble
            if reason == "renewed":
                assert held_ms > 3 * LOCK_MS
                continue
            self.told.update((offset, member_id, reason, ended_by, held_ms) for offset in range(first, last + 1))
        self.partition.troubles.clear()
        assert self.told == self.failed

    @invariant()
    def no_record_is_lost(self) -> None:
        """Each is done with, held, on its way, available or not yet reached."""
        in_flight = {offset: run for run in self.partition.runs for offset in range(run.first, run.last + 1)}
        for offset in range(self.log[-1][1] + 1 if self.log else 0):
            run = in_flight.get(offset)
            if run is None and offset >= self.partition.start_offset:  # not reached, or between what was read
                assert offset not in self.done
                continue
            places = [
                offset in self.done,
                offset in self.held,
                offset in self.in_transition,
                run is not None and run.is_acquirable,
            ]
            assert sum(places) == 1, (offset, places)
        assert all(offset in self.done for offset in range(self.partition.start_offset))

    @invariant()
    def the_window_holds(self) -> None:
        assert self.partition.end_offset - self.partition.start_offset < WINDOW + MOST_IN_BATCH - 1
        runs = list(self.partition.runs)
        assert all(run.last < following.first for run, following in itertools.pairwise(runs))

    def teardown(self) -> None:
        """In the end every record is delivered as long as nobody takes it: nothing hangs."""
        for write, said in self.waiting:
            write.settle(ErrorCode.NONE, self.now_ms)
            self._hold(said)
        self.waiting.clear()
        self.now_ms += 2 * LOCK_MS
        for _ in self._all_deliveries():
            pass
        assert not self.log or self.partition.start_offset == self.log[-1][1] + 1

    def _all_deliveries(self) -> Iterator[None]:
        limits = Limits(5, 5, False, LOCK_MS, LIMIT, WINDOW)
        for _ in range(1_000):
            released = self.partition.release_expired(limits, self.now_ms)
            if released is not None:
                released.settle(ErrorCode.NONE, self.now_ms)
            found = self.partition.acquire("last", self.batches(), limits, self.now_ms) if self.log else []
            if not found:
                return
            said = [Acknowledged(one.first_offset, one.last_offset, [ACCEPT]) for one in found]
            write = self.partition.acknowledge("last", said, limits, self.now_ms)
            assert write is not None
            write.settle(ErrorCode.NONE, self.now_ms)
            yield


def _offsets(write: Write) -> set[int]:
    return {offset for batch in write.batches for offset in range(batch.first_offset, batch.last_offset + 1)}


Deliveries.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestDeliveries = Deliveries.TestCase
