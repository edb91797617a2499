"""The plugin that says how long each folder took, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One with two folders of tests."""
    for name, count in (("tests/broker/handlers", 2), ("tests/storage", 1)):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        tests = "".join(f"def test_{number}(): pass\n" for number in range(count))
        (folder / f"test_{folder.name}.py").write_text(tests)
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT}\naddopts = -p tests.gate.folder_times -p no:hypothesispytest\n"
    )
    return tmp_path


def rows(project: Path, *options: str) -> list[list[str]]:
    """The rows of the table, without the seconds."""
    command = [sys.executable, "-m", "pytest", *options, "tests"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    return sorted(line.split()[1:] for line in done.stdout.splitlines() if " tests  tests/" in line)


@pytest.mark.parametrize("options", [(), ("--numprocesses", "2")], ids=["one process", "two workers"])
def test_with_durations_each_folder_has_a_row(project: Path, options: tuple[str, ...]) -> None:
    expected = [["1", "tests", "tests/storage"], ["2", "tests", "tests/broker"]]
    assert rows(project, "--durations=1", *options) == expected


def test_without_durations_there_is_no_table(project: Path) -> None:
    assert rows(project) == []
