"""Whether the diagnosed causes are the actual ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kshim_pipeline.demo.incidents import Truth

_SLACK_MS = 1_000


class Judged(NamedTuple):
    """A truth and the incident that was found for it (None: nothing was), and whether cause and culprit are right."""

    truth: Truth
    found: Mapping[str, Any] | None
    is_cause_right: bool
    is_culprit_right: bool


class Verdict(NamedTuple):
    """All that was played, in order of time, with what was found; and what was found besides, which nobody did."""

    judged: list[Judged]
    false_alarms: list[Mapping[str, Any]]


def judge(truths: Iterable[Truth], incidents: Iterable[Mapping[str, Any]]) -> Verdict:
    """Each truth with the incident that shares its groups and time, the one of the same cause first."""
    left = list(incidents)
    judged = []
    for truth in sorted(truths, key=lambda truth: truth.start_ms):
        candidates = [row for row in left if _concerns(row, truth)]
        candidates.sort(key=lambda row: (row["cause"] != truth.cause, abs(row["from_ms"] - truth.start_ms)))
        if not candidates:
            judged.append(Judged(truth, None, False, False))
            continue
        found = candidates[0]
        left.remove(found)
        is_right = found["cause"] == truth.cause
        judged.append(Judged(truth, found, is_right, not truth.culprits or _names(found, truth)))
    return Verdict(judged, sorted(left, key=lambda row: int(row["from_ms"])))


def _concerns(row: Mapping[str, Any], truth: Truth) -> bool:
    overlaps = row["from_ms"] <= truth.end_ms + _SLACK_MS and row["to_ms"] >= truth.start_ms - _SLACK_MS
    return overlaps and bool(truth.groups & set(row["groups"]))


def _names(row: Mapping[str, Any], truth: Truth) -> bool:
    if row["subject"] == "host":
        return row["host"] in truth.culprits
    named = {client.partition("@")[0] for client in row["clients"]}
    return named == {culprit.partition("@")[0] for culprit in truth.culprits}
