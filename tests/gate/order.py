"""A pytest plugin: the order of the files in a parallel run, and which of them share a worker.

Tests of real clients wait for most of their time, and unit tests compute. They take turns, so that both cores have work
from the beginning to the end; `--no-loadscope-reorder` is needed for that: pytest-xdist would begin with the files of most
tests. The last files are those of unit tests, which are short, so that no worker ends alone. With `--dist loadfile` the
files of Spark go to one worker, as its first, because every worker that ran one would start a Spark of its own. That worker
ends last, so the files of the pipeline that need no Spark go to the others.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from operator import itemgetter
from pathlib import Path

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

SPARK = ("integration/spark", "tests/pipeline")
"""Folders in which those files are of Spark that name its session: mypy demands the type of each fixture."""
WAITING = (
    "integration/kafka_python",
    "integration/java",
    "integration/examples",
    "integration/docs",
    "tests/docs",
    "integration",
    "docs/examples",
    "tests/packaging",
    "tests/gate",
    "tests/pytest_plugin",
)
"""Folders whose tests wait for most of their time: for clients, for processes, for what is installed. First those that have
the longest files."""
LAST_WAITING = 0.8
"""How far the run is, of 1, when the last file that waits begins."""


@cache
def is_of_spark(root: Path, name: str) -> bool:
    """Whether a file is one of those that share a worker; `name`: its path from `root`, with slashes."""
    return name.startswith(tuple(f"{folder}/" for folder in SPARK)) and "SparkSession" in (root / name).read_text(
        "utf-8"
    )


class SparkTogether(LoadFileScheduling):  # type: ignore[misc]
    """A file is never split between workers; those of Spark go to the same one."""

    def _split_scope(self, nodeid: str) -> str:
        is_together = is_of_spark(self.config.rootpath, nodeid.partition("::")[0])
        return "spark" if is_together else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SparkTogether | None:
    """Take the place of `--dist loadfile`."""
    return SparkTogether(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files of Spark first, and mix those that wait with the others, after pytest-randomly has shuffled them.

    Those that wait are in the order of `WAITING`; of the others, those with the most tests come first.
    """
    tests = Counter(item.path for item in items)
    spark, waiting, others = [], [], []
    for path, count in tests.items():
        below = path.relative_to(config.rootpath).is_relative_to
        if is_of_spark(config.rootpath, path.relative_to(config.rootpath).as_posix()):
            spark.append((0, path))
        elif folder := next(filter(below, WAITING), None):
            waiting.append((WAITING.index(folder), path))
        else:
            others.append((-count, path))
    places: dict[Path, tuple[float, ...]] = {path: (0, 0) for _, path in spark}
    for kind, files, end in ((1, waiting, LAST_WAITING), (2, others, 1.0)):
        files.sort(key=itemgetter(0))
        places |= {path: (place / len(files) * end, kind) for place, (_, path) in enumerate(files)}
    items.sort(key=lambda item: places[item.path])
