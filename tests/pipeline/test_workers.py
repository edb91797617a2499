"""What a cluster's workers are sent."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from kshim_pipeline.setup import workers
from kshim_pipeline.setup.workers import FOLDER, archive, settings_of_workers

FEW = ("construct", "tzdata")
"""The others are compiled, and a hundred megabytes: the cluster of the long tests gets them."""


@pytest.fixture(autouse=True)
def _few_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_PACKAGES", FEW)


def test_a_python_without_packages_finds_our_modules_in_the_archive(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    with tarfile.open(archive(tmp_path / "cache")) as packed:
        packed.extractall(tmp_path / FOLDER, filter="data")
    code = "import kshim.explain, kshim_pipeline.errors, kshim_protocol.records.record, construct, tzdata"
    for path, expected in ((str(tmp_path / FOLDER), 0), ("", 1)):
        bare = [str(tmp_path / "bare/bin/python"), "-c", code]
        found = subprocess.run(bare, env={"PYTHONPATH": path}, cwd=tmp_path, capture_output=True, check=False)
        assert found.returncode == expected, found.stderr.decode()


def test_the_archive_is_made_once_for_each_state_of_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = archive(tmp_path)
    made_ns = first.stat().st_mtime_ns
    assert archive(tmp_path) == first
    assert first.stat().st_mtime_ns == made_ns
    monkeypatch.setattr(workers, "_PACKAGES", ("tzdata",))
    assert archive(tmp_path) != first
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".gz", ".gz"]


def test_what_is_configured_already_stays(tmp_path: Path) -> None:
    given = {"spark.archives": "data.zip", "spark.executorEnv.PYTHONPATH": "/opt/ours"}
    found = settings_of_workers(given, tmp_path)
    assert found["spark.archives"] == f"data.zip,{archive(tmp_path)}#{FOLDER}"
    assert found["spark.executorEnv.PYTHONPATH"] == f"{FOLDER}{os.pathsep}/opt/ours"
    assert settings_of_workers({"spark.archives": f"own.tar.gz#{FOLDER}"}, tmp_path / "none") == {}
    assert not (tmp_path / "none").exists()


def test_workers_run_the_minor_version_of_our_python() -> None:
    assert workers.python_of_workers() == f"python3.{sys.version_info.minor}"
