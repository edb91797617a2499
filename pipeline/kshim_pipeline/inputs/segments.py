"""A broker's own files as records: `<topic>-<partition>/<first offset>.log`, of kshim or Kafka, running or not.

A task reads one partition, in order, so that transactions are resolved as by a `read_committed` consumer: records of
aborted and open ones are left out. Batches may be compressed. An incomplete batch at the end of a file is still being
written and ends the reading; other damage fails the job and is reported with its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow as pa

from kshim.config.properties import parse_properties
from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.inputs.files import one_to_a_task
from kshim_pipeline.records import RECORDS
from kshim_pipeline.topics import OFFSETS_TOPIC
from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.batch import BatchHeader
from kshim_protocol.records.compression import CompressionUnavailableError
from kshim_protocol.records.control import ControlType, parse_control_record
from kshim_protocol.records.layout import HEADER_BYTES
from kshim_protocol.records.record import Record, iter_records
from kshim_protocol.records.scan import Batch, batches_in_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_FOLDER: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)$")
_SEGMENT: Final = re.compile(r"\d{20}\.log$")
_ROWS_A_BATCH: Final = 20_000


class DamagedSegmentError(Exception):
    """`str(error)` names file, byte position and what is wrong."""


def partition_folders(data_dir: Path, topics: Sequence[str] = (OFFSETS_TOPIC,)) -> list[Path]:
    """The partitions of `topics` below a broker's data directory. Raises PipelineError: there is none."""
    found = []
    for folder in sorted(data_dir.iterdir()) if data_dir.is_dir() else []:
        match = _FOLDER.match(folder.name)
        if match is not None and match["topic"] in topics and folder.is_dir():
            found.append(folder)
    if not found:
        raise PipelineError(f"{data_dir} contains no partition of {', '.join(topics)}", EXIT_UNAVAILABLE)
    return found


def cluster_of_data(data_dir: Path) -> str | None:
    """The id of the cluster that a broker's data directory belongs to; None: it does not say."""
    try:
        return parse_properties((data_dir / "meta.properties").read_text(encoding="latin-1")).get("cluster.id")
    except (OSError, ValueError):
        return None


def read_segments(
    spark: SparkSession, data_dir: str, topics: Sequence[str] = (OFFSETS_TOPIC,), *, name: str | None = None
) -> DataFrame:
    """The records of `topics` in a broker's data directory, as RECORDS; `name` is their `source`.

    Raises PipelineError: no such partition. The job fails with DamagedSegmentError in its text for a damaged file.
    """
    folders = partition_folders(Path(data_dir), topics)
    source = name or f"segments:{Path(data_dir).resolve()}"
    return one_to_a_task(spark, [str(folder.resolve()) for folder in folders]).mapInArrow(_Reader(source), RECORDS)


def committed_records(folder: Path) -> Iterator[Record]:
    """The records in one partition's directory: transactions resolved, control records left out.

    Those of a transaction are returned when it is committed, so offsets do not always ascend. Raises
    DamagedSegmentError.
    """
    open_transactions: dict[int, list[Record]] = {}
    for path in sorted(path for path in folder.iterdir() if _SEGMENT.match(path.name)):
        for header, records in _batches(path):
            if header.is_control:
                done = open_transactions.pop(header.producer_id, [])
                marker = parse_control_record(records[0]) if records else None
                if marker is not None and marker.control_type is ControlType.COMMIT:
                    yield from done
            elif header.is_transactional:
                open_transactions.setdefault(header.producer_id, []).extend(records)
            else:
                yield from records


class _Reader:
    """Runs in workers, on paths of partitions."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield from self._partition(Path(path))

    def _partition(self, folder: Path) -> Iterator[pa.RecordBatch]:
        rows: list[Record] = []
        for record in committed_records(folder):
            rows.append(record)
            if len(rows) == _ROWS_A_BATCH:
                yield self._made(folder, rows)
                rows = []
        if rows:
            yield self._made(folder, rows)

    def _made(self, folder: Path, rows: list[Record]) -> pa.RecordBatch:
        match = _FOLDER.match(folder.name)
        assert match is not None
        columns = {
            "topic": pa.repeat(pa.scalar(match["topic"]), len(rows)),
            "partition": pa.repeat(pa.scalar(int(match["partition"]), pa.int32()), len(rows)),
            "offset": pa.array([row.offset for row in rows], pa.int64()),
            "timestamp_ms": pa.array([row.timestamp_ms for row in rows], pa.int64()),
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "source": pa.repeat(pa.scalar(self.source), len(rows)),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in RECORDS.names], names=RECORDS.names)


def _batches(path: Path) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Headers and records of the whole batches of one file."""
    try:
        with path.open("rb") as file:
            for found in batches_in_file(file, str(path), os.fstat(file.fileno()).st_size):
                if isinstance(found, Batch):
                    yield found.header, list(iter_records(found.data))
                elif not (found.is_tail and (found.is_cut_short or _is_unused(file, found.size_bytes))):
                    raise DamagedSegmentError(f"{found.place}: {found.reason}")
    except ProtocolError as error:
        raise DamagedSegmentError(f"{path}: {error}") from error
    except CompressionUnavailableError as error:
        raise DamagedSegmentError(f"{path}: {error}") from error
    except FileNotFoundError:
        raise DamagedSegmentError(
            f"{path} was deleted while it was read: the broker cleaned the log. Run the command again"
        ) from None


def _is_unused(file: BinaryIO, size_bytes: int) -> bool:
    """Whether the file's last bytes are zero: space reserved by a broker."""
    file.seek(-size_bytes, os.SEEK_END)
    return not any(file.read(HEADER_BYTES))
