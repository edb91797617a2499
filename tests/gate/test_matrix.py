"""The cells of `make matrix`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate.full_run import ROOT
from tests.gate.matrix import CELLS, SUITES, install, stage


def test_there_is_a_cell_for_each_python_with_the_newest_and_the_lowest_packages() -> None:
    assert [*CELLS] == ["3.11-newest", "3.11-lowest", "3.12-newest", "3.12-lowest", "3.13-newest", "3.13-lowest"]


@pytest.mark.parametrize("suite", SUITES)
def test_a_cell_installs_then_tests_in_its_own_environment(suite: str) -> None:
    stages = [stage(cell, suite) for cell in CELLS.values()]
    assert len({made.commands[1][0] for made in stages}) == 6
    assert all(made.commands[0][-2:] == ("--install", made.name.removesuffix(f"-{suite}")) for made in stages)


def test_a_cell_without_its_python_fails_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python3.12"
    python.write_text("#!/bin/sh\necho 'not chosen' >&2\nexit 127\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tests.gate.matrix.STORE", tmp_path)
    for name in ("3.12-lowest", "3.13-lowest"):
        assert install(CELLS[name]) == 1
        assert capsys.readouterr().out == f"python{CELLS[name].python} is not on the PATH, or does not run\n"


def test_a_name_that_no_cell_has_is_an_error() -> None:
    command = [sys.executable, "-m", "tests.gate.matrix", "2.7-newest"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such cell: 2.7-newest" in done.stderr
