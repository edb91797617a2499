"""The history of a group is cut into sessions at quiet times, and each is told who was there when it began."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kshim_pipeline.diagnosis.facts import Told
from kshim_pipeline.diagnosis.sessions import sessions_of
from tests.pipeline.explained_rows import a_member, a_snapshot, with_changes

MINUTE = 60_000
KINDS = ("record", "last", "event", "line", "epoch", "commit")


def a_row(minute: int, timeout_ms: int | None = None, **of_a_kind: dict[str, Any]) -> dict[str, Any]:
    """A row of `told`."""
    return {"ts_ms": minute * MINUTE, "timeout_ms": timeout_ms} | dict.fromkeys(KINDS) | of_a_kind


def records(*minutes: int) -> Iterator[dict[str, Any]]:
    """Member b, with a timeout of five minutes, comes and goes at these times."""
    there = [
        each
        for number, minute in enumerate(minutes, 1)
        for each in a_snapshot(number, minute * MINUTE, *map(a_member, "ab" if number % 2 else "a"))
    ]
    for minute, record in zip(minutes, with_changes(there)[0], strict=True):
        yield a_row(minute, 5 * MINUTE, record=record)


def numbers(sessions: Iterable[Told]) -> list[tuple[int | None, list[int]]]:
    """The numbers of the opening and of the records of each session."""
    return [
        (None if each.opening is None else each.opening["number"], [row["number"] for row in each.records])
        for each in sessions
    ]


def test_a_history_is_cut_at_the_first_quiet_time_after_enough_of_it() -> None:
    # With timeouts of five minutes ten minutes are not quiet, and eleven are.
    sessions = sessions_of(records(0, 11, 22, 23, 33, 44, 45), enough_rows=4)
    assert numbers(sessions) == [(None, [1, 2, 3, 4, 5]), (5, [6, 7])]


def test_a_small_history_is_one_session() -> None:
    assert numbers(sessions_of(records(0, 60, 120, 180))) == [(None, [1, 2, 3, 4])]


def test_a_history_that_is_never_quiet_is_cut_before_it_is_too_large() -> None:
    sessions = sessions_of(records(0, 1, 2, 3, 4, 5), enough_rows=2, most_rows=4)
    assert numbers(sessions) == [(None, [1, 2, 3, 4]), (4, [5, 6])]


def test_a_session_is_told_who_was_there_before_it() -> None:
    sessions = list(sessions_of(records(0, 30, 60, 90, 120), enough_rows=2))
    openings = [each.opening for each in sessions]
    assert [opening and [each["member_id"] for each in opening["members"]] for opening in openings] == [
        None,
        ["a"],
        ["a"],
    ]


def test_who_was_there_is_known_after_a_session_without_records() -> None:
    commits = [a_row(60 + number, commit={"timestamp_ms": number}) for number in range(3)]
    sessions = list(sessions_of([*records(0, 1), *commits, *records(240)], enough_rows=2))
    assert [len(each.commits) for each in sessions] == [0, 3, 0]
    assert [each.opening and each.opening["number"] for each in sessions] == [None, 2, 2]


def test_a_group_of_the_new_protocol_is_not_cut() -> None:
    rows = [a_row(60 * number, epoch={"offset": number}) for number in range(7)]
    assert [len(each.epochs) for each in sessions_of(rows, enough_rows=2, most_rows=3)] == [7]
