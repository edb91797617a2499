"""A pytest plugin: pyspark leaves it to the garbage collector to close the sockets that results came through.

Tests of Spark ignore the warnings about them. What is left after the last of them is collected at once, for otherwise the
warning fails whichever test happens to run on the same worker then.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Generator

import pytest

from tests.gate.order import SPARK


def _is_of_spark(item: pytest.Item | None) -> bool:
    return item is not None and item.nodeid.startswith(tuple(f"{folder}/" for folder in SPARK))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the warnings."""
    for item in filter(_is_of_spark, items):
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Collect after the last."""
    yield
    if _is_of_spark(item) and not _is_of_spark(nextitem):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
