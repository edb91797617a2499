"""Logs for the compaction tests: what readers see in one, and running a clean of it to the end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from kshim.storage.cleaner import Cleaned, clean
from kshim.storage.log import Log
from kshim_protocol.records.batch import build_batch, parse_batch_header
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from kshim_protocol.records.record import Record, iter_records

WALL_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def keyed(*pairs: tuple[str | None, str | None], **options: object) -> bytes:
    """A batch of these keys and values, all written at WALL_MS unless `timestamp_ms` says otherwise."""
    timestamp_ms = options.pop("timestamp_ms", WALL_MS)
    assert isinstance(timestamp_ms, int)
    records = [
        Record(
            None if key is None else key.encode(), None if value is None else value.encode(), timestamp_ms=timestamp_ms
        )
        for key, value in pairs
    ]
    return build_batch(records, **options)  # type: ignore[arg-type]


def transactional(producer_id: int, *pairs: tuple[str, str | None], epoch: int = 0, sequence: int = 0) -> bytes:
    return keyed(*pairs, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)


def marker(producer_id: int, control_type: ControlType, *, epoch: int = 0) -> bytes:
    return build_end_transaction_batch(
        EndTransactionMarker(control_type, 0), producer_id=producer_id, producer_epoch=epoch, timestamp_ms=WALL_MS
    )


def cleaned(log: Log, *, between: Callable[[], None] = lambda: None, **options: Any) -> Cleaned | None:
    """Compact all sealed segments, see `begun`; `between` is called after the first step."""
    task = begun(log, **options)
    try:
        job = next(task)
        between()
        while True:
            try:
                result = None if job is None else job()
            except Exception as error:
                job = task.throw(error)
            else:
                job = task.send(result)
    except StopIteration as end:
        done: Cleaned | None = end.value
        return done


def begun(
    log: Log,
    *,
    now_ms: int = WALL_MS,
    first_dirty_offset: int | None = None,
    before_offset: int | None = None,
    delete_retention_ms: int = DAY_MS,
    key_map_bytes: int = 1 << 30,
    segment_bytes: int = 1 << 30,
    drops_tombstones: bool = False,
) -> Generator[Callable[[], Any] | None, Any, Cleaned | None]:
    """A clean of all sealed segments that has not done anything yet."""
    return clean(
        log,
        first_dirty_offset=log.start_offset if first_dirty_offset is None else first_dirty_offset,
        before_offset=log.end_offset if before_offset is None else before_offset,
        now_ms=now_ms,
        delete_retention_ms=delete_retention_ms,
        producers_since_ms=now_ms - DAY_MS,
        segment_bytes=segment_bytes,
        key_map_bytes=key_map_bytes,
        drops_tombstones=drops_tombstones,
    )


def records(log: Log) -> list[Record]:
    """All records of a log that are no markers."""
    return [
        record for batch in log.batches() if not parse_batch_header(batch).is_control for record in iter_records(batch)
    ]


def contents(log: Log) -> list[tuple[int, str | None, str | None]]:
    """(offset, key, value) of the same."""
    return [
        (
            record.offset,
            None if record.key is None else record.key.decode(),
            None if record.value is None else record.value.decode(),
        )
        for record in records(log)
    ]


def live_view(log: Log) -> dict[bytes, bytes]:
    """The value of each key that has one, for a reader of the whole log."""
    view: dict[bytes, bytes] = {}
    for record in records(log):
        if record.key is not None:
            if record.value is None:
                view.pop(record.key, None)
            else:
                view[record.key] = record.value
    return view


def fill(log: Log, batches: Iterable[bytes]) -> None:
    for batch in batches:
        log.append(batch)


CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
