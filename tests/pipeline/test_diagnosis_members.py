"""Records -> the members of each, and when they committed last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim_pipeline.diagnosis.members import members
from tests.pipeline.model_rows import commit_record, decoded, group_record, member, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_members_have_the_last_commit_of_what_they_owned_before_the_next_record(spark: SparkSession) -> None:
    rows = decoded(
        spark,
        group_record(1, 1_000, 1, member("a", 0), member("b", 1)),
        commit_record(2, 2_000, 0, 10),
        commit_record(3, 2_500, 0, 12),
        commit_record(4, 2_400, 1, 7),
        group_record(5, 3_000, 2, member("a", 0, 1)),
        commit_record(6, 4_000, 1, 9),
        group_record(7, 5_000, 3),
    )
    columns = ("number", "generation_id", "member_id", "host", "partitions", "last_partitions", "last_commit_ms")
    assert rows_of(members(rows), *columns, by=("number", "member_id")) == [
        (1, 1, "a", "host-a", 1, [("t", 0)], 2_500),
        (1, 1, "b", "host-b", 1, [("t", 1)], 2_400),
        (2, 2, "a", "host-a", 2, [("t", 1)], 4_000),
        (3, 3, None, None, 0, [], None),
    ]
