"""One command sets up whatever it needs. The interpreters here are stand-ins: nothing is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.repository.checkout import ROOT

PYTEST = (
    "pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 --durations=25 "
    "tests integration docs/examples"
)
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

NEW = """#!/bin/sh
case $1 in
    -c) exit 0 ;;
    --version) echo "Python 3.11.0" ;;
    -m) echo "$0 $*" >> "$TRACE"; mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
esac
"""
OLD = "#!/bin/sh\nexit 1\n"


class Machine:
    """A folder with a Makefile and a PATH that begins with stand-ins for Python."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / "path"
        self.path.mkdir()
        needed = (
            "integration/java/pom.xml",
            "integration/java/jars.sha256",
            "integration/page/browser/package-lock.json",
            "pipeline/kshim_pipeline/setup/jars.py",
        )
        for name in ("Makefile", "pyproject.toml", *needed):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, home / name)

    def with_python(self, name: str, script: str) -> None:
        """Put an interpreter on the PATH."""
        (self.path / name).write_text(script)
        (self.path / name).chmod(0o755)

    def without_pythons(self) -> None:
        """Make every interpreter that the Makefile may look for one that is too old."""
        for name in ("python3.13", "python3.12", "python3.11", "python3", "python"):
            self.with_python(name, OLD)

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run make there."""
        environment = {"PATH": f"{self.path}{os.pathsep}{os.environ['PATH']}", "TRACE": str(self.home / "trace")}
        command = ["make", *arguments]
        return subprocess.run(command, cwd=self.home, env=environment, capture_output=True, text=True, check=False)

    def trace(self) -> list[str]:
        """What the stand-ins were asked to make."""
        file = self.home / "trace"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One without any Python that is new enough."""
    made = Machine(tmp_path)
    made.without_pythons()
    return made


def test_the_newest_python_that_is_new_enough_makes_the_environment(machine: Machine) -> None:
    machine.with_python("python3.11", NEW)
    machine.with_python("python3", NEW)
    done = machine.make(".venv/bin/python")
    assert done.returncode == 0, done.stderr
    assert machine.trace() == [f"{machine.path}/python3.11 -m venv .venv"]


def test_an_environment_that_is_there_is_kept(machine: Machine) -> None:
    machine.with_python("python3.11", NEW)
    machine.make(".venv/bin/python")
    machine.make(".venv/bin/python")
    assert len(machine.trace()) == 1


def test_the_python_named_is_taken(machine: Machine) -> None:
    machine.with_python("python3.11", NEW)
    machine.with_python("mine", NEW)
    assert machine.make(".venv/bin/python", "PYTHON=mine").returncode == 0
    assert machine.trace() == [f"{machine.path}/mine -m venv .venv"]


def test_the_python_named_must_be_new_enough(machine: Machine) -> None:
    machine.with_python("python3.11", NEW)
    machine.with_python("mine", OLD)
    done = machine.make(".venv/bin/python", "PYTHON=mine")
    assert done.returncode != 0
    assert "No Python 3.11 or later found; tried: mine." in done.stderr
    assert machine.trace() == []


def test_without_a_new_enough_python_it_says_which_were_tried(machine: Machine) -> None:
    done = machine.make("test")
    assert done.returncode != 0
    assert "tried: python3.13 python3.12 python3.11 python3 python." in done.stderr
    assert not (machine.home / ".venv").exists()


def test_test_installs_then_lints_then_tests(machine: Machine) -> None:
    done = machine.make("-n", "test")
    steps = ["tests.gate.install", "ruff check", "ruff format --check", "mypy", "lint-imports", PYTEST]
    positions = [done.stdout.find(step) for step in steps]
    assert -1 not in positions
    assert positions == sorted(positions)
    assert done.stdout.rstrip().endswith(PYTEST), "pytest has the last word"


def test_test_all_adds_the_long_runs(machine: Machine) -> None:
    steps = machine.make("-n", "test-all", "STAGES=lint").stdout
    assert steps.rstrip().endswith("python -m tests.gate.full_run lint")
    for tool in ("integration.support.go", "integration.support.jars", "[dev,mutation]"):
        assert 0 < steps.find(tool) < steps.find("tests.gate.full_run")


def test_demo_needs_no_developer_tools(machine: Machine) -> None:
    steps = machine.make("-n", "demo").stdout
    assert "'.[demo]'" in steps
    assert "[dev]" not in steps
    assert steps.rstrip().endswith("kshim demo")


def test_demo_pipeline_needs_no_developer_tools_and_sets_spark_up_first(machine: Machine) -> None:
    steps = machine.make("-n", "demo-pipeline").stdout
    assert "'.[demo,pipeline]'" in steps
    assert "[dev" not in steps
    assert steps.rstrip().endswith("kshim pipeline setup\n.venv/bin/kshim pipeline demo")


def test_test_fetches_what_spark_needs(machine: Machine) -> None:
    steps = machine.make("-n", "test").stdout
    assert 0 < steps.find("kshim pipeline setup") < steps.find("pytest")


def test_clients_sets_go_and_node_up_first(machine: Machine) -> None:
    steps = machine.make("-n", "clients").stdout
    for tool in ("integration.support.go", "integration.support.node"):
        assert 0 < steps.find(tool) < steps.find("integration.clients.matrix")


def test_the_continuous_build_runs_make_test(tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "$PWD: make $*"\n')
    make.chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [ROOT / ".ci" / "run"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{ROOT}: make test\n"
