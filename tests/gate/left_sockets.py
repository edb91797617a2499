"""A pytest plugin: what other libraries leave to the garbage collector to close costs no test anything.

pyspark leaves the sockets that results came through, kafka-python those of refused connections, and some only when a thread
of theirs has ended. The warning about it fails whichever test runs on the same worker when Python comes upon them. So it is
ignored, except where no other library is used and the sockets are ours: there it shows a leak. What others have left
before is collected before the first of these tests, and at the end, where pytest collects garbage once more.
"""

from __future__ import annotations

import gc
import warnings
from typing import Final

import pytest

OURS: Final = ("tests/control", "tests/page", "tests/server")

_sockets_may_be_left = pytest.StashKey[bool]()


def _has_only_ours(item: pytest.Item) -> bool:
    return item.nodeid.startswith(tuple(f"{folder}/" for folder in OURS))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the warnings."""
    for item in items:
        if not _has_only_ours(item):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Collect what was left."""
    has_only_ours = _has_only_ours(item)
    if has_only_ours and item.config.stash.get(_sockets_may_be_left, True):
        _collect()
    item.config.stash[_sockets_may_be_left] = not has_only_ours


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Collect what the last tests have left."""
    if session.config.stash.get(_sockets_may_be_left, False):
        _collect()


def _collect() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
