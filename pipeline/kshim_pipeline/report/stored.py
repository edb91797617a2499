"""Stored results of this machine, read without Spark, which takes longer to start than they to be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kshim_pipeline.folder import LocalFolder
from kshim_pipeline.report.published import Publication, Publications


def results_in(folder: str) -> Publication:
    """The newest results in `folder`, a path. Raises PipelineError: there are none."""
    return Publications(LocalFolder(Path(folder))).required()


def rows(
    folder: str, of: Publication, table: str, filters: list[tuple[str, str, Any]] | None = None
) -> list[dict[str, Any]]:
    """The rows of a table, a path below a publication of `folder`, that pass the filters (column, operator, value)."""
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = pq.read_table(Path(folder, of.run, table), filters=filters).to_pylist()
    return found
