"""Of a fleet of any size: its worst incidents, what is known of their groups, lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim_pipeline.diagnosis.facts import Entry
from kshim_pipeline.diagnosis.of_fleet import known_of_fleet
from kshim_pipeline.diagnosis.typed_rows import values_of
from kshim_pipeline.model.events import events
from kshim_pipeline.report.incidents import incident_object
from kshim_pipeline.report.pictures import picture_of
from kshim_pipeline.report.worst import drawn_groups, entries_of_drawn, lags, worst_incidents
from kshim_pipeline.schemas import COMMITS, INCIDENTS, LOG_ENDS
from tests.pipeline.model_rows import decoded, event, event_records, rows_of, table
from tests.pipeline.report_pages import a_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

B = {"member_id": "b", "instance_id": None, "client_id": "client-b", "host": "host-b"}


def known_of_a_kill(spark: SparkSession) -> DataFrame:
    """Member b of group g was killed; nothing bad happened to group h."""
    told = [
        event(8, 900, "member_joined", trigger=B | {"member_id": "a", "client_id": "client-a", "host": "host-a"}),
        event(9, 950, "member_joined", trigger=B),
        event(10, 1_000_000, "member_left", reason="session_timeout", trigger=B, state_from="Stable"),
        event(11, 1_000_100, "rebalance_completed", join_ms=90, sync_ms=10, total_ms=100, to_generation=2),
        event(12, 1_000_000, "member_joined", group="h", trigger=B),
    ]
    return known_of_fleet(decoded(spark), events(event_records(spark, *told)))


def test_all_that_is_known_of_a_group_with_a_bad_incident_makes_its_picture(spark: SparkSession) -> None:
    row = a_row("killed", "g", clients=["client-b@host-b"], from_ms=955_000, to_ms=1_000_100)
    known = entries_of_drawn(known_of_a_kill(spark), table(spark, INCIDENTS, [row]))
    entries = values_of(Entry, [each.asDict(recursive=True) for each in known.collect()])
    picture = picture_of("g", entries, [incident_object(row)], now_ms=1_100_000)
    assert picture.members[0].name == "client-b@host-b"
    assert picture.members[0].is_culprit
    assert [band.label for band in picture.bands] == [
        "Rebalance 1: client-a@host-a joined, client-b@host-b joined, the session of client-b@host-b expired. It took 0.10 s."
    ]


def test_lag_is_known_where_log_ends_were_sampled(spark: SparkSession) -> None:
    place = {"group_id": "g", "topic": "t", "evidence": {"topic": "o", "partition": 0, "offset": 1}}
    commits = [
        place | {"partition": 0, "committed_offset": 10, "ts_ms": 1},
        place | {"partition": 0, "committed_offset": 12, "ts_ms": 2},
        place | {"partition": 1, "committed_offset": 90, "ts_ms": 2},
        place | {"partition": 2, "committed_offset": 7, "ts_ms": 2},
    ]
    ends = [
        {"topic": "t", "partition": 0, "ts_ms": ts_ms, "log_end_offset": end} for ts_ms, end in ((1, 50), (2, 20))
    ] + [{"topic": "t", "partition": 1, "ts_ms": 2, "log_end_offset": 80}]
    found = lags(table(spark, COMMITS, commits), table(spark, LOG_ENDS, ends))
    assert rows_of(found, "partition", "committed_offset", "lag") == [(0, 12, 8), (1, 90, 0), (2, 7, None)]


def test_of_many_incidents_the_worst_are_taken(spark: SparkSession) -> None:
    rows = [
        a_row("deploy", "calm", from_ms=0, to_ms=90_000),
        a_row("killed", "short", from_ms=0, to_ms=1_000),
        a_row("killed", "long", from_ms=0, to_ms=9_000),
        a_row("crash_loop", "loop", from_ms=0, to_ms=10),
    ]
    found = worst_incidents(table(spark, INCIDENTS, rows))
    assert [row["groups"] for row in found] == [["loop"], ["long"], ["short"], ["calm"]]
    assert drawn_groups(found) == ["loop", "long", "short", "calm"]
