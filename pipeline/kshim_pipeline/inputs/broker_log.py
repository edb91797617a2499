"""A broker's log as the table log_lines: `kshim.explain.sources.log_lines` knows the wording."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from kshim.explain.sources.log_lines import parse_broker_line, parse_line
from kshim_pipeline.errors import EXIT_USAGE, PipelineError
from kshim_pipeline.inputs.files import expanded, one_to_a_task
from kshim_pipeline.schemas import LOG_LINES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LOG: Final = "log"
"""The topic that evidence names."""

_ROWS_A_BATCH: Final = 10_000


def read_broker_log(spark: SparkSession, patterns: Sequence[str], *, time_zone: str = "UTC") -> DataFrame:
    """The table log_lines from paths or patterns; `.gz` is decompressed. One task a file.

    `time_zone` is that of the broker's clock, which its log does not contain. Raises PipelineError: no such file or
    zone.
    """
    return one_to_a_task(spark, expanded(patterns)).mapInArrow(_Reader(zone_of(time_zone)), LOG_LINES)


def zone_of(name: str) -> ZoneInfo:
    """Raises PipelineError (usage): there is no such time zone."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise PipelineError(f"--log-time-zone: unknown time zone {name}", EXIT_USAGE) from None


class _Reader:
    """Runs in workers, on paths."""

    def __init__(self, zone: ZoneInfo) -> None:
        self.zone = zone

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(LOG_LINES)
        for batch in batches:
            for path in batch.column("path").to_pylist():
                rows: list[dict[str, Any]] = []
                for row in _rows(path, self.zone):
                    rows.append(row)
                    if len(rows) == _ROWS_A_BATCH:
                        yield pa.RecordBatch.from_pylist(rows, schema=schema)
                        rows = []
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _rows(path: str, zone: ZoneInfo) -> Iterator[dict[str, Any]]:
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            text = line.rstrip("\r\n")
            row = parse_line(text, zone) or parse_broker_line(text, zone)
            if row is not None:
                yield row | {"evidence": {"topic": LOG, "partition": None, "offset": number}}
