"""What is known of each group, from several sources, is one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kshim_pipeline.diagnosis.told import told
from kshim_pipeline.schemas import LOG_LINES
from tests.pipeline.model_rows import decoded, rows_of, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
