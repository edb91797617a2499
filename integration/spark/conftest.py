"""The Spark of tests/pipeline, for runs against brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.conftest import spark

__all__ = ["spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """pyspark leaves it to the garbage collector to close the socket that a result came through."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
