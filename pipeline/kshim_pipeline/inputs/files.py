"""Files read by workers: a list of paths as a DataFrame, one to a task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def expanded(patterns: Sequence[str]) -> list[str]:
    """The files that match paths and patterns (`logs/server.log*`), sorted. Raises PipelineError: one matches none."""
    found: set[str] = set()
    for pattern in patterns:
        path = Path(pattern)
        names = [path] if path.exists() else sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))
        if not names:
            raise PipelineError(f"No such file: {pattern}", EXIT_UNAVAILABLE)
        found.update(str(name.resolve()) for name in names)
    return sorted(found)


def one_to_a_task(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """`path`: each in its own partition. Workers open them, so on a cluster they must be on a shared disk."""
    # A range has exactly one row a partition; a list of rows would be dealt out by chance, an RDD made by Python workers.
    count = len(paths)
    return spark.range(0, count, 1, max(count, 1)).select(
        F.element_at(F.lit(list(paths)), F.col("id").cast("int") + 1).alias("path")
    )
