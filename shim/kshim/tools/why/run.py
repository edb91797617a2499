"""Reads, explains and prints."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Literal, NoReturn, TextIO
from zoneinfo import ZoneInfo

from kshim.explain import Incident, explain
from kshim.explain.document import document, incident_object
from kshim.explain.html import page
from kshim.explain.paragraph import paragraph
from kshim.explain.words import time_text
from kshim.page.from_facts import pictures
from kshim.tools.client import PLAINTEXT
from kshim.tools.client_security import Security
from kshim.tools.interrupts import signals_as_interrupts
from kshim.tools.logs import SourceError
from kshim.tools.logs.folder import FolderLogs
from kshim.tools.logs.source import opened
from kshim.tools.why.archive import Archive, ArchiveWriter
from kshim.tools.why.logs import LogLine, lines_of, rows_of
from kshim.tools.why.read import EVENTS_TOPIC, OFFSETS_TOPIC, read
from kshim.wording import counted

OutputFormat = Literal["text", "json", "html"]


def run_why(
    *,
    directories: Sequence[str] = (),
    bootstrap_server: tuple[str, int] | None = None,
    security: Security = PLAINTEXT,
    group: str | None = None,
    at_ms: int | None = None,
    since_ms: int | None = None,
    broker_logs: Sequence[str] = (),
    recorded: str | None = None,
    record: str | None = None,
    output: OutputFormat = "text",
    stream: TextIO | None = None,
) -> int:
    """Write why `group`, or all groups, rebalanced. Returns 0. Raises SourceError: there is nothing to read.

    `record`: a new file for what is read. `recorded`: such a file, to read instead of directories or a broker.
    """
    stream = stream or sys.stdout
    if recorded is not None:
        with closing(Archive(recorded, group)) as archive:
            lines = [*archive.lines(), *lines_of(broker_logs)]
            rows = tuple(rows_of(lines, ZoneInfo("UTC")))
            found = read(archive, group=group, log_rows=rows, presence=archive.presence())
            until_ms = archive.until_ms
    else:
        rows = tuple(rows_of(lines_of(broker_logs), ZoneInfo("UTC")))
        with opened(directories, bootstrap_server, client_id="why", security=security) as logs:
            if isinstance(logs, FolderLogs) and not any(map(logs.has, (OFFSETS_TOPIC, EVENTS_TOPIC))):
                raise SourceError(f"{logs} has no partition of {OFFSETS_TOPIC} or {EVENTS_TOPIC}")
            writer = None if record is None else ArchiveWriter(record, logs, group)
            found = read(writer or logs, group=group, log_rows=rows)
            until_ms = 0 if bootstrap_server is None else _now_ms()
            if writer is not None:
                writer.close(until_ms, (LogLine(row["line"], row["text"]) for row in rows))
    known = found.known if until_ms == 0 else found.known._replace(until_ms=until_ms)
    if group is not None and not known.facts and not found.has_group:
        raise SourceError(f"nothing is known of a group {group}")
    incidents = [each for each in explain(known) if _is_wanted(each, at_ms, since_ms)]
    if output != "text":
        answer = document(incidents, known.sources, found.since_ms, found.damaged)
        if output == "html":
            stream.write(page(answer, pictures(known, answer["incidents"], found.records)))
        else:
            stream.write(json.dumps(answer, ensure_ascii=False) + "\n")
        return 0
    for incident in incidents:
        stream.write(paragraph(incident_object(incident)) + "\n\n")
    limit = "" if found.since_ms is None else f", in what was written since {time_text(found.since_ms)}"
    sources = " and ".join(known.sources) or "nothing: there are no groups"
    damage = "" if not found.damaged else f"; damaged and read in part: {', '.join(found.damaged)}"
    stream.write(f"{counted(len(incidents), 'incident')}, from {sources}{limit}{damage}\n")
    return 0


def run_follow(
    *,
    bootstrap_server: tuple[str, int],
    security: Security = PLAINTEXT,
    group: str | None = None,
    interval_s: float = 5.0,
    record: str | None = None,
    output: Literal["text", "json"] = "text",
    stream: TextIO | None = None,
    messages: TextIO | None = None,
) -> NoReturn:
    """Write each incident of `group`, or of all groups, when it has ended, until it is interrupted.

    Reads every `interval_s`, and asks each second what rebalances. While the cluster cannot be reached it says so once, and
    goes on. Raises SourceError when it cannot be reached to begin with. `record`: a new file for what is read and sampled,
    whole when it is interrupted, by Ctrl-C, a plain `kill` or a terminal that closes.
    """
    from kshim.tools.logs.broker import BrokerLogs
    from kshim.tools.why.follow import GLANCE_S, Follower

    stream, messages = stream or sys.stdout, messages or sys.stderr
    with ExitStack() as stack:
        stack.enter_context(signals_as_interrupts())
        logs = stack.enter_context(closing(BrokerLogs(*bootstrap_server, client_id="why", security=security)))
        writer = None if record is None else ArchiveWriter(record, logs, group)
        if writer is not None:
            stack.callback(lambda: writer.close(_now_ms()))
        groups = None if group is None else frozenset({group})
        follower = Follower(logs, groups, interval_s=interval_s, archive=writer)
        follower.poll(_now_ms())
        print(f"watching {group or 'all groups'} of {logs} every {interval_s:g} s", file=messages, flush=True)
        is_lost = False
        while True:
            time.sleep(min(GLANCE_S, interval_s))
            try:
                ended = follower.poll(_now_ms())
            except SourceError as error:
                if not is_lost:
                    print(f"kshim: {error}; trying again", file=messages, flush=True)
                is_lost = True
                continue
            is_lost = False
            for incident in ended:
                told = incident_object(incident)
                text = paragraph(told) + "\n" if output == "text" else json.dumps(told, ensure_ascii=False)
                stream.write(text + "\n")
            stream.flush()


def _now_ms() -> int:
    return int(time.time() * 1_000)


def _is_wanted(incident: Incident, at_ms: int | None, since_ms: int | None) -> bool:
    if at_ms is not None and not incident.from_ms <= at_ms <= _end_ms(incident):
        return False
    return since_ms is None or _end_ms(incident) >= since_ms


def _end_ms(incident: Incident) -> int:
    return max(incident.to_ms, *(each.fact.ts_ms for each in incident.disturbances))
