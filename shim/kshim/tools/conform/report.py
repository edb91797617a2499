"""The report of `kshim conform`, as text, JSON or JUnit XML."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol, TextIO

from kshim.tools.scenario.verdict import Failure, Result, Verdict


class Report(Protocol):
    """Created for one broker; receives each result in order, then `end`."""

    def __init__(self, bootstrap_server: str, stream: TextIO) -> None: ...

    def add(self, result: Result) -> None:
        """One more behaviour."""

    def end(self, *, unplayed: int) -> None:
        """Called at the end; `unplayed` scenarios cannot be run over the network."""


class TextReport:
    """A line per behaviour, by suite; below a failed one what was expected and received."""

    def __init__(self, bootstrap_server: str, stream: TextIO) -> None:
        self.stream = stream
        self.suite = ""
        self.counts: Counter[Verdict] = Counter()
        self.missing: Counter[tuple[str, ...]] = Counter()
        self.write(f"Group protocol of {bootstrap_server}, compared with Apache Kafka 4.4")

    def write(self, line: str = "") -> None:
        """Write one line and flush it."""
        self.stream.write(line.rstrip() + "\n")
        self.stream.flush()

    def add(self, result: Result) -> None:
        """Verdict and title; why it was skipped, or how it failed."""
        scenario = result.scenario
        self.counts[result.verdict] += 1
        if result.missing:
            self.missing[result.missing] += 1
        if scenario.suite != self.suite:
            self.suite = scenario.suite
            self.write()
            self.write(self.suite)
        word = result.verdict.value.upper() if result.verdict is Verdict.FAILED else result.verdict.value
        self.write(f"  {word:<8} {scenario.title}")
        if result.reason:
            self.write(f"           {result.reason}")
        if result.failure is not None:
            for line in _failure_lines(scenario.name, result.failure):
                self.write(f"           {line}")

    def end(self, *, unplayed: int) -> None:
        """The numbers, and what would let skipped behaviours run."""
        count = self.counts
        self.write()
        self.write(
            f"{count.total()} behaviours: {count[Verdict.PASSED]} passed, {count[Verdict.FAILED]} failed, "
            f"{count[Verdict.SKIPPED]} skipped"
        )
        if unplayed:
            self.write(
                f"Not part of conform: {unplayed} behaviours that take too long or need a failing disk, which kshim's own "
                "tests check"
            )
        if self.missing:
            self.write("Skipped for the broker's configuration; on kshim these options let them run:")
        for settings, behaviours in sorted(self.missing.items()):
            options = " ".join(f"--config {setting}" for setting in settings)
            self.write(f"  {behaviours} behaviour{'s' * (behaviours > 1)}: kshim serve {options}")


def _failure_lines(name: str, failure: Failure) -> list[str]:
    where = f"{name}.txt, line {failure.line}: " if failure.line else ""
    return [
        f"{where}{' '.join(failure.step.split())}",
        f"  expected  {failure.expected}",
        f"  received  {failure.seen}",
    ]


class JsonReport:
    """One object with the numbers and a list of behaviours."""

    def __init__(self, bootstrap_server: str, stream: TextIO) -> None:
        self.bootstrap_server = bootstrap_server
        self.stream = stream
        self.results: list[Result] = []

    def add(self, result: Result) -> None:
        """Kept until the end."""
        self.results.append(result)

    def end(self, *, unplayed: int) -> None:
        """Write it all."""
        import json

        counts = Counter(result.verdict for result in self.results)
        report = {
            "bootstrap_server": self.bootstrap_server,
            **{verdict.value: counts[verdict] for verdict in Verdict},
            "virtual_only": unplayed,
            "behaviours": [_as_object(result) for result in self.results],
        }
        json.dump(report, self.stream, indent=2, ensure_ascii=False)
        self.stream.write("\n")


def _as_object(result: Result) -> dict[str, Any]:
    scenario = result.scenario
    found: dict[str, Any] = {
        "name": scenario.name,
        "suite": scenario.suite,
        "title": scenario.title,
        "rules": list(scenario.rules),
        "verdict": result.verdict.value,
        "seconds": round(result.seconds, 3),
    }
    if result.reason:
        found["reason"] = result.reason
    if result.missing:
        found["missing_configuration"] = list(result.missing)
    if result.failure is not None:
        found["failure"] = {**result.failure._asdict(), "differences": list(result.failure.differences)}
    return found


class JunitReport:
    """A `testsuite` a suite, a `testcase` a behaviour."""

    def __init__(self, bootstrap_server: str, stream: TextIO) -> None:
        self.bootstrap_server = bootstrap_server
        self.stream = stream
        self.suites: dict[str, list[Result]] = {}

    def add(self, result: Result) -> None:
        """Kept until the end."""
        self.suites.setdefault(result.scenario.suite, []).append(result)

    def end(self, *, unplayed: int) -> None:
        """Write it all."""
        from xml.etree import ElementTree as Xml

        root = Xml.Element("testsuites", name=f"kshim conform {self.bootstrap_server}")
        for name, results in self.suites.items():
            counts = Counter(result.verdict for result in results)
            suite = Xml.SubElement(
                root,
                "testsuite",
                name=name,
                tests=str(len(results)),
                failures=str(counts[Verdict.FAILED]),
                skipped=str(counts[Verdict.SKIPPED]),
                time=f"{sum(result.seconds for result in results):.3f}",
            )
            for result in results:
                _add_testcase(suite, result)
        Xml.indent(root)
        self.stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        self.stream.write(_without_control_characters(Xml.tostring(root, encoding="unicode")) + "\n")


def _add_testcase(suite: Any, result: Result) -> None:
    from xml.etree import ElementTree as Xml

    scenario = result.scenario
    case = Xml.SubElement(
        suite, "testcase", classname=f"conform.{scenario.suite}", name=scenario.name, time=f"{result.seconds:.3f}"
    )
    if result.failure is not None:
        failure = Xml.SubElement(case, "failure", message=scenario.title)
        failure.text = "\n".join(_failure_lines(scenario.name, result.failure))
    elif result.verdict is Verdict.SKIPPED:
        Xml.SubElement(case, "skipped", message=result.reason)


def _without_control_characters(text: str) -> str:
    """XML 1.0 has no way to write most of them."""
    return "".join(sign if sign >= " " or sign in "\n\t" else "\ufffd" for sign in text)


REPORTS: dict[str, type[Report]] = {"text": TextReport, "json": JsonReport, "junit": JunitReport}
