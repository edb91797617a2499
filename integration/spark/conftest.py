"""The Spark of tests/pipeline, for runs against brokers."""

from __future__ import annotations

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
