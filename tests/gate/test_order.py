"""The plugin that orders the files of a parallel run, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate.order import FIRST

ROOT = Path(__file__).resolve().parents[2]


FILES = (
    "tests/broker/test_node.py",
    "tests/pipeline/test_decode.py",
    "tests/pipeline/test_land.py",
    "integration/spark/test_source.py",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One with tests of Spark and another."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("def test_one(): pass\ndef test_two(): pass\n")
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT}\naddopts = -p tests.gate.order -p no:hypothesispytest\n"
    )
    return tmp_path


def lines(project: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", *options, "tests", "integration"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout.splitlines()


def test_files_of_the_folders_named_come_first_in_their_order(project: Path) -> None:
    found = [line.partition("::")[0] for line in lines(project, "--collect-only", "--quiet") if "::" in line]
    assert found[:2] == ["integration/spark/test_source.py"] * 2
    assert set(found[2:6]) == {"tests/pipeline/test_decode.py", "tests/pipeline/test_land.py"}
    assert found[6:] == ["tests/broker/test_node.py"] * 2


def test_the_files_of_spark_share_a_worker(project: Path) -> None:
    options = ("--numprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--verbose")
    ran = [line.split() for line in lines(project, *options) if "PASSED" in line]  # "[gw0] [ 25%] PASSED tests/..."
    workers = {name.partition("::")[0]: worker for worker, *_, name in ran}
    assert sorted(workers) == sorted(FILES)
    assert len({worker for name, worker in workers.items() if name != FILES[0]}) == 1
    assert workers[FILES[0]] != workers[FILES[1]]


def test_every_folder_is_there() -> None:
    assert [folder for folder in FIRST if not (ROOT / folder).is_dir()] == []
