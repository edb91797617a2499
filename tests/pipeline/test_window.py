"""A part of a history tells of its time what the whole history tells of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from bench.fleet.fleet import Fleet
from bench.fleet.landed import records
from kshim_pipeline.inputs.window import AROUND_MS, Window
from kshim_pipeline.materialize import Materialize
from kshim_pipeline.records import DECODED
from kshim_pipeline.report.gather import Gathered
from kshim_pipeline.report.results import compute
from tests.pipeline.model_rows import commit_record, decoded, group_record, group_tombstone, member

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR
SINCE: Final = 100 * DAY


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


def test_what_was_true_before_is_read_as_the_cleaner_would_have_left_it(spark: SparkSession) -> None:
    ann, bea = member("ann", 0), member("bea", 1)
    long_ago = SINCE - 50 * DAY
    rows = [
        group_record(1, long_ago, 1, ann),
        group_record(2, long_ago + 1, 2, ann, bea),
        group_record(3, long_ago, 1, ann, group_id="deleted"),
        group_tombstone(4, long_ago + 1, group_id="deleted"),
        commit_record(5, SINCE - 3 * DAY, 0, 10),
        commit_record(6, SINCE - 20 * HOUR, 0, 11),
        commit_record(7, SINCE - 19 * HOUR, 0, 12),
        commit_record(8, SINCE - 20 * HOUR, 1, 11),
        commit_record(9, SINCE - HOUR // 2, 1, 12),
        group_record(10, SINCE + HOUR, 3, ann),
        group_record(11, SINCE + DAY + HOUR // 2, 4, ann, bea),
        group_record(12, SINCE + DAY + 2 * HOUR, 5, ann),
    ]
    history = decoded(spark, *rows)
    assert offsets(Window(SINCE, SINCE + DAY).records(history)) == [2, 7, 8, 9, 10, 11]
    assert offsets(Window(None, SINCE).records(history)) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert offsets(Window(SINCE).records(history)) == [2, 7, 8, 9, 10, 11, 12]
    assert offsets(Window().records(history)) == list(range(1, 13))


def test_of_the_new_protocol_the_last_record_of_each_member_is_read(spark: SparkSession) -> None:
    def of_epochs(offset: int, key_type: int, **fields: Any) -> dict[str, Any]:
        kind = "consumer_group_member_metadata" if key_type == 5 else "consumer_group_metadata"
        return group_record(offset, SINCE - DAY, 1, kind=kind, key_type=key_type, **fields)

    rows = [
        of_epochs(1, 5, member_id="ann"),
        of_epochs(2, 5, member_id="bea"),
        of_epochs(3, 3),
        of_epochs(4, 5, member_id="ann", is_tombstone=True),
        of_epochs(5, 5, member_id="cid"),
        of_epochs(6, 5, member_id="cid"),
        of_epochs(7, 3),
    ]
    assert offsets(Window(SINCE).records(decoded(spark, *rows))) == [2, 6, 7]


def test_results_are_of_a_part_if_they_touch_it(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [
            ("before", 1, 9),
            ("into", 1, 10),
            ("across", 1, 99),
            ("from its end", 20, 21),
            ("open", 12, None),
            ("at no time", None, None),
        ],
        "name string, from_ms long, to_ms long",
    )
    found = {row.name for row in Window(10, 20).touched(rows, "from_ms", "to_ms").select("name").collect()}
    assert found == {"into", "across", "open", "at no time"}


def test_a_day_of_a_fleet_has_the_rebalances_and_nearly_all_incidents_that_the_whole_month_has_in_it(
    spark: SparkSession, materialize: Materialize
) -> None:
    fleet = Fleet(rebalances=600, groups=12, seed=5)
    history = materialize("history", records(spark, fleet).select(*DECODED.names))
    since_ms = fleet.start_ms + 11 * DAY
    window = Window(since_ms, since_ms + 2 * DAY)
    of_part = Gathered(window.records(history), None, None, (), window=window)
    whole = compute(spark, Gathered(history, None, None, ()), lambda name, frame: materialize(f"whole/{name}", frame))
    part = compute(spark, of_part, lambda name, frame: materialize(f"part/{name}", frame))
    in_it = window.touched(whole.tables["rebalances"], "ts_ms")
    assert sorted(map(str, part.tables["rebalances"].collect())) == sorted(map(str, in_it.collect()))
    assert part.tables["rebalances"].count() > 15

    def told(incidents: DataFrame) -> set[tuple[Any, ...]]:
        return {
            (row.cause, *row.groups, *row.clients, row.from_ms, row.to_ms)
            for row in window.touched(incidents, "from_ms", "to_ms").collect()
        }

    mine, theirs = told(part.incidents), told(whole.incidents)
    assert len(mine & theirs) >= 0.9 * len(mine | theirs) > 5
    findings = part.findings.where(F.col("to_ts_ms").isNotNull())
    assert findings.where(F.col("to_ts_ms") < since_ms).isEmpty()
    assert part.tables["commits"].where(F.col("ts_ms") < since_ms - DAY - AROUND_MS).isEmpty()
