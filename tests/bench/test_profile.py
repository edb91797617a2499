"""The profile of a request over a socket: every part of its way is seen, and what is told adds up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.profile import MEASURABLE, ORDER, part_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("measure", ["produce-1", "end-to-end"])
def test_the_parts_of_a_request_make_up_its_cpu(measure: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.profile", measure, "--seconds", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    head, row = (line.split() for line in done.stdout.splitlines())
    assert head[2:] == list(ORDER)
    percent = dict(zip(ORDER, (float(part.rstrip("%")) for part in row[2:]), strict=True))
    assert float(row[1]) > 0
    assert 95 < sum(percent.values()) < 105
    assert percent["kernel"] > 0
    assert percent["framing"] > 0


def test_a_stack_belongs_to_its_innermost_frame_that_tells() -> None:
    frame = sys._getframe()
    assert part_of(frame) == "other"
    assert part_of(None) == "other"
    scope: dict[str, object] = {"part_of": part_of, "sys": sys}
    exec(compile("seen = part_of(sys._getframe())", "/site/kshim/storage/file_log.py", "exec"), scope)
    assert scope["seen"] == "log"


def test_every_measure_can_be_profiled_but_those_of_members_that_wait_for_each_other() -> None:
    assert {"heartbeat", "produce-1", "fetch-1", "api-versions", "metadata"} <= set(MEASURABLE)
    assert "join-100" not in MEASURABLE
