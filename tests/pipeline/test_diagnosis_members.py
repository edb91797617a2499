"""Group metadata records -> what changed in each, and when those committed last that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kshim_pipeline.diagnosis.members import group_records, last_commits
from tests.pipeline.model_rows import commit_record, decoded, group_record, member, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Members a and b; b is gone; a subscribes to something else; nobody is left."""
    return decoded(
        spark,
        group_record(1, 1_000, 1, member("a", 0), member("b", 1)),
        commit_record(2, 2_000, 0, 10),
        commit_record(3, 2_500, 0, 12),
        *(commit_record(10 + number, ts_ms, 1, 7) for number, ts_ms in enumerate((1_200, 1_500, 1_510, 1_800, 2_400))),
        group_record(20, 3_000, 2, member("a", 0, 1)),
        commit_record(21, 4_000, 1, 9),
        group_record(22, 5_000, 3, member("a", 0, 1, session_timeout_ms=10_000)),
        group_record(23, 6_000, 4),
    ).cache()


def test_a_record_has_who_is_new_or_has_changed_and_who_is_gone(rows: DataFrame) -> None:
    columns = ("record.number", "record.came.member_id", "record.gone", "record.timeout_ms", "record.assigned")
    assert rows_of(group_records(rows), *columns, by=("number",)) == [
        (1, ["a", "b"], [], 300_000, [("t", 2)]),
        (2, None, ["b"], 300_000, [("t", 2)]),
        (3, ["a"], [], 300_000, [("t", 2)]),
        (4, None, ["a"], None, []),
    ]


def test_members_are_described_without_what_they_were_assigned(rows: DataFrame) -> None:
    first = group_records(rows).where("number = 1").select("record.came").collect()[0].came[1]
    assert first.asDict() == {
        "member_id": "b",
        "instance_id": None,
        "client_id": "client-b",
        "host": "host-b",
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "topics": None,
    }


def test_members_that_are_gone_have_the_last_commit_of_what_they_owned_before(rows: DataFrame) -> None:
    columns = ("last.ts_ms", "last.member_id", "last.last_commit_ms", "last.before_ms", "last.usual_ms")
    assert rows_of(last_commits(rows, group_records(rows)), *columns, by=("ts_ms",)) == [
        (3_000, "b", 2_400, 1_800, 600),
    ]


def test_a_last_commit_is_early_if_a_timer_would_have_sent_it_later(spark: SparkSession) -> None:
    at_ms = {
        "early": (1_000, 6_000, 11_002, 16_001, 20_880),
        "due": (1_000, 6_000, 11_002, 16_001, 20_980),
        "again": (1_000, 6_000, 11_002, 16_001, 16_150),
        "busy": (1_000, 6_400, 11_402, 17_001, 21_950),
        "new": (1_000, 6_000, 8_000),
    }
    records = decoded(
        spark,
        group_record(1, 0, 1, *(member(name, number) for number, name in enumerate(at_ms))),
        *(
            commit_record(100 * (number + 1) + turn, ms, number, turn)
            for number, name in enumerate(at_ms)
            for turn, ms in enumerate(at_ms[name])
        ),
        group_record(1_000, 30_000, 2),
    )
    found = rows_of(last_commits(records, group_records(records)), "last.member_id", "last.is_early", by=("member_id",))
    assert dict(found) == {"early": True, "due": False, "again": True, "busy": False, "new": True}


def test_members_that_are_gone_after_a_commit_or_two_have_the_usual_pause_of_their_group(spark: SparkSession) -> None:
    """As with two processes that take a static member's place from each other."""
    records = decoded(
        spark,
        *(group_record(100 * turn, 10_000 * turn, turn, member(f"a-{turn}", 0)) for turn in range(1, 6)),
        *(
            commit_record(100 * turn + number, 10_000 * turn + 4_000 * number, 0, turn)
            for turn in range(1, 6)
            for number in (1, 2)
        ),
    )
    columns = ("last.member_id", "last.last_commit_ms", "last.before_ms", "last.usual_ms")
    assert rows_of(last_commits(records, group_records(records)), *columns, by=("member_id",)) == [
        (f"a-{turn}", 10_000 * turn + 8_000, 10_000 * turn + 4_000, 6_000) for turn in range(1, 5)
    ]
