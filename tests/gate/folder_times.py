"""A pytest plugin: with `--durations`, the summary says how many tests each folder has and how long they took.

Seconds are those of setup, call and teardown added up, so four workers spend four of them a second.
"""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

DEPTH = 2
"""`tests/broker/handlers/test_fetch.py` counts for `tests/broker`."""


class FolderTimes:
    """Adds up what the reports say."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._tests: dict[str, set[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = folder_of(report.nodeid)
        self._seconds[folder] = self._seconds.get(folder, 0.0) + report.duration
        self._tests.setdefault(folder, set()).add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("time of each folder")
        for folder, seconds in sorted(self._seconds.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{seconds:8.1f}s {len(self._tests[folder]):>6} tests  {folder}")


def folder_of(nodeid: str) -> str:
    """The folder that a test is counted for."""
    parents = PurePosixPath(nodeid.partition("::")[0]).parent.parts
    return "/".join(parents[:DEPTH]) or "."


def pytest_configure(config: pytest.Config) -> None:
    """Take part where durations are asked for, once: the workers of xdist send their reports to the main process."""
    if config.getoption("durations") is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FolderTimes(), "folder-times")
