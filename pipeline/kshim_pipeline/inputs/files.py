"""Files read by workers: a list of paths as a DataFrame, one to a task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.types import StringType, StructField, StructType

from kshim_pipeline.problems import EXIT_UNAVAILABLE, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["expanded", "one_to_a_task"]

_PATH = StructType([StructField("path", StringType(), nullable=False)])


def expanded(patterns: Sequence[str]) -> list[str]:
    """The files that paths and patterns (`logs/server.log*`) name, sorted. Raises PipelineError: one names none."""
    found: set[str] = set()
    for pattern in patterns:
        path = Path(pattern)
        names = [path] if path.exists() else sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))
        if not names:
            raise PipelineError(f"There is no {pattern}", EXIT_UNAVAILABLE)
        found.update(str(name.resolve()) for name in names)
    return sorted(found)


def one_to_a_task(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """`path`: each in a partition of its own. Workers open them, so on a cluster they have to be on a shared disk."""
    rows = spark.sparkContext.parallelize([(path,) for path in paths], max(len(paths), 1))
    return spark.createDataFrame(rows, _PATH)
