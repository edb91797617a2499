"""The plugin that orders the files of a parallel run, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate.order import SPARK, WAITING, is_of_spark

ROOT = Path(__file__).resolve().parents[2]


FILES = (
    "tests/broker/test_node.py",
    "tests/pipeline/test_decode.py",
    "tests/pipeline/test_land.py",
    "integration/spark/test_source.py",
    "tests/pipeline/test_cli.py",
    "tests/broker/test_topics.py",
    "integration/java/test_groups.py",
    "integration/java/test_commits.py",
)
OF_SPARK = FILES[1:4]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One with tests of Spark and others, one of which is of the pipeline."""
    for name in FILES:
        needs = "# SparkSession\n" if name in OF_SPARK else ""
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{needs}def test_one(): pass\ndef test_two(): pass\n")
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT}\naddopts = -p tests.gate.order -p no:hypothesispytest\n"
    )
    return tmp_path


def lines(project: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", *options, "tests", "integration"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_files_of_spark_come_first_and_those_that_wait_take_turns_with_the_others(project: Path) -> None:
    found = [line.partition("::")[0] for line in lines(project, "--collect-only", "--quiet") if "::" in line]
    files = list(dict.fromkeys(found))
    assert found == [file for file in files for _ in range(2)]
    assert set(files[:3]) == set(OF_SPARK)
    assert [file.partition("/")[0] for file in files[3:]] == ["integration", "tests", "tests", "integration", "tests"]
    assert [name for name in FILES if is_of_spark(project, name)] == [*OF_SPARK]


def test_the_files_of_spark_share_a_worker(project: Path) -> None:
    options = ("--numprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--verbose")
    ran = [line.split() for line in lines(project, *options) if "PASSED" in line]  # "[gw0] [ 25%] PASSED tests/..."
    workers = {name.partition("::")[0]: worker for worker, *_, name in ran}
    assert sorted(workers) == sorted(FILES)
    assert len({workers[name] for name in OF_SPARK}) == 1
    assert len(set(workers.values())) == 2


def test_every_folder_is_there() -> None:
    assert [folder for folder in (*SPARK, *WAITING) if not (ROOT / folder).is_dir()] == []
