"""Plays a scenario file in a test, against brokers whose clock may be moved."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from kshim.tools.report import Verdict
from kshim.tools.scenario.parse import parse_scenario
from kshim.tools.scenario.wire import play


def assert_scenario(
    path: str | PathLike[str], bootstrap_servers: str, *, advance: Callable[[float], object] | None = None
) -> None:
    """Play a scenario file, such as `kshim replay --to-test` writes, and compare every answer with what it expects.

    `advance` moves the clock of the brokers, as `kshim.clock.advance` does; without it, the time of the scenario is
    waited for. Raises AssertionError, which says where it went another way, or why it cannot be played; ScenarioError
    for a file that cannot be read; OSError.
    """
    file = Path(path)
    scenario = parse_scenario(file.stem, file.read_text(encoding="utf-8"))
    host, _, port = bootstrap_servers.partition(",")[0].rpartition(":")
    result = play(scenario, host.strip("[]"), int(port), is_kshim=True, advance=advance)
    if result.verdict is Verdict.SKIPPED:
        raise AssertionError(f"{file}: {result.reason}")
    if result.failure is not None:
        raise AssertionError(f"{file}: {result.failure}")
