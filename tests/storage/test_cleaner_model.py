"""Compaction of random logs: what readers see stays, offsets stay, and once is enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshim.storage.memory_log import MemoryLog
from kshim_protocol.records.batch import build_batch, parse_batch_header
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.control import ControlType
from kshim_protocol.records.record import Record, iter_records
from tests.storage.cleaning import WALL_MS, cleaned, contents, live_view, marker, records, transactional

KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
VALUES = st.none() | st.text(alphabet="xyz", max_size=3)
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
CODECS = st.sampled_from([Compression.NONE, Compression.GZIP])

plain = st.tuples(st.just("plain"), PAIRS, CODECS)
idempotent = st.tuples(st.just("idempotent"), PAIRS, CODECS)
in_transaction = st.tuples(st.just("begin"), PAIRS, st.integers(1, 2))
end = st.tuples(st.just("end"), st.sampled_from(list(ControlType)), st.integers(1, 2))
roll = st.tuples(st.just("roll"), st.none(), st.none())
clean = st.tuples(st.just("clean"), st.integers(0, 2000), st.none())


def committed_view(log: MemoryLog) -> dict[bytes, bytes]:
    """What a read_committed reader of the whole log ends with: aborted and open transactions do not count."""
    fates: dict[int, bool] = {}  # offset of a marker: committed
    batches = list(log.batches())
    for batch in batches:
        header = parse_batch_header(batch)
        if header.is_control and header.record_count:
            (record,) = iter_records(batch)
            assert record.key is not None
            fates[header.base_offset] = record.key[3] == ControlType.COMMIT
    view: dict[bytes, bytes] = {}
    for batch in batches:
        header = parse_batch_header(batch)
        if header.is_control:
            continue
        if header.is_transactional:
            ends = [
                at
                for other in map(parse_batch_header, batches)
                if (at := other.base_offset) in fates
                and at > header.base_offset
                and other.producer_id == header.producer_id
            ]
            if not ends or not fates[ends[0]]:
                continue
        for record in iter_records(batch):
            assert record.key is not None
            if record.value is None:
                view.pop(record.key, None)
            else:
                view[record.key] = record.value
    return view


def apply(log: MemoryLog, step: tuple[object, ...], sequence: int) -> None:
    match step:
        case ("plain", list(pairs), Compression() as codec):
            log.append(keyed_batch(pairs, codec))
        case ("idempotent", list(pairs), Compression() as codec):
            log.append(keyed_batch(pairs, codec, producer_id=9, producer_epoch=0, base_sequence=sequence))
        case ("begin", list(pairs), int(producer_id)):
            log.append(transactional(producer_id, *pairs, sequence=sequence))
        case ("end", ControlType() as control_type, int(producer_id)):
            log.append(marker(producer_id, control_type))
        case _:
            log.roll()


def keyed_batch(pairs: list[tuple[str, str | None]], codec: Compression, **options: int) -> bytes:
    return build_batch(
        [
            Record(key.encode(), None if value is None else value.encode(), timestamp_ms=WALL_MS + n)
            for n, (key, value) in enumerate(pairs)
        ],
        compression=codec,
        **options,  # type: ignore[arg-type]
    )


@given(st.lists(plain | idempotent | in_transaction | end | roll | clean, max_size=40), st.integers(100, 5000))
def test_readers_see_the_same_before_and_after(steps: list[tuple[object, ...]], key_map_bytes: int) -> None:
    log = MemoryLog()
    clean_offset = 0
    now_ms = WALL_MS
    for sequence, step in enumerate([*steps, ("clean", 0, None)]):
        if step[0] != "clean":
            apply(log, step, sequence)
            continue
        assert isinstance(step[1], int)
        now_ms += step[1]
        view, committed, end_offset = live_view(log), committed_view(log), log.end_offset
        before = {record.offset: record for record in records(log)}
        result = cleaned(
            log,
            now_ms=now_ms,
            first_dirty_offset=clean_offset,
            delete_retention_ms=1000,
            key_map_bytes=key_map_bytes,
            drops_tombstones=True,
        )
        if result is not None:
            assert result.clean_offset >= clean_offset
            clean_offset = result.clean_offset
        assert committed_view(log) == committed
        if not any(step[0] == "begin" for step in steps):
            assert live_view(log) == view
        assert log.end_offset == end_offset
        for record in records(log):
            was = before[record.offset]
            assert (record.key, record.value, record.timestamp_ms) == (was.key, was.value, was.timestamp_ms)
        once = contents(log)
        cleaned(log, now_ms=now_ms, first_dirty_offset=log.start_offset, delete_retention_ms=1000)
        if result is not None and result.clean_offset == active_offset(log):
            assert contents(log) == once


def active_offset(log: MemoryLog) -> int:
    """Where a clean of everything sealed ends."""
    return log.segments()[-1].base_offset


@given(st.lists(plain | roll, max_size=30))
def test_each_key_of_the_sealed_part_is_there_once(steps: list[tuple[object, ...]]) -> None:
    log = MemoryLog()
    for step in steps:
        apply(log, step, 0)
    log.roll()
    cleaned(log)
    keys = [record.key for record in records(log)]
    assert len(keys) == len(set(keys))
