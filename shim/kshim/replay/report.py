"""How a replay is shown: text for people, one JSON object for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from kshim.replay.comparison import AnswerDifference
from kshim.replay.replay import Replay
from kshim.replay.summary import GroupSummary, Summary
from kshim.wording import counted

SHOWN: Final = 50
"""So many differences, and notes, are written out as text."""


def as_text(replay: Replay, summary: Summary | None = None) -> str:
    """The report, line by line."""
    return "\n".join([*_lines(replay, summary), ""])


def as_json(replay: Replay, summary: Summary | None = None) -> str:
    """The same as one JSON object."""
    document: dict[str, Any] = {
        "requests": replay.request_count,
        "compared": replay.compared_count,
        "connections": replay.connection_count,
        "recorded_ms": replay.recorded_ms,
        "seconds": round(replay.seconds, 3),
        "is_whole": replay.is_ended,
        "damage": replay.damage,
        "differences": [
            {**found._asdict(), "fields": [field._asdict() for field in found.fields]} for found in replay.differences
        ],
        "not_played": replay.notes,
        "not_played_more": replay.left_out_notes,
        "defects": [f"{type(defect).__name__}: {defect}" for defect in replay.defects],
    }
    if summary is not None:
        document["groups"] = [group.as_json() for group in summary.groups.values()]
    return json.dumps(document, indent=1) + "\n"


def _lines(replay: Replay, summary: Summary | None) -> Iterator[str]:
    if summary is not None:
        for group in summary.groups.values():
            yield from _group(group)
    for found in replay.differences[:SHOWN]:
        yield _head(found)
        yield from (
            f"  {field.path}: {field.recorded} in the recording, {field.replayed} now" for field in found.fields
        )
    if len(replay.differences) > SHOWN:
        yield f"... and {len(replay.differences) - SHOWN} more requests with other answers (--json has all)"
    yield from (f"Not played: {note}" for note in replay.notes[:SHOWN])
    left_out = len(replay.notes[SHOWN:]) + replay.left_out_notes
    if left_out:
        yield f"... and {left_out} more that were not played"
    yield from (f"Defect of kshim: {type(defect).__name__}: {defect}" for defect in replay.defects)
    if replay.damage is not None:
        yield f"The recording ends early: {replay.damage}."
    elif not replay.is_ended:
        yield "The recording has no end: the broker was killed, or still runs. Its last half second may be missing."
    if not replay.request_count:
        yield "There was nothing to replay: the recording has no request."
        return
    count = len(replay.differences)
    outcome = (
        "no answer differs" if not count else f"{counted(count, 'answer')} {'differs' if count == 1 else 'differ'}"
    )
    yield (
        f"{counted(replay.request_count, 'request')} of {counted(replay.connection_count, 'connection')} in "
        f"{_duration(replay.recorded_ms)}, replayed in {replay.seconds:.2f} s: {outcome}."
    )


def _head(found: AnswerDifference) -> str:
    who = found.client_id or "a client"
    about = "" if found.group_id is None else f", group {found.group_id}"
    version = "" if found.version < 0 else f" v{found.version}"
    return (
        f"Request {found.request}, {_time(found.wall_ms)}, {found.api}{version} of {who} "
        f"(connection {found.connection}{about}):"
    )


def _group(group: GroupSummary) -> Iterator[str]:
    yield f"Group {group.group_id}: {group.state}, generation {group.generation_id}, {counted(len(group.rebalances), 'rebalance')}"
    for rebalance in group.rebalances:
        match rebalance.end:
            case "completed":
                end = (
                    f"generation {rebalance.to_generation} with {counted(rebalance.member_count or 0, 'member')} after "
                    f"{_duration(rebalance.duration_ms or 0)}"
                )
            case "empty":
                end = "the group is empty"
            case "again":
                end = f"another one began after {_duration(rebalance.duration_ms or 0)}"
            case _:
                end = "not at its end"
        yield f"  {_time(rebalance.wall_ms)}  {rebalance.cause}: {rebalance.detail}"
        yield f"                {end}"


def _time(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1_000, UTC).strftime("%H:%M:%S.%f")[:-3] + "Z"


def _duration(ms: int) -> str:
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1_000:.1f} s"
    minutes = ms // 60_000
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
