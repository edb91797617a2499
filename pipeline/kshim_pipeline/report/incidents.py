"""Rows of INCIDENTS as the page shows them: objects that `kshim.explain.html` draws, worst first. No Spark here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from kshim_pipeline.diagnosis.severity import severity_of

Row = Mapping[str, Any]

MOST_TO_FIX: Final = 3
_SEVERITIES: Final = ("critical", "warning", "info")
_UNKNOWN: Final = "unknown"


class ToFix(NamedTuple):
    """What comes back with the same cause and the same culprit is one thing to fix. `incidents`: those, the worst first."""

    incidents: Sequence[Row]

    @property
    def worst(self) -> Row:
        """The one that speaks for all."""
        return self.incidents[0]

    @property
    def groups(self) -> list[str]:
        """All that it disturbed."""
        return sorted({group for each in self.incidents for group in each["groups"]})


def incident_object(row: Row) -> dict[str, Any]:
    """A row of INCIDENTS as an element of the document of `kshim.explain.document`, with its `severity`."""
    return {
        "cause": row["cause"],
        "subject": row["subject"],
        "groups": list(row["groups"]),
        "clients": list(row["clients"]),
        "host": row["host"],
        "from_ms": row["from_ms"],
        "to_ms": row["to_ms"],
        "confidence": row["confidence"],
        "basis": row["basis"],
        "sentence": row["sentence"],
        "advice": row["advice"],
        "would_tell": row["would_tell"],
        "effects": row["effects"],
        "evidence": row["reasons"],
        "sources": [place_text(place) for place in row["evidence"] or () if place is not None],
        "alternatives": row["alternatives"],
        "severity": severity_of(row["cause"]),
    }


def worst_first(incidents: Iterable[Row]) -> list[Row]:
    """The most severe first; of these, what disturbed its groups for longest. What is unknown can only be looked at."""
    return sorted(incidents, key=_badness)


def to_fix(incidents: Iterable[Row]) -> list[ToFix]:
    """At most three things that somebody should change, worst first. What was wanted, such as a deploy, is none of them."""
    by_culprit: dict[tuple[object, ...], list[Row]] = {}
    for each in worst_first(incidents):
        if each["severity"] != "info":
            by_culprit.setdefault(_culprit_key(each), []).append(each)
    things = sorted(by_culprit.values(), key=lambda mine: (*_badness(mine[0])[:2], -sum(map(_disturbed_ms, mine))))
    return [ToFix(mine) for mine in things[:MOST_TO_FIX]]


def why_command(incident: Row, source: str) -> str:
    """The command that says the same, and why. `source`: its options, such as `--bootstrap-server HOST:PORT`."""
    middle_ms = (incident["from_ms"] + incident["to_ms"]) // 2
    at = datetime.fromtimestamp(middle_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    group = incident["groups"][0] if incident["groups"] else ""
    return f"kshim why {source} --at {at} {'-- ' if group.startswith('-') else ''}{shlex.quote(group)}"


def place_text(place: Row) -> str:
    """Where something was read."""
    partition = "" if place["partition"] is None else f"-{place['partition']}"
    return f"{place['topic']}{partition}, {'offset' if partition else 'line'} {place['offset']}"


def _badness(incident: Row) -> tuple[Any, ...]:
    return (
        _SEVERITIES.index(incident["severity"]),
        incident["cause"] == _UNKNOWN,
        -_disturbed_ms(incident),
        incident["from_ms"],
        incident["groups"],
    )


def _disturbed_ms(incident: Row) -> int:
    """Summed over groups."""
    lasted_ms: int = incident["to_ms"] - incident["from_ms"]
    return max(lasted_ms, 1) * max(len(incident["groups"]), 1)


def _culprit_key(incident: Row) -> tuple[object, ...]:
    who = incident["host"] if incident["subject"] == "host" else tuple(incident["clients"]) or tuple(incident["groups"])
    return incident["cause"], incident["subject"], who
