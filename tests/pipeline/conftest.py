"""One small Spark for all tests of the pipeline."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from integration.support.fixtures import available
from integration.support.unavailable import Unavailable
from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.materialize import Materialize, in_folder
from kshim_pipeline.setup.session import BRIEF, FOR_FEW, make_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores and two shuffle partitions; skips where there is no pyspark or no Java."""
    home = tmp_path_factory.mktemp("spark")
    config = {
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.local.dir": str(home),
        "spark.sql.streaming.stopTimeout": "30s",
        **BRIEF,
        **FOR_FEW,
        "spark.sql.shuffle.partitions": "2",  # so that rows meet others only where they are brought together
    }

    def made() -> SparkSession:
        try:
            return make_session("tests", "local[2]", driver_memory="1g", config=config)
        except PipelineError as error:
            if error.exit_code == EXIT_UNAVAILABLE:
                raise Unavailable(str(error)) from error
            raise

    session = available(made)
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        session.stop()
        gc.collect()


@pytest.fixture(scope="module")
def materialize(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Materialize:
    """For what several steps read: short plans are most of a test's time."""
    return in_folder(spark, str(tmp_path_factory.mktemp("kept")), lambda _: None)
