"""Days of a landed history, each analysed once, by the command as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.fleet.fleet import Fleet
from bench.fleet.landed import draw, land_day
from integration.spark.commands import run_pipeline
from kshim_pipeline.setup.session import make_session

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.usefixtures("spark_jars")]

FLEET = Fleet(rebalances=120, groups=6, seed=3, days=4)
FIRST, SECOND, THIRD = "2026-09-01", "2026-09-02", "2026-09-03"


def land(history: Path, *numbers: int) -> None:
    spark = make_session("days")
    if not history.exists():
        draw(spark, FLEET, history)
    for number in numbers:
        land_day(spark, history, number)
    spark.stop()


def test_each_landed_day_is_analysed_once_and_several_are_read_together(tmp_path: Path) -> None:
    history, days, page = tmp_path / "history", tmp_path / "days", tmp_path / "report.html"
    command = ("analyse", "--landed", str(history), "--out", str(days), "--each-day")
    land(history, 0)
    assert run_pipeline(*command) == "No day is landed whole yet: one is when an hour of the day after it is.\n"
    land(history, 1)
    assert [line.partition(":")[0] for line in run_pipeline(*command).splitlines()] == [FIRST], "the second goes on"
    land(history, 2)
    assert [line.partition(":")[0] for line in run_pipeline(*command).splitlines()] == [SECOND]
    assert run_pipeline(*command).startswith("No day more was landed whole since the results of 2 days")

    counts = []
    for results in (days / FIRST, days / SECOND, days):
        budget = run_pipeline("budget", "--results", str(results), "--max-rebalances", "0", code=1)
        counts.append(sum(row["rebalances"] for row in json.loads(budget)["groups"]))
    assert counts[0] > 0
    assert counts[1] > 0
    assert counts[2] == counts[0] + counts[1]
    assert run_pipeline("explain", "group-00000", "--results", str(days)).startswith("Group group-00000, generation ")
    run_pipeline("report", "--results", str(days), "--out", str(page), code=2)
    run_pipeline("report", "--results", str(days / SECOND), "--out", str(page))
    assert SECOND in page.read_text(encoding="utf-8")
    run_pipeline(*command[:-1], code=2)
