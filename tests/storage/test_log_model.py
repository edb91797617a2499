"""Random histories: both logs against a list of records, with the files reopened at any moment."""

from __future__ import annotations

import shutil
import tempfile
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kshim.storage.file_log import FileLog
from kshim.storage.log import Log
from kshim.storage.memory_log import MemoryLog
from kshim_protocol.records.batch import iter_batches
from kshim_protocol.records.compression import Compression
from tests.storage.builders import a_batch

UNLIMITED = 1 << 40


class Held(NamedTuple):
    """What the model knows of a batch."""

    base_offset: int
    timestamps: tuple[int, ...]
    size_bytes: int

    @property
    def end(self) -> int:
        return self.base_offset + len(self.timestamps)


class Logs(RuleBasedStateMachine):
    """A memory log, a file log with small segments, and the model, doing the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.memory = MemoryLog()
        self.file = self.opened()
        self.held: list[Held] = []
        self.start = 0
        self.end = 0

    def opened(self) -> FileLog:
        return FileLog(f"{self.folder}/topic-0", segment_bytes=400)

    @property
    def logs(self) -> tuple[Log, Log]:
        return self.memory, self.file

    @rule(
        count=st.integers(1, 4),
        timestamp_ms=st.integers(0, 40),
        codec=st.sampled_from([Compression.NONE, Compression.NONE, Compression.GZIP]),
        pad=st.sampled_from([0, 0, 3, 200]),
    )
    def append(self, count: int, timestamp_ms: int, codec: Compression, pad: int) -> None:
        batch = a_batch(*"abcd"[:count], timestamp_ms=timestamp_ms, compression=codec, pad=pad)
        for log in self.logs:
            assert log.append(batch) == self.end
        self.held.append(Held(self.end, tuple(range(timestamp_ms, timestamp_ms + count)), len(batch)))
        self.end += count

    @rule(data=st.data())
    def delete_before(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        for log in self.logs:
            log.delete_before(offset)
        self.start = max(self.start, offset)
        self.held = [held for held in self.held if held.end > self.start]

    @rule(data=st.data())
    def truncate_to(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end + 2))
        for log in self.logs:
            log.truncate_to(offset)
        dropped = [held for held in self.held if held.end > offset]
        if dropped:
            self.held = [held for held in self.held if held.end <= offset]
            self.end = max(dropped[0].base_offset, self.start)

    @rule()
    def reopen(self) -> None:
        self.file.close()
        self.file = self.opened()

    @rule()
    def kill(self) -> None:
        self.file.forget()
        self.file = self.opened()
        self.file.check_tails()

    @rule()
    def sync(self) -> None:
        for log in self.logs:
            log.sync()
            assert log.durable_offset == log.end_offset

    @rule(ends=st.booleans())
    def sync_beside_appends(self, ends: bool) -> None:
        begun = self.file.begin_sync()
        if begun is not None:
            begun.run()
            if ends:
                begun.finish()
                assert self.file.durable_offset == self.end

    @rule()
    def roll(self) -> None:
        for log in self.logs:
            log.roll()

    @rule(data=st.data(), max_bytes=st.integers(0, 900), at_least_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, at_least_one: bool) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        following = [held for held in self.held if held.end > offset]
        taken = 0
        for held in following:
            if taken + held.size_bytes > max_bytes and not (at_least_one and taken == 0):
                break
            taken += held.size_bytes
        memory = self.memory.read(offset, max_bytes, at_least_one_batch=at_least_one)
        assert len(memory) == taken
        assert self.file.read(offset, max_bytes, at_least_one_batch=at_least_one) == memory
        for log in self.logs:
            assert log.bytes_from(offset) == sum(held.size_bytes for held in following)

    @rule(timestamp_ms=st.integers(-1, 50))
    def look_up(self, timestamp_ms: int) -> None:
        records = [
            (held.base_offset + i, timestamp)
            for held in self.held
            for i, timestamp in enumerate(held.timestamps)
            if held.base_offset + i >= self.start
        ]
        first = next((record for record in records if record[1] >= timestamp_ms), None)
        greatest = max(records, key=lambda record: (record[1], -record[0]), default=None)
        for log in self.logs:
            assert log.offset_for_timestamp(timestamp_ms) == first
            assert log.max_timestamp() == greatest

    @invariant()
    def both_hold_what_the_model_holds(self) -> None:
        for log in self.logs:
            assert (log.start_offset, log.end_offset) == (self.start, self.end)
            assert log.size_bytes >= sum(held.size_bytes for held in self.held)
            assert log.durable_offset <= log.end_offset
            assert b"".join(log.runs(max_bytes=500)) == b"".join(log.batches())
        batches = list(self.memory.batches())
        assert [len(batch) for batch in batches] == [held.size_bytes for held in self.held]
        assert list(self.file.batches()) == batches
        assert list(iter_batches(self.file.read(self.start, UNLIMITED))) == batches

    def teardown(self) -> None:
        self.file.close()
        shutil.rmtree(self.folder)


Logs.TestCase.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
TestLogs = Logs.TestCase
