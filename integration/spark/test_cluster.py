"""The same `analyse` on a standalone cluster of two workers as in one process: the same rows in every table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from integration.incidents.clock import Pace
from integration.incidents.play import Plan, play
from integration.spark.commands import run_pipeline, tables_in
from integration.spark.score import settings
from integration.spark.standalone import StandaloneCluster
from integration.support.kshim import KshimProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.usefixtures("spark_jars")]

RATE = 15


def landed_play(directory: Path) -> Path:
    """A few incidents on kshim, landed."""
    options = ("--events-topic", f"--clock=x{RATE}")
    kshim = KshimProcess(directory / "kshim", config=settings(Pace.BROKER, RATE), options=options)
    kshim.start()
    try:
        host, _, port = kshim.bootstrap.rpartition(":")
        play((host, int(port)), directory / "truth.jsonl", Plan(5, 4, 6, RATE), Pace.BROKER)
        run_pipeline("land", "--bootstrap-server", kshim.bootstrap, "--out", str(directory / "landed"))
    finally:
        kshim.stop()
    return directory / "landed"


def tables(folder: Path) -> dict[str, list[str]]:
    """Every table that was published in `folder` by its name, rows in an order that does not depend on who wrote them."""
    run = tables_in(folder)
    names = sorted(path.parent for path in run.rglob("_SUCCESS"))
    return {str(name.relative_to(run)): rows(name) for name in names}


def rows(folder: Path) -> list[str]:
    found: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return sorted(json.dumps(row, sort_keys=True, default=repr) for row in found)


def test_two_workers_compute_the_same_tables_as_one_process(tmp_path: Path) -> None:
    landed = landed_play(tmp_path)
    run_pipeline("analyse", "--landed", str(landed), "--out", str(tmp_path / "local"), "--master", "local[2]")
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        arguments = ["analyse", "--landed", str(landed), "--out", str(tmp_path / "spread"), "--master", cluster.url]
        run_pipeline(*arguments, environment=cluster.environment)
        assert cluster.executors_of("kshim pipeline analyse") == 2
    local, spread = tables(tmp_path / "local"), tables(tmp_path / "spread")
    assert list(local) == list(spread)
    assert len(local["tables/rebalances"]) >= 6
    assert {name for name in local if local[name] != spread[name]} == set()
