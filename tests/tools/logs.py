"""Folders with logs as brokers leave them: built from Kafka's own records and batches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record
from tests.protocol import golden

_GOLDEN = golden.load("consumer_offsets.json")
GOLDEN_RECORDS: list[dict[str, Any]] = _GOLDEN["records"]
GOLDEN_BATCHES: list[dict[str, Any]] = _GOLDEN["batches"]


def write_log(
    directory: Path,
    partition: int,
    *segments: Iterable[bytes],
    bases: Iterable[int] = (0,),
    topic: str = "__consumer_offsets",
) -> Path:
    """A partition folder with these segments, each some batches, named by `bases`."""
    folder = directory / f"{topic}-{partition}"
    folder.mkdir(parents=True, exist_ok=True)
    for base, batches in zip(bases, segments, strict=True):
        (folder / f"{base:020d}.log").write_bytes(b"".join(batches))
    return folder


def batch_of(offset: int, *pairs: tuple[bytes | None, bytes | None], **options: Any) -> bytes:
    """A batch of keys and values at consecutive offsets, all at 1 s past the epoch."""
    records = [
        Record(key, value, timestamp_ms=1_000, offset=offset + delta) for delta, (key, value) in enumerate(pairs)
    ]
    return build_batch(records, base_offset=offset, **options)


def golden_logs(directory: Path) -> int:
    """Kafka's sample records of every kind, each a batch at its own partition and offset; returns how many."""
    by_partition: dict[int, list[dict[str, Any]]] = {}
    for record in GOLDEN_RECORDS:
        by_partition.setdefault(record["partition"], []).append(record)
    for partition, records in by_partition.items():
        write_log(directory, partition, [_batch_of_golden(record) for record in records])
    return len(GOLDEN_RECORDS)


def _batch_of_golden(record: dict[str, Any]) -> bytes:
    value = None if record["valueHex"] is None else bytes.fromhex(record["valueHex"])
    return batch_of(
        record["offset"],
        (bytes.fromhex(record["keyHex"]), value),
        producer_id=record["producerId"],
        is_transactional=bool(record["batchAttributes"] & 16),
        is_control=bool(record["batchAttributes"] & 32),
    )
