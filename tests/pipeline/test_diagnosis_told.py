"""The history of a group is cut into sessions at quiet times, and each is told who was there when it began."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kshim_pipeline.diagnosis.told import in_sessions, told
from kshim_pipeline.schemas import LOG_LINES
from tests.pipeline.model_rows import decoded, epoch_record, group_record, member, rows_of, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MINUTE = 60_000
A, B = member("a", 0, session_timeout_ms=10_000), member("b", 1, session_timeout_ms=10_000)


def records(spark: SparkSession, *minutes: int, **fields: str) -> DataFrame:
    """Member b comes and goes at these times."""
    rows = [
        group_record(number, minute * MINUTE, number, *((A, B) if number % 2 else (A,)), **fields)
        for number, minute in enumerate(minutes, 1)
    ]
    return told(decoded(spark, *rows), None, None, lambda _, frame: frame)


def numbers(rows: DataFrame) -> list[tuple[int, int | None, int | None]]:
    """Session, and the number of its record or opening."""
    return [(row[0], row[1], row[2]) for row in rows_of(rows, "session", "opening.number", "record.number")]


def test_a_history_is_cut_at_the_first_quiet_time_after_enough_of_it(spark: SparkSession) -> None:
    # With timeouts of five minutes ten minutes are not quiet, and eleven are.
    rows = in_sessions(records(spark, 0, 11, 22, 23, 33, 44, 45), enough_rows=4)
    assert numbers(rows) == [
        (0, None, 1), (0, None, 2), (0, None, 3), (0, None, 4), (0, None, 5),
        (1, None, 6), (1, None, 7),
        (1, 5, None),
    ]  # fmt: skip


def test_a_small_history_is_one_session(spark: SparkSession) -> None:
    assert {row[0] for row in numbers(in_sessions(records(spark, 0, 60, 120, 180)))} == {0}


def test_a_history_that_is_never_quiet_is_cut_before_it_is_too_large(spark: SparkSession) -> None:
    rows = in_sessions(records(spark, 0, 1, 2, 3, 4, 5), enough_rows=2, most_rows=4)
    assert numbers(rows) == [(0, None, 1), (0, None, 2), (0, None, 3), (1, None, 4), (1, None, 5), (1, None, 6), (1, 3, None)]  # fmt: skip


def test_only_the_record_before_a_session_has_all_members(spark: SparkSession) -> None:
    rows = in_sessions(records(spark, 0, 30, 60, 90), enough_rows=3)
    found = rows_of(rows, "session", "opening.members.member_id", "record.members", "record.came.member_id")
    assert [row[1] for row in found if row[1] is not None] == [["a"]]
    assert {row[2] for row in found} == {None}
    assert {tuple(row[3] or ()) for row in found} == {("a", "b"), ("b",), ()}


def test_a_group_of_the_new_protocol_is_not_cut(spark: SparkSession) -> None:
    epochs = [epoch_record(number, number * 60 * MINUTE, 3, epoch=number) for number in range(1, 7)]
    rows = in_sessions(told(decoded(spark, *epochs), None, None, lambda _, frame: frame), enough_rows=2, most_rows=3)
    assert [row[0] for row in rows_of(rows, "session")] == [0] * 6


def test_lines_without_a_group_are_told_to_the_groups_that_they_are_about(spark: SparkSession) -> None:
    def line(number: int, type_: str, **fields: str) -> dict[str, Any]:
        evidence = {"topic": "log", "partition": None, "offset": number}
        return dict.fromkeys(LOG_LINES.names) | {"ts_ms": number, "type": type_, "evidence": evidence} | fields

    lines = table(
        spark,
        LOG_LINES,
        [
            line(1, "static_replaced", group_id="g", member_id="old"),
            line(2, "preparing", group_id="h"),
            line(3, "static_fenced", member_id="old"),
            line(4, "static_fenced", member_id="somebody"),
            line(5, "stopping"),
        ],
    )
    rows = told(decoded(spark), None, lines, lambda _, frame: frame).where("line is not null")
    assert rows_of(rows, "line.ts_ms", "group_id", "line.group_id") == [
        (1, "g", "g"), (2, "h", "h"), (3, "g", "g"), (5, "g", "g"), (5, "h", "h"),
    ]  # fmt: skip
