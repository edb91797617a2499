"""Processes of services, here of a program that only waits for its end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from integration.real_incidents.hosts import Host
from integration.real_incidents.processes import Process

_UNTIL_STOPPED = [sys.executable, "-c", "import sys; sys.stdin.readline()"]


def test_a_process_that_is_told_to_stop_does_not_end_by_itself(tmp_path: Path) -> None:
    process = Process(Host(1, 1, 2), "orders", None)
    process.start(_UNTIL_STOPPED, {}, tmp_path / "log")
    assert process.is_running
    assert not process.is_to_end
    asyncio.run(process.stop())
    assert not process.is_running
    assert process.is_to_end
