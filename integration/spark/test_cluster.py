"""The same `analyse` on a standalone cluster of two workers, which have nothing installed, as in one process: the same rows in every table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from integration.incidents.clock import Pace
from integration.incidents.play import Plan, play
from integration.spark.commands import run_pipeline, tables
from integration.spark.score import settings
from integration.spark.standalone import StandaloneCluster
from integration.support.kshim import KshimProcess
from kshim_pipeline.setup.java import find_java, java_home_for_spark
from tests.docs.blocks import DOCS, blocks

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.usefixtures("spark_jars")]

RATE = 15
PAGE = DOCS / "spark-cluster.md"


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


def command_of_page(number: int, cluster: StandaloneCluster, landed: Path, results: Path) -> list[str]:
    """The arguments of a command as it stands there, but for the addresses."""
    text = blocks(PAGE, "sh")[number].replace("spark://spark-master:7077", cluster.url)
    return (
        text.replace("file:///lake/history", landed.as_uri()).replace("file:///lake/results", results.as_uri()).split()
    )


def submit(cluster: StandaloneCluster, folder: Path, arguments: list[str]) -> None:
    """Run spark-submit: kshim is installed for its driver only."""
    (folder / "pipeline_job.py").write_text(blocks(PAGE, "python")[0])
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        **cluster.environment,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java_home_for_spark(find_java())),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    command = [str(home / "bin/spark-submit"), *arguments]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_workers_without_packages_compute_the_same_tables_as_one_process(tmp_path: Path) -> None:
    landed = landed_play(tmp_path)
    run_pipeline("analyse", "--landed", str(landed), "--out", str(tmp_path / "local"), "--master", "local[2]")
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        for module in ("kshim_pipeline", "pyarrow", "construct"):
            bare = subprocess.run(
                [cluster.python, "-c", f"import {module}"], cwd=tmp_path, env={}, check=False, capture_output=True
            )
            assert bare.returncode != 0, module
        _, _, *arguments = command_of_page(0, cluster, landed, tmp_path / "spread")
        run_pipeline(*arguments, environment=cluster.environment)
        assert cluster.executors_of("kshim pipeline analyse") == 2
        _, *arguments = command_of_page(1, cluster, landed, tmp_path / "submitted")
        submit(cluster, tmp_path, arguments)
    local = tables(tmp_path / "local")
    assert len(local["tables/rebalances"]) >= 6
    for results in ("spread", "submitted"):
        found = tables(tmp_path / results)
        assert list(local) == list(found)
        assert {name for name in local if local[name] != found[name]} == set()
