"""The Spark of tests/pipeline, for runs against brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.support.fixtures import available
from integration.support.unavailable import Unavailable
from kshim_pipeline.errors import PipelineError
from kshim_pipeline.setup.jars import kafka_jars
from tests.pipeline.conftest import spark  # noqa: F401


@pytest.fixture(scope="session")
def spark_jars() -> None:
    """Skips where the jars of Spark's Kafka source are not."""

    def found() -> None:
        try:
            kafka_jars()
        except PipelineError as error:
            raise Unavailable(str(error)) from error

    available(found)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """pyspark leaves it to the garbage collector to close the socket that a result came through."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
