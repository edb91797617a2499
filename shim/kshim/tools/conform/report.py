"""What the report of `kshim conform` says of a broker and of each behaviour."""

from __future__ import annotations

from typing import Any

from kshim.tools.report import Entry, Heading
from kshim.tools.scenario.verdict import Failure, Result


def heading_of(bootstrap_server: str) -> Heading:
    """Which broker, and compared with what."""
    return Heading(
        f"Group protocol of {bootstrap_server}, compared with Apache Kafka 4.4",
        f"kshim conform {bootstrap_server}",
        {"bootstrap_server": bootstrap_server},
    )


def entry_of(result: Result) -> Entry:
    """A result as an entry of the report."""
    scenario = result.scenario
    facts: dict[str, Any] = {"rules": list(scenario.rules)}
    details: list[str] = []
    if result.failure is not None:
        facts["failure"] = {**result.failure._asdict(), "differences": list(result.failure.differences)}
        details = _failure_lines(scenario.name, result.failure)
    return Entry(
        scenario.suite, scenario.name, scenario.title, result.verdict, result.seconds, result.reason, details, facts
    )


def _failure_lines(name: str, failure: Failure) -> list[str]:
    where = f"{name}.txt, line {failure.line}: " if failure.line else ""
    return [
        f"{where}{' '.join(failure.step.split())}",
        f"  expected  {failure.expected}",
        f"  received  {failure.seen}",
    ]
