"""Records, events and log lines -> incidents: of one group after the other, with what happened on hosts of their members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from kshim.explain.causes import Cause
from kshim_pipeline.diagnosis.entries import ENTRIES, entry_rows
from kshim_pipeline.diagnosis.facts import Entry
from kshim_pipeline.diagnosis.findings import findings_of
from kshim_pipeline.diagnosis.neighbours import GROUPS, neighbours
from kshim_pipeline.diagnosis.of_fleet import entries_of_groups, incidents_of_fleet, known_of_fleet
from kshim_pipeline.diagnosis.severity import CRITICAL, HARMLESS
from kshim_pipeline.materialize import cached
from kshim_pipeline.model.events import events
from kshim_pipeline.schemas import FINDINGS, INCIDENTS, LOG_LINES
from tests.pipeline.explained_rows import a_member, a_snapshot, an_event
from tests.pipeline.explained_rows import known_of as entries
from tests.pipeline.model_rows import commit_record, decoded, event, event_records, group_record, member, rows_of, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

B = {"member_id": "b", "instance_id": None, "client_id": "client-b", "host": "host-b"}


def _group(group: str, *names: str, host: str, died_ms: Sequence[int] = ()) -> list[Entry]:
    """A group with members on a host; the sessions of the first ones end at `died_ms`."""
    there = [a_member(f"{group}-{name}", host=host) for name in names]
    joined = [an_event(number, 1_000, "member_joined", each) for number, each in enumerate(there)]
    died = [
        an_event(90 + number, at_ms, "member_left", each, reason="session_timeout")
        for number, (each, at_ms) in enumerate(zip(there, died_ms, strict=False))
    ]
    known = entries(a_snapshot(1, 900, *there), [*joined, *died])
    return [
        each._replace(
            group=group,
            fact=None if each.fact is None else each.fact._replace(group=group, source=f"{group} {each.fact.source}"),
        )
        for each in known
    ]


def test_a_group_is_told_what_happened_on_a_host_whose_member_fell_silent_with_its_own(spark: SparkSession) -> None:
    known = [
        *_group("one", "a", "b", host="h1", died_ms=[100_000]),
        *_group("two", "a", "b", host="h1", died_ms=[101_000]),
        *_group("alive", "a", host="h1"),
        *_group("elsewhere", "a", host="h2"),
        *_group("later", "a", host="h1", died_ms=[400_000]),
    ]
    found = neighbours(table(spark, ENTRIES, list(entry_rows(known))), cached)
    assert rows_of(found, "asked", "group", "kind", "member_id") == [
        ("one", "alive", "JOINED", "alive-a"),
        ("one", "later", "JOINED", "later-a"),
        ("one", "two", "EXPIRED", "two-a"),
        ("one", "two", "JOINED", "two-a"),
        ("one", "two", "JOINED", "two-b"),
        ("two", "alive", "JOINED", "alive-a"),
        ("two", "later", "JOINED", "later-a"),
        ("two", "one", "EXPIRED", "one-a"),
        ("two", "one", "JOINED", "one-a"),
        ("two", "one", "JOINED", "one-b"),
    ]


def test_of_a_crowded_host_a_group_is_told_of_those_that_fell_silent_and_of_some_that_went_on(
    spark: SparkSession,
) -> None:
    known = [
        *_group("one", "a", "b", host="h1", died_ms=[100_000]),
        *_group("zwei", "a", "b", host="h1", died_ms=[101_000]),
        *(each for number in range(GROUPS + 9) for each in _group(f"alive-{number:02}", "a", host="h1")),
    ]
    found = neighbours(table(spark, ENTRIES, list(entry_rows(known))), cached).where("asked = 'one'")
    groups = {row.group for row in found.select("group").distinct().collect()}
    assert len(groups) == GROUPS
    assert "zwei" in groups


def test_a_group_two_of_whose_members_fell_silent_together_is_told_who_went_on_there(spark: SparkSession) -> None:
    known = [
        *_group("one", "a", "b", host="h1", died_ms=[100_000, 101_000]),
        *_group("alive", "a", host="h1"),
        *_group("apart", "a", "b", host="h2", died_ms=[300_000, 500_000]),
        *_group("other", "a", host="h2"),
    ]
    found = neighbours(table(spark, ENTRIES, list(entry_rows(known))), cached)
    assert rows_of(found, "asked", "group", "kind", "member_id") == [
        ("one", "alive", "JOINED", "alive-a"),
    ]


@pytest.fixture(scope="module")
def of_two_groups(spark: SparkSession) -> DataFrame:
    """Client b, a member of g and of h, was killed."""
    records = [
        row | {"group_id": group, "partition": partition}
        for group, partition in (("g", 7), ("h", 8))
        for row in (
            group_record(1, 1_000, 1, member("a", 0), member("b", 1)),
            commit_record(2, 955_000, 0, 10),
            commit_record(3, 955_000, 1, 10),
            commit_record(4, 999_000, 0, 11),
            group_record(5, 1_000_100, 2, member("a", 0, 1), state_timestamp_ms=1_000_090),
            group_record(6, 1_200_000, 3, member("a", 0), member("c", 1)),
        )
    ]
    died = [
        event(
            9 + number, 1_000_000, "member_left", group=group, reason="session_timeout", trigger=B, state_from="Stable"
        )
        for number, group in enumerate("gh")
    ]
    later = event(20, 1_200_000, "member_joined", trigger=B | {"member_id": "c", "client_id": "client-c"})
    known = known_of_fleet(decoded(spark, *records), events(event_records(spark, *died, later)))
    return incidents_of_fleet(known).cache()


def test_what_happened_to_a_process_in_several_groups_is_one_incident(of_two_groups: DataFrame) -> None:
    assert of_two_groups.schema.names == INCIDENTS.names
    rows = [row.asDict(recursive=True) for row in of_two_groups.where("cause = 'killed'").collect()]
    assert [(row["groups"], row["clients"], row["host"]) for row in rows] == [
        (["g", "h"], ["client-b@host-b"], "host-b")
    ]
    assert rows[0]["basis"] == "observed"
    assert {(place["topic"], place["offset"]) for place in rows[0]["evidence"]} == {
        ("__kshim_events", 9),
        ("__kshim_events", 10),
    }


def test_incidents_are_findings(of_two_groups: DataFrame) -> None:
    findings = findings_of(of_two_groups.where("cause = 'killed'"))
    assert findings.schema.names == FINDINGS.names
    (row,) = rows_of(findings, "analysis", "severity", "group_id", "member.client_id", "member.client_host", "cause")
    assert row == ("diagnosis", "warning", None, "client-b", "host-b", "killed")


def test_what_is_known_of_a_group_has_lines_of_the_log_that_do_not_name_it(spark: SparkSession) -> None:
    lines = [
        {"ts_ms": 1, "type": "static_replaced", "group_id": "g", "member_id": "old", "group_instance_id": "i"},
        {"ts_ms": 2, "type": "static_replaced", "group_id": "h", "member_id": "other", "group_instance_id": "i"},
        {"ts_ms": 3, "type": "static_fenced", "member_id": "old"},
        {"ts_ms": 4, "type": "stopping"},
    ]
    places = [{"evidence": {"topic": "log", "partition": None, "offset": number}} for number in range(len(lines))]
    rows = [dict.fromkeys(LOG_LINES.names) | line | place for line, place in zip(lines, places, strict=True)]
    known = entries_of_groups(known_of_fleet(decoded(spark), None, table(spark, LOG_LINES, rows)), ["g"])
    assert rows_of(known.where("fact is not null"), "fact.ts_ms", "group", "fact.kind") == [
        (1, "g", "REPLACED"),
        (3, "g", "HEARD"),
        (4, "g", "STOPPING"),
    ]


def test_severities_are_of_causes_that_there_are() -> None:
    assert {*CRITICAL, *HARMLESS} <= {cause.keyword for cause in Cause}
