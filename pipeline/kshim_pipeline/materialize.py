"""Frames that are read more than once: computed once, and read back with a short plan.

Spark computes a DataFrame again for each use and plans everything it is derived from; with a history of a few thousand
records the planning takes most of the time. A Materialize takes a name and a frame and returns the same rows, computed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Materialize = Callable[[str, "DataFrame"], "DataFrame"]


def cached(name: str, frame: DataFrame) -> DataFrame:
    """In the session's cache, from its first use on; what it is derived from is planned again."""
    return frame.cache()


def in_folder(spark: SparkSession, folder: str, say: Callable[[str], None]) -> Materialize:
    """As Parquet in `folder/name`, immediately; existing files are replaced. `say` reports each."""

    def materialize(name: str, frame: DataFrame) -> DataFrame:
        say(f"computing {name.rpartition('/')[2]}")
        path = f"{folder}/{name}"
        frame.write.mode("overwrite").parquet(path)
        return spark.read.schema(frame.schema).parquet(path)

    return materialize


@contextmanager
def in_session(spark: SparkSession, say: Callable[[str], None]) -> Iterator[Materialize]:
    """Until the end of the `with`: in a temporary folder, or in the workers' own storage where they do not share it."""
    if not str(spark.sparkContext.master).startswith("local"):
        yield by_workers(say)
        return
    folder = tempfile.mkdtemp(prefix="kshim-pipeline-")
    try:
        yield in_folder(spark, folder, say)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def by_workers(say: Callable[[str], None]) -> Materialize:
    """In the workers' own storage, immediately."""

    def materialize(name: str, frame: DataFrame) -> DataFrame:
        say(f"computing {name.rpartition('/')[2]}")
        return frame.localCheckpoint()

    return materialize


class OnDemand(Mapping[str, "DataFrame"]):
    """Frames by name; each is computed when it is first used. Frames that are not used cost nothing."""

    def __init__(
        self,
        makers: Mapping[str, Callable[[], DataFrame]],
        materialize: Materialize,
        *,
        under: str = "",
        made: Mapping[str, DataFrame] | None = None,
    ) -> None:
        """`under` is a prefix of the names they are stored under; `made` are those that are stored already."""
        self._makers = dict(makers)
        self._materialize = materialize
        self._under = under
        self._made = dict(made or {})

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._made:
            self._made[name] = self._materialize(f"{self._under}{name}", self._makers[name]())
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers
