"""Frames that are read more than once: worked out once, and read back with a short plan.

Spark works a DataFrame out again for each use, and plans all that it came from; of a history of a few thousand records
the planning is what takes the time. A Materialize is a function of a name and a frame to the same rows, worked out.
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
    """In the session's cache, from its first use on; what it came from is planned again."""
    return frame.cache()


def in_folder(spark: SparkSession, folder: str, say: Callable[[str], None]) -> Materialize:
    """As Parquet in `folder/name`, at once; what was there is replaced. `say` hears of each."""

    def materialize(name: str, frame: DataFrame) -> DataFrame:
        say(f"working out {name.rpartition('/')[2]}")
        path = f"{folder}/{name}"
        frame.write.mode("overwrite").parquet(path)
        return spark.read.schema(frame.schema).parquet(path)

    return materialize


@contextmanager
def in_session(spark: SparkSession, say: Callable[[str], None]) -> Iterator[Materialize]:
    """Only until the end of the `with`: in a temporary folder, or, where workers do not share it, in their own."""
    if not str(spark.sparkContext.master).startswith("local"):
        yield by_workers(say)
        return
    folder = tempfile.mkdtemp(prefix="kshim-pipeline-")
    try:
        yield in_folder(spark, folder, say)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def by_workers(say: Callable[[str], None]) -> Materialize:
    """In the workers' own storage, at once."""

    def materialize(name: str, frame: DataFrame) -> DataFrame:
        say(f"working out {name.rpartition('/')[2]}")
        return frame.localCheckpoint()

    return materialize


class OnDemand(Mapping[str, "DataFrame"]):
    """Frames by name; each is made and kept when it is first asked for. What is not asked for costs nothing."""

    def __init__(
        self, makers: Mapping[str, Callable[[], DataFrame]], materialize: Materialize, *, under: str = ""
    ) -> None:
        """`under` goes before names when they are kept."""
        self._makers = dict(makers)
        self._materialize = materialize
        self._under = under
        self._made: dict[str, DataFrame] = {}

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
