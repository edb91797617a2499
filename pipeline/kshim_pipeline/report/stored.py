"""Stored results, read without Spark, which takes longer to start than they to be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError

SOURCES: Final = "sources.txt"
LEFT_OUT: Final = "left_out.txt"


def require_results(folder: str) -> None:
    """Raises PipelineError: `folder`, a path, has no results."""
    if not Path(folder, SOURCES).is_file():
        raise PipelineError(
            f"{folder} contains no results; create them with `kshim pipeline analyse --out {folder}`", EXIT_UNAVAILABLE
        )


def left_out(folder: str) -> list[str]:
    """What `analyse` could not read, in sentences."""
    path = Path(folder, LEFT_OUT)
    return path.read_text().splitlines() if path.is_file() else []


def rows(folder: str, table: str, filters: list[tuple[str, str, Any]] | None = None) -> list[dict[str, Any]]:
    """The rows of a table that pass the filters (column, operator, value)."""
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = pq.read_table(Path(folder, table), filters=filters).to_pylist()
    return found
