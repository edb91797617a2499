"""The diagnosis against incidents of known cause: a handful, and some hundreds on each broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.incidents.play import Plan
from integration.spark.page import page
from integration.spark.score import LEAST, ON_KAFKA, ON_KSHIM, score_on_kafka, score_on_kshim
from integration.spark.scoring import Run
from integration.support.fixtures import available
from integration.support.unavailable import Unavailable
from kshim_pipeline.errors import PipelineError
from kshim_pipeline.setup.jars import kafka_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INCIDENTS, SCORED = 500, 400
"""To play, and at least to score. `python -m integration.spark.score` plays more than twice as many, which takes 45 minutes."""


def _require(run: Run, folder: Path) -> None:
    """What was promised of each level, in figures of at least so many incidents. All of them are in `scores.md` of the folder."""
    (folder / "scores.md").write_text(page([run], command="pytest -m long integration/spark/test_score.py"))
    assert run.played.failed_count == 0
    for level, of in run.scores.items():
        assert of.truths >= SCORED, "too much was spoiled by accidents to be a score"
        names = ("cause recall", "cause precision", "member recall", "member precision")
        figures = dict(zip(names, of.figures, strict=True))
        assert {name: figure for name, figure in figures.items() if figure < LEAST.get(level, 0.0)} == {}, of.confusions


@pytest.fixture
def _jars() -> None:
    def found() -> None:
        try:
            kafka_jars()
        except PipelineError as error:
            raise Unavailable(str(error)) from error

    available(found)


@pytest.mark.long
@pytest.mark.timeout(600)  # two minutes, but Spark on a busy machine takes what it takes
@pytest.mark.usefixtures("_jars")
def test_a_handful_of_incidents_on_kshim_is_diagnosed_for_the_most_part(spark: SparkSession, tmp_path: Path) -> None:
    run = score_on_kshim(spark, tmp_path, Plan(seed=1, service_count=6, incident_count=18, rate=15))
    of = run.scores["events"]
    assert of.truths >= 12
    assert min(of.figures) >= 0.7, of.confusions


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("_jars")
def test_hundreds_of_incidents_are_diagnosed_from_events(spark: SparkSession, tmp_path: Path) -> None:
    _require(score_on_kshim(spark, tmp_path, ON_KSHIM._replace(incident_count=INCIDENTS)), tmp_path)


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("_jars")
def test_hundreds_of_incidents_are_diagnosed_from_a_real_kafkas_log(spark: SparkSession, tmp_path: Path) -> None:
    run = available(lambda: score_on_kafka(spark, tmp_path, ON_KAFKA._replace(incident_count=INCIDENTS)))
    _require(run, tmp_path)
