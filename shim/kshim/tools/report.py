"""Reports of behaviours and their verdicts, as text, JSON or JUnit XML: what `kshim conform` and `conform-client` write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TextIO

from kshim.wording import counted


class Verdict(Enum):
    """How a behaviour was judged."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Entry(NamedTuple):
    """One behaviour that was judged."""

    suite: str
    name: str
    title: str
    verdict: Verdict
    seconds: float
    reason: str = ""
    """Why it was skipped."""
    details: Sequence[str] = ()
    """Lines that say what went wrong."""
    facts: Mapping[str, Any] = MappingProxyType({})
    """More, for JSON only."""


class Heading(NamedTuple):
    """What was judged: a sentence, the name for JUnit ("kshim", the command, and on what), and fields for JSON."""

    sentence: str
    name: str
    fields: Mapping[str, Any]

    @property
    def classes(self) -> str:
        """What stands before the names of suites in JUnit."""
        return self.name.split()[1]


class Report(Protocol):
    """Created for one run; receives each entry in order, then `end`."""

    def __init__(self, heading: Heading, stream: TextIO) -> None: ...

    def add(self, entry: Entry) -> None:
        """One more behaviour."""

    def end(self, *, note: str = "", fields: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Called at the end, with a last sentence, and further fields for JSON."""


class TextReport:
    """A line per behaviour, by suite; below a failed one what was expected and received."""

    def __init__(self, heading: Heading, stream: TextIO) -> None:
        self.stream = stream
        self.suite = ""
        self.counts: Counter[Verdict] = Counter()
        self.write(heading.sentence)

    def write(self, line: str = "") -> None:
        """Write one line and flush it."""
        self.stream.write(line.rstrip() + "\n")
        self.stream.flush()

    def add(self, entry: Entry) -> None:
        """Verdict and title; why it was skipped, or how it failed."""
        self.counts[entry.verdict] += 1
        if entry.suite != self.suite:
            self.suite = entry.suite
            self.write()
            self.write(self.suite)
        word = entry.verdict.value.upper() if entry.verdict is Verdict.FAILED else entry.verdict.value
        self.write(f"  {word:<8} {entry.title}")
        for line in (entry.reason, *entry.details):
            if line:
                self.write(f"           {line}")

    def end(self, *, note: str = "", fields: Mapping[str, Any] = MappingProxyType({})) -> None:
        """The numbers."""
        count = self.counts
        self.write()
        self.write(
            f"{counted(count.total(), 'behaviour')}: {count[Verdict.PASSED]} passed, {count[Verdict.FAILED]} failed, "
            f"{count[Verdict.SKIPPED]} skipped"
        )
        if note:
            self.write(note)


class JsonReport:
    """One object with the numbers and a list of behaviours."""

    def __init__(self, heading: Heading, stream: TextIO) -> None:
        self.heading = heading
        self.stream = stream
        self.entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        """Kept until the end."""
        self.entries.append(entry)

    def end(self, *, note: str = "", fields: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Write it all."""
        import json

        counts = Counter(entry.verdict for entry in self.entries)
        report = {
            **self.heading.fields,
            **{verdict.value: counts[verdict] for verdict in Verdict},
            **fields,
            "behaviours": [_as_object(entry) for entry in self.entries],
        }
        json.dump(report, self.stream, indent=2, ensure_ascii=False)
        self.stream.write("\n")


def _as_object(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": entry.name,
        "suite": entry.suite,
        "title": entry.title,
        "verdict": entry.verdict.value,
        "seconds": round(entry.seconds, 3),
    }
    if entry.reason:
        found["reason"] = entry.reason
    return found | dict(entry.facts)


class JunitReport:
    """A `testsuite` a suite, a `testcase` a behaviour."""

    def __init__(self, heading: Heading, stream: TextIO) -> None:
        self.heading = heading
        self.stream = stream
        self.suites: dict[str, list[Entry]] = {}

    def add(self, entry: Entry) -> None:
        """Kept until the end."""
        self.suites.setdefault(entry.suite, []).append(entry)

    def end(self, *, note: str = "", fields: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Write it all."""
        from xml.etree import ElementTree as Xml

        root = Xml.Element("testsuites", name=self.heading.name)
        for name, entries in self.suites.items():
            counts = Counter(entry.verdict for entry in entries)
            suite = Xml.SubElement(
                root,
                "testsuite",
                name=name,
                tests=str(len(entries)),
                failures=str(counts[Verdict.FAILED]),
                skipped=str(counts[Verdict.SKIPPED]),
                time=f"{sum(entry.seconds for entry in entries):.3f}",
            )
            for entry in entries:
                self._add_testcase(suite, entry)
        Xml.indent(root)
        self.stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        self.stream.write(_without_control_characters(Xml.tostring(root, encoding="unicode")) + "\n")

    def _add_testcase(self, suite: Any, entry: Entry) -> None:
        from xml.etree import ElementTree as Xml

        classname = f"{self.heading.classes}.{entry.suite}"
        case = Xml.SubElement(suite, "testcase", classname=classname, name=entry.name, time=f"{entry.seconds:.3f}")
        if entry.verdict is Verdict.FAILED:
            failure = Xml.SubElement(case, "failure", message=entry.title)
            failure.text = "\n".join(entry.details)
        elif entry.verdict is Verdict.SKIPPED:
            Xml.SubElement(case, "skipped", message=entry.reason)


def _without_control_characters(text: str) -> str:
    """XML 1.0 has no way to write most of them."""
    return "".join(sign if sign >= " " or sign in "\n\t" else "\ufffd" for sign in text)


REPORTS: dict[str, type[Report]] = {"text": TextReport, "json": JsonReport, "junit": JunitReport}
