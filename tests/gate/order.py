"""A pytest plugin: which files of a parallel run begin first, and which share a worker.

The files that take longest begin first, so that no worker ends with them alone; `--no-loadscope-reorder` is needed for that:
pytest-xdist would begin with the files of most tests, and those of Spark have few. With `--dist loadfile` the files of Spark
go to one worker, because every worker that ran one would start a Spark of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

SPARK = ("integration/spark", "tests/pipeline")
FIRST = (*SPARK, "integration", "docs/examples", "tests/docs", "tests/packaging")
"""Folders below the root of the project, in the order in which they begin; everything else comes after them."""


class SparkTogether(LoadFileScheduling):  # type: ignore[misc]
    """A file is never split between workers; those of Spark go to the same one."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(tuple(f"{folder}/" for folder in SPARK)) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SparkTogether | None:
    """Take the place of `--dist loadfile`."""
    return SparkTogether(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files of `FIRST` before the others, after pytest-randomly has shuffled them."""
    folders = [config.rootpath / folder for folder in FIRST]
    items.sort(key=lambda item: _place(item.path, folders))


def _place(path: Path, folders: Sequence[Path]) -> int:
    return next((place for place, folder in enumerate(folders) if path.is_relative_to(folder)), len(folders))
