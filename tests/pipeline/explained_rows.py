"""Rows of one group, as they are brought to the diagnosis: sessions of 10 s, max.poll of 20 s, hosts ha, hb ..."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from kshim.explain.sources.log_lines import parse_line
from kshim_pipeline.diagnosis.explained import Found, found_of, incident_rows
from kshim_pipeline.diagnosis.facts import Entry, Told, entries_of
from kshim_pipeline.schemas import EVENTS, LOG_LINES
from tests.pipeline.model_rows import event

Row = dict[str, Any]


def a_member(name: str, **fields: Any) -> Row:
    """Member `name`, e.g. `a` or, in a later life, `a.2`: client `a` on host `ha`."""
    client = name.partition(".")[0]
    made: Row = {
        "member_id": name,
        "client_id": client,
        "host": f"h{client}",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "instance_id": None,
        "topics": ["t"],
    }
    return made | fields


def a_snapshot(
    number: int, ts_ms: int, *members: Row, commits: Mapping[str, int] | None = None, partitions: int = 6
) -> list[Row]:
    """A GROUP_RECORD; its first member leads. `commits`: the last ones of members before the next record."""
    return [
        {
            "number": number,
            "ts_ms": ts_ms,
            "generation_id": number,
            "leader_id": members[0]["member_id"] if members else None,
            "protocol": "range" if members else None,
            "joined_ms": ts_ms if members else None,
            "evidence": {"topic": "__consumer_offsets", "partition": 7, "offset": number},
            "assigned": [{"topic": "t", "partitions": partitions}] if members else [],
            "members": list(members),
            "commits": commits or {},
        }
    ]


def with_changes(records: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """GROUP_RECORDs with who came and is gone in each, and LAST_COMMITs."""
    found: list[Row] = []
    last: list[Row] = []
    before: Row = {"members": [], "commits": {}}
    for row in records:
        ids = [each["member_id"] for each in row["members"]]
        gone = [each["member_id"] for each in before["members"] if each["member_id"] not in ids]
        came = [each for each in row["members"] if each not in before["members"]]
        last += [
            {
                "ts_ms": row["ts_ms"],
                "member_id": name,
                "last_commit_ms": before["commits"][name],
                "before_ms": None,
                "usual_ms": 1_000,
                "is_early": False,
            }
            for name in gone
            if name in before["commits"]
        ]
        found.append(row | {"came": came, "gone": gone})
        before = row
    return found, last


def an_event(offset: int, ts_ms: int, kind: str, member: Row | None = None, **fields: Any) -> Row:
    """A row of EVENTS, about a member."""
    names = {"member_id": "member_id", "instance_id": "instance_id", "client_id": "client_id", "host": "host"}
    trigger = None if member is None else {name: member.get(of) for name, of in names.items()} | {"client_reason": None}
    empty = dict.fromkeys(EVENTS.names)
    place = {"topic": "__kshim_events", "partition": 0, "offset": offset}
    return empty | event(offset, ts_ms, kind) | {"trigger": trigger, "state_from": "Stable", "evidence": place} | fields


def lines_of(text: str) -> list[Row]:
    """Rows of LOG_LINES, from lines of a log that begin with the time of day."""
    parsed = (parse_line(f"2026-11-21 {line}", ZoneInfo("UTC")) for line in text.splitlines())
    return [
        dict.fromkeys(LOG_LINES.names) | row | {"evidence": {"topic": "log", "partition": None, "offset": number}}
        for number, row in enumerate(parsed, 1)
        if row is not None
    ]


def known_of(records: Iterable[Row] = (), events: Iterable[Row] = (), lines: Iterable[Row] = ()) -> list[Entry]:
    changes, last = with_changes(records)
    return list(entries_of("g", Told(None, changes, last, list(events), list(lines))))


def found_in(entries: Iterable[Entry], *, group: str = "g") -> list[Found]:
    """What disturbed the group, with a minute without anything after the last fact."""
    known = list(entries)
    last_ms = max((each.fact.ts_ms for each in known if each.fact is not None), default=0)
    return list(found_of(group, known, last_ms + 60_000))


def incidents_of(records: Iterable[Row] = (), events: Iterable[Row] = (), lines: Iterable[Row] = ()) -> list[Row]:
    """Rows of INCIDENTS, without the start of the group."""
    rows = incident_rows(found_in(known_of(records, events, lines)))
    return [row for row in rows if row["cause"] != "one_by_one_start"]


def answers(rows: Iterable[Row]) -> list[tuple[str, list[str]]]:
    """Causes and clients."""
    return [(row["cause"], row["clients"]) for row in rows]
