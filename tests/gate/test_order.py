"""The plugin that has the longest files begin first, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.gate.order import FIRST

ROOT = Path(__file__).resolve().parents[2]


def test_files_of_the_folders_named_come_first_in_their_order(tmp_path: Path) -> None:
    for name in ("tests/broker/test_node.py", "tests/pipeline/test_decode.py", "integration/spark/test_source.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("def test_it(): pass\n")
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT}\naddopts = -p tests.gate.order -p no:hypothesispytest\n"
    )
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "tests", "integration"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    collected = [line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line]
    assert collected == [
        "integration/spark/test_source.py",
        "tests/pipeline/test_decode.py",
        "tests/broker/test_node.py",
    ]


def test_every_folder_is_there() -> None:
    assert [folder for folder in FIRST if not (ROOT / folder).is_dir()] == []
