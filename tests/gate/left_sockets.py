"""A pytest plugin: what other libraries leave to the garbage collector to close costs no test anything.

pyspark leaves the sockets that results came through, kafka-python those of refused connections. Tests that use such a library
in their own process ignore the warnings, and what is left after the last test of a file is collected at once, for otherwise
the warning fails whichever test happens to run on the same worker then.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Generator

import pytest

FOLDERS = ("docs/examples", "integration", "tests/pipeline", "tests/testing")


def _uses_others(item: pytest.Item) -> bool:
    return item.nodeid.startswith(tuple(f"{folder}/" for folder in FOLDERS))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the warnings."""
    for item in filter(_uses_others, items):
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Collect after the last of a file."""
    yield
    if _uses_others(item) and (nextitem is None or nextitem.path != item.path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
