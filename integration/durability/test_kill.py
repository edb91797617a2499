"""A broker that is killed again and again, under load, loses nothing it acknowledged."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("policy", "kills"),
    [
        ("interval", 6),
        pytest.param("interval", 200, marks=[pytest.mark.long, pytest.mark.timeout(1_800)]),
        pytest.param("always", 50, marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
def test_what_was_acknowledged_before_a_kill_is_there_after_it(policy: str, kills: int) -> None:
    command = [sys.executable, "-m", "integration.durability.run", f"--kills={kills}", f"--fsync={policy}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4_000:]
    print(ended.stdout)
