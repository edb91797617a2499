"""Runs all scenarios against one broker, several at a time, and reports them in order."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, TextIO

from kshim.tools.client import PLAINTEXT, Client
from kshim.tools.client_security import Security
from kshim.tools.conform.report import entry_of, heading_of, note_of
from kshim.tools.report import REPORTS, Verdict
from kshim.tools.scenario.library import load_scenarios
from kshim.tools.scenario.model import Scenario
from kshim.tools.scenario.parse import parse_scenario
from kshim.tools.scenario.verdict import Result
from kshim.tools.scenario.wire import play
from kshim_protocol.apis import API_TABLE

OutputFormat = Literal["text", "json", "junit"]


class UnknownName(Exception):
    """There is no such suite, API or version; `str(error)` says what there is."""


def run_conform(
    host: str,
    port: int,
    *,
    suites: Sequence[str] = (),
    assume: Mapping[str, str] | None = None,
    caps: Mapping[str, str] | None = None,
    jobs: int = 8,
    output: OutputFormat = "text",
    stream: TextIO | None = None,
    files: Sequence[str] = (),
    security: Security = PLAINTEXT,
) -> int:
    """Check a broker and write the report to `stream` (default: stdout).

    `caps` is the newest version to speak of an API, by the API's name. `files` are scenario files to play instead of those of
    the suites.

    Returns the exit code: 0 when all that could be played passed, 1 when something failed or nothing could be played.
    Raises UnknownName, also for a file that cannot be read, and BrokerGone when the broker cannot be reached.
    """
    scenarios = list(map(_read, files)) if files else load_scenarios()
    wanted = select(scenarios, suites)
    keyed = _caps(caps or {})
    Client(host, port, client_id="conform", security=security).close()
    report = REPORTS[output](heading_of(f"{host}:{port}"), stream or sys.stdout)
    results = []
    for result in conform(wanted, host, port, assume=assume or {}, caps=keyed, jobs=jobs, security=security):
        report.add(entry_of(result))
        results.append(result)
    unplayed = sum(scenario.limit_ms is None for scenario in scenarios) if not suites else 0
    report.end(note=note_of(results, unplayed=unplayed), fields={"virtual_only": unplayed})
    has_failed = any(result.verdict is Verdict.FAILED for result in results)
    has_passed = any(result.verdict is Verdict.PASSED for result in results)
    return 0 if has_passed and not has_failed else 1


def _read(file: str) -> Scenario:
    """Raises UnknownName."""
    try:
        return parse_scenario(Path(file).stem, Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise UnknownName(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise UnknownName(f"{file}: {error}") from None


def select(scenarios: Sequence[Scenario], suites: Sequence[str]) -> list[Scenario]:
    """Those that can be asked of a broker, suite by suite; all suites when none is named. Raises UnknownName."""
    known = sorted({scenario.suite for scenario in scenarios if scenario.limit_ms is not None})
    for suite in suites:
        if suite not in known:
            raise UnknownName(f"unknown suite {suite}; the suites are {', '.join(known)}")
    chosen = [
        scenario for scenario in scenarios if scenario.limit_ms is not None and scenario.suite in (suites or known)
    ]
    return sorted(chosen, key=lambda scenario: (scenario.suite, scenario.name))


def _caps(versions: Mapping[str, str]) -> dict[int, int]:
    """API name -> version as text, by API key. Raises UnknownName."""
    found = {}
    for name, version in versions.items():
        api = next((api for api in API_TABLE.values() if api.name == name), None)
        if api is None or not version.isdecimal() or not api.min_version <= int(version) <= api.max_version:
            raise UnknownName(f"{name}={version} is not an API with one of its versions, such as JoinGroup=5")
        found[api.key] = int(version)
    return found


def conform(
    scenarios: Sequence[Scenario],
    host: str,
    port: int,
    *,
    assume: Mapping[str, str] | None = None,
    caps: Mapping[int, int] | None = None,
    jobs: int = 8,
    is_kshim: bool = False,
    security: Security = PLAINTEXT,
) -> Iterator[Result]:
    """The results in the order of `scenarios`, each as soon as it is known; up to `jobs` are played at a time."""
    executor = ThreadPoolExecutor(jobs)
    try:
        # The longest begin first, so that none is left over at the end.
        by_length = sorted(scenarios, key=lambda scenario: -(scenario.limit_ms or 0))
        futures = {
            scenario.name: executor.submit(
                play, scenario, host, port, assume=assume, caps=caps, is_kshim=is_kshim, security=security
            )
            for scenario in by_length
        }
        for scenario in scenarios:
            yield futures[scenario.name].result()
    finally:
        executor.shutdown(cancel_futures=True)
