"""A broker that is killed again and again under a share group keeps what it has answered."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("policy", "kills"),
    [
        ("interval", 5),
        pytest.param("interval", 100, marks=[pytest.mark.long, pytest.mark.timeout(1_800)]),
        pytest.param("always", 30, marks=[pytest.mark.long, pytest.mark.timeout(1_800)]),
    ],
)
def test_what_was_acknowledged_is_not_delivered_again_and_nothing_is_lost(policy: str, kills: int) -> None:
    command = [sys.executable, "-m", "integration.share_groups.kill", f"--kills={kills}", f"--fsync={policy}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4_000:]
    print(ended.stdout)
