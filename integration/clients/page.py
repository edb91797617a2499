"""The matrix as it is printed, and as docs/clients.md has it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from integration.clients.catalogue import CLASSIC, CONSUMER, Client
from integration.clients.running import CANNOT, FAIL, MISSING, OK, Outcome
from integration.clients.situation import Situation
from integration.clients.spark import SparkRow

BOTH_FAIL = "fails on both"
_CONSUMER_PROTOCOL = (
    "## With the consumer group protocol",
    "",
    "`group.protocol=consumer` (KIP-848), with the clients that have it. What needs no group is not played again.",
)


class Reference(NamedTuple):
    """Which broker kshim is compared with, and when that ran."""

    broker: str
    date: str


class Report(NamedTuple):
    """All that was found."""

    clients: Sequence[Client]
    situations: Sequence[Situation]
    outcomes: Sequence[Outcome]
    reference: Reference
    spark: tuple[str, Sequence[SparkRow]] | None = None
    """Version and rows."""

    def outcome(self, client: Client, situation: Situation, broker: str) -> Outcome | None:
        """None where it was not run."""
        for outcome in self.outcomes:
            if (outcome.client, outcome.situation, outcome.broker) == (client.name, situation.name, broker):
                return outcome
        return None

    def version(self, client: Client) -> str:
        """The client's, as its driver said."""
        return next((each.version for each in self.outcomes if each.client == client.name and each.version), "")


def cell(report: Report, client: Client, situation: Situation) -> str:
    """One verdict where both brokers agree; else each with its broker, also where only one was asked."""
    verdicts = {}
    for broker in ("kshim", "kafka"):
        if (outcome := report.outcome(client, situation, broker)) is not None:
            verdicts[broker] = outcome.verdict
    if len(verdicts) == 2 and len(set(verdicts.values())) == 1:
        (verdict,) = set(verdicts.values())
        return BOTH_FAIL if verdict == FAIL else verdict
    return ", ".join(f"{broker} {verdict}" for broker, verdict in verdicts.items())


def failures_of_kshim_alone(report: Report) -> list[Outcome]:
    """Where kshim fails and Kafka does not (or was not asked); what Spark's suite finds, which compares both."""
    found = [
        Outcome("Spark", row.title, "kshim", FAIL, row.detail, 0.0, "")
        for row in (report.spark[1] if report.spark else ())
        if row.verdict == FAIL
    ]
    for outcome in report.outcomes:
        if outcome.broker != "kshim" or outcome.verdict != FAIL:
            continue
        kafka = [each for each in report.outcomes if each[:2] == outcome[:2] and each.broker == "kafka"]
        if not any(each.verdict == FAIL for each in kafka):
            found.append(outcome)
    return found


def printed(report: Report) -> str:
    """Columns of a fixed width, and below them each failure."""
    lines = []
    for part in _by_protocol(report):
        names = [client.key for client in part.clients]
        rows = [
            [situation.name, *(cell(report, client, situation) for client in part.clients)]
            for situation in part.situations
        ]
        widths = [max(map(len, column)) for column in zip(*[["", *names], *rows], strict=True)]
        lines += [
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
            for row in [["", *names], *rows]
        ]
        lines.append("")
    lines += [
        f"{each.broker}: {each.client}: {each.situation}: {each.detail}"
        for each in report.outcomes
        if each.verdict == FAIL
    ]
    if report.spark:
        lines += [f"Spark {report.spark[0]}: {row.title}: {row.verdict} {row.detail}" for row in report.spark[1]]
    lines.append(_totals(report))
    return "\n".join(lines)


def markdown(report: Report) -> str:
    """The page."""
    lines = [
        "# Clients",
        "",
        "What each client library does on kshim, beside what it does on Kafka. Written by `make clients`; how it works:"
        " [the client matrix](design/clients.md).",
        f"Reference: {report.reference.broker}, run {report.reference.date}.",
        "",
        "`ok`: passed on both. `-`: the client cannot express it (why: below). `fails on both`: by the client's own"
        " doing (why: below). `n/a`: not installed where this was run. Where the brokers differ, both are named; where one"
        " is named, the other was not asked.",
        "",
    ]
    for part in _by_protocol(report):
        if part.protocol == CONSUMER:
            lines += [*_CONSUMER_PROTOCOL, ""]
        lines += _table(report, part)
        lines.append("")
    lines += [_totals(report), *_spark(report), *_cannot(report), *_fail_on_both(report)]
    lines += [*_failures(report), *_missing(report)]
    return "\n".join(lines) + "\n"


class _Part(NamedTuple):
    """What is played with one group protocol."""

    protocol: str
    clients: Sequence[Client]
    situations: Sequence[Situation]


def _by_protocol(report: Report) -> list[_Part]:
    parts = []
    for protocol in (CLASSIC, CONSUMER):
        clients = [each for each in report.clients if each.group_protocol == protocol]
        situations = [each for each in report.situations if protocol in each.protocols]
        if clients and situations:
            parts.append(_Part(protocol, clients, situations))
    return parts


def _table(report: Report, part: _Part) -> list[str]:
    heads = [f"{client.library} {report.version(client)}".strip() for client in part.clients]
    lines = ["| Situation | " + " | ".join(heads) + " |", "|--" * (len(heads) + 1) + "|"]
    for situation in part.situations:
        cells = (cell(report, client, situation) for client in part.clients)
        lines.append(f"| {situation.title} | " + " | ".join(cells) + " |")
    return lines


def save_reference(path: Path, reference: Reference, outcomes: Iterable[Outcome]) -> None:
    """What Kafka did, with when and which."""
    kept = [each._asdict() for each in outcomes if each.broker == "kafka"]
    path.write_text(json.dumps({**reference._asdict(), "outcomes": kept}, indent=1) + "\n")


def load_reference(path: Path) -> tuple[Reference, list[Outcome]]:
    """What `save_reference` wrote."""
    kept = json.loads(path.read_text())
    return Reference(kept["broker"], kept["date"]), [Outcome(**each) for each in kept["outcomes"]]


def _totals(report: Report) -> str:
    parts = []
    for broker in ("kshim", "kafka"):
        verdicts = [each.verdict for each in report.outcomes if each.broker == broker]
        if verdicts:
            counted = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in (OK, FAIL, CANNOT, MISSING))
            parts.append(f"{broker}: {counted}")
    return "; ".join(parts) + "."


def _cannot(report: Report) -> list[str]:
    titles = {situation.name: situation.title for situation in report.situations}
    found: dict[tuple[str, str], list[str]] = {}
    for each in report.outcomes:
        if each.verdict == CANNOT:
            told = found.setdefault((each.client, each.detail), [])
            if (title := titles[each.situation]) not in told:
                told.append(title)
    if not found:
        return []
    lines = ["", "## What clients cannot express", ""]
    return lines + [f"- {client}, *{'*, *'.join(told)}*: {detail}" for (client, detail), told in sorted(found.items())]


def _spark(report: Report) -> list[str]:
    if report.spark is None:
        return []
    version, rows = report.spark
    lines = ["", f"## Spark {version}, source and sink", ""]
    lines += [
        "Each test asks both brokers for the same and compares (`integration/spark/test_source_and_sink.py`).",
        "",
    ]
    return [*lines, "| Test | |", "|--|--|", *(f"| {row.title} | {row.verdict} |" for row in rows)]


def _fail_on_both(report: Report) -> list[str]:
    lines = []
    for situation in report.situations:
        for client in report.clients:
            if cell(report, client, situation) == BOTH_FAIL:
                outcome = report.outcome(client, situation, "kafka")
                assert outcome is not None
                why = client.fails_on_both(situation.name) or _inline(outcome.detail)
                lines.append(f"- {client.name}, *{situation.title}*: {why}")
    return ["", "## What fails on both brokers", "", *lines] if lines else []


def _failures(report: Report) -> list[str]:
    both = {
        (client.name, situation.name)
        for client in report.clients
        for situation in report.situations
        if cell(report, client, situation) == BOTH_FAIL
    }
    failed = [each for each in report.outcomes if each.verdict == FAIL and each[:2] not in both]
    if not failed:
        return []
    lines = ["", "## Failures", ""]
    return lines + [f"- {each.broker}, {each.client}, `{each.situation}`: {_inline(each.detail)}" for each in failed]


def _missing(report: Report) -> list[str]:
    missing = sorted({(each.client, each.detail) for each in report.outcomes if each.verdict == MISSING})
    return ["", *(f"{client} is not installed here: {detail}" for client, detail in missing)] if missing else []


def _inline(text: str) -> str:
    return "`" + text.replace("`", "'")[:300] + "`"
