"""What the report of `kshim conform` says of a broker and of each behaviour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kshim.tools.report import Entry, Heading
from kshim.tools.scenario.verdict import Failure, Result
from kshim.wording import counted


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
    if result.missing:
        facts["missing_configuration"] = list(result.missing)
    details: list[str] = []
    if result.failure is not None:
        facts["failure"] = {**result.failure._asdict(), "differences": list(result.failure.differences)}
        details = _failure_lines(scenario.name, result.failure)
    return Entry(
        scenario.suite, scenario.name, scenario.title, result.verdict, result.seconds, result.reason, details, facts
    )


def note_of(results: Iterable[Result], *, unplayed: int) -> str:
    """The last lines: how many behaviours are `unplayed`, and which settings would let skipped ones run."""
    lines = []
    if unplayed:
        lines.append(
            f"Not part of conform: {counted(unplayed, 'behaviour')} that would take too long or would need a failing disk, which kshim's own "
            "tests check"
        )
    missing = Counter(result.missing for result in results if result.missing)
    if missing:
        lines.append("Skipped for the broker's configuration; on kshim these options let them run:")
    for settings, behaviours in sorted(missing.items()):
        options = " ".join(f"--config {setting}" for setting in settings)
        lines.append(f"  {counted(behaviours, 'behaviour')}: kshim serve {options}")
    return "\n".join(lines)


def _failure_lines(name: str, failure: Failure) -> list[str]:
    where = f"{name}.txt, line {failure.line}: " if failure.line else ""
    return [
        f"{where}{' '.join(failure.step.split())}",
        f"  expected  {failure.expected}",
        f"  received  {failure.seen}",
    ]
