"""What `pytest --quick` leaves out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate.quick import PATHS

ROOT = Path(__file__).resolve().parents[2]

JAVA = "import pytest\n@pytest.mark.java\ndef test_java(): pass\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One with a test in every kind of place."""
    for name in ("tests/broker/test_node.py", "tests/broker/test_like_kafka.py", "tests/simulation/test_seeds.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"def test_{Path(name).stem}(): pass\n")
    (tmp_path / "tests/broker/test_jvm.py").write_text(JAVA)
    plugins = "-p tests.gate.quick -p no:randomly -p no:hypothesispytest"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\naddopts = {plugins}\nmarkers = java\n")
    return tmp_path


@pytest.mark.parametrize(("options", "passed"), [((), 4), (("--quick",), 1)], ids=["all", "quick"])
def test_folders_files_and_markers_are_left_out(project: Path, options: tuple[str, ...], passed: int) -> None:
    command = [sys.executable, "-m", "pytest", "-q", *options, "tests"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    assert f"{passed} passed" in done.stdout


def test_every_path_is_there() -> None:
    assert [path for path in PATHS if not list(ROOT.glob(path))] == []
