"""Stored results of this machine, read without Spark, which takes longer to start than they to be read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kshim_pipeline.errors import EXIT_USAGE, PipelineError
from kshim_pipeline.folder import LocalFolder
from kshim_pipeline.report.published import Publication, published_in


def require_all(options: argparse.Namespace) -> None:
    """Raises PipelineError: of stored results only a part is asked for."""
    if options.results is not None and (options.since, options.until) != (None, None):
        raise PipelineError(
            "--since and --until choose what is read of a source: give them to `kshim pipeline analyse`, whose results these are",
            EXIT_USAGE,
        )


def results_in(folder: str) -> list[Publication]:
    """As `published_in`, of a path."""
    return published_in(LocalFolder(Path(folder)))


def rows(
    folder: str, of: Sequence[Publication], table: str, filters: list[tuple[str, str, Any]] | None = None
) -> list[dict[str, Any]]:
    """The rows of a table, a path below publications of `folder`, that pass the filters (column, operator, value)."""
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = []
    for each in of:
        found += pq.read_table(Path(folder, each.run, table), filters=filters).to_pylist()
    return found
