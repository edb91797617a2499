"""A pytest plugin: the files that take longest begin first, so that no worker of a parallel run ends with them alone.

It orders whole files, after pytest-randomly has shuffled them, and needs `--no-loadscope-reorder`: pytest-xdist would begin
with the files of most tests, and those of Spark have few.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

FIRST = ("integration/spark", "tests/pipeline", "integration", "docs/examples", "tests/docs", "tests/packaging")
"""Folders below the root of the project, in the order in which they begin; everything else comes after them."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files of `FIRST` before the others; each keeps its place among its own."""
    folders = [config.rootpath / folder for folder in FIRST]
    items.sort(key=lambda item: _place(item.path, folders))


def _place(path: Path, folders: Sequence[Path]) -> int:
    return next((place for place, folder in enumerate(folders) if path.is_relative_to(folder)), len(folders))
