"""Records, events and log lines -> what the rules reason about, and incidents of several groups from those of single ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from kshim.explain.sources.log_lines import parse_line
from kshim_pipeline.diagnosis.hosts import with_stalled_hosts
from kshim_pipeline.diagnosis.incidents import INCIDENTS, findings_of, incidents
from kshim_pipeline.diagnosis.members import members
from kshim_pipeline.diagnosis.observed import signals_of_events, signals_of_log
from kshim_pipeline.diagnosis.tables import MEMBERS, SIGNALS
from kshim_pipeline.model.events import events
from kshim_pipeline.schemas import FINDINGS, LOG_LINES
from tests.pipeline.model_rows import commit_record, decoded, event, event_records, group_record, member, rows_of, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

A = {"member_id": "a", "instance_id": None, "client_id": "client-a", "host": "host-a"}
B = {"member_id": "b", "instance_id": None, "client_id": "client-b", "host": "host-b"}


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


def test_events_become_signals(spark: SparkSession) -> None:
    waits = [{**A, "is_new": False, "wait_ms": 900}, {**B, "is_new": True, "wait_ms": 4_000}]
    of_events = events(
        event_records(
            spark,
            event(1, 5_000, "member_joined", trigger={**B, "client_reason": "hello"}, state_from="Stable"),
            event(2, 5_000, "rebalance_started", trigger=B),
            event(3, 9_050, "rebalance_completed", waits=waits, join_ms=4_000, sync_ms=50, leader_id="a"),
            event(4, 9_100, "rebalance_started", reason="leader_rejoined", trigger=A, epoch=2),
            event(5, 20_000, "member_left", reason="session_timeout", trigger=A, state_from="Stable"),
            event(6, 21_000, "member_left", reason="rebalance_timeout", trigger=B, state_from="PreparingRebalance"),
            event(7, 22_000, "member_fenced", reason="static_replaced", trigger=A, replaced_member_id="z"),
        )
    )
    columns = ("ts_ms", "kind", "member_id", "client_reason", "other_id", "wait_ms", "is_new")
    assert rows_of(signals_of_events(of_events), *columns, by=("ts_ms", "kind")) == [
        (5_000, "joined", "b", "hello", None, None, False),
        (9_000, "join_over", "a", None, None, 900, False),
        (9_050, "sync_over", "a", None, None, 50, False),
        (9_100, "rejoined", "a", None, None, None, False),
        (20_000, "expired", "a", None, None, None, False),
        (21_000, "kicked", "b", None, None, None, False),
        (22_000, "replaced", "a", None, "z", None, False),
    ]


LOG = """\
10:00:01,000 Pending dynamic member with id b-1 joins group g in Stable state. Adding to the group now.
10:00:01,001 Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: Adding new member b-1 with group instance id null; client reason: hello).
10:00:02,001 Stabilized group g generation 2 with 2 members.
10:00:02,041 Assignment received from leader a-1 for group g for generation 2. The group has 2 members, 0 of which are static.
10:00:03,000 Preparing to rebalance group g in state PreparingRebalance with old generation 2 (reason: Leader a-1 re-joining group during Stable; client reason: cached metadata has changed).
10:00:03,500 Stabilized group g generation 3 with 2 members.
10:00:04,500 Member a-1 in group g has failed, removing it from the group.
10:00:05,000 Group g removed dynamic members who haven't joined: [b-1]
10:00:06,000 [Group g] Member c-1 has left group through explicit `LeaveGroup` request; client reason: the consumer is being closed
10:00:07,000 Static member with groupInstanceId=i and unknown member id joins group g in Stable state. Replacing previously mapped member i-1 with this groupInstanceId.
10:00:08,000 Static member with groupInstanceId=j and unknown member id joins group g in Stable state. Created a new member id j-1 for this member and added to the group.
"""


def test_log_lines_become_signals(spark: SparkSession) -> None:
    parsed = [parse_line(f"2026-11-21 {line}", ZoneInfo("UTC")) for line in LOG.splitlines()]
    lines = [
        {**row, "evidence": {"topic": "log", "partition": None, "offset": number}}
        for number, row in enumerate(parsed)
        if row is not None
    ]
    assert len(lines) == 11
    start_ms = lines[0]["ts_ms"] - 1_000
    signals = signals_of_log(table(spark, LOG_LINES, lines)).withColumnRenamed("ts_ms", "at")
    columns = ("at", "kind", "member_id", "instance_id", "other_id", "client_reason", "state", "wait_ms")
    found = [(row[0] - start_ms, *row[1:]) for row in rows_of(signals, *columns, by=("at",))]
    assert found == [
        (1_000, "joined", "b-1", None, None, "hello", "Stable", None),
        (2_001, "join_over", None, None, None, None, "CompletingRebalance", 1_000),
        (2_041, "sync_over", "a-1", None, None, None, "Stable", 40),
        (3_000, "rejoined", "a-1", None, None, "cached metadata has changed", "PreparingRebalance", None),
        (3_500, "join_over", None, None, None, None, "CompletingRebalance", 500),
        (4_500, "expired", "a-1", None, None, None, "CompletingRebalance", None),
        (5_000, "kicked", "b-1", None, None, None, "CompletingRebalance", None),
        (6_000, "left", "c-1", None, None, "the consumer is being closed", "CompletingRebalance", None),
        (7_000, "replaced", None, "i", "i-1", None, "Stable", None),
        (8_000, "joined", "j-1", "j", None, None, "Stable", None),
    ]


def _member(group: str, name: str, host: str, *, session_ms: int = 10_000) -> dict[str, Any]:
    return {"group_id": group, "number": 1, "ts_ms": 0, "next_ts_ms": None, "generation_id": 1, "member_id": name,
            "client_id": name, "host": host, "session_timeout_ms": session_ms, "rebalance_timeout_ms": 20_000}  # fmt: skip


def _signal(group: str, name: str, ts_ms: int, kind: str = "expired") -> dict[str, Any]:
    return {"group_id": group, "ts_ms": ts_ms, "kind": kind, "member_id": name, "is_new": False, "is_observed": True}


def _dead(*names: str, host: str, at_ms: int = 110_000, apart_ms: int = 500) -> list[dict[str, Any]]:
    """Sessions of `names` on a host run out, each in a group of its own, `apart_ms` from each other."""
    return [_signal(f"g{i}", f"{name}@{host}", at_ms + i * apart_ms) for i, name in enumerate(names)]


def _there(*names: str, host: str) -> list[dict[str, Any]]:
    return [_member(f"g{i}", f"{name}@{host}", host) for i, name in enumerate(names)]


def test_a_host_is_stalled_where_nearly_all_sessions_began_to_run_out_at_the_same_time(spark: SparkSession) -> None:
    there = [
        *_there("a", "b", "c", host="all-at-once"),
        *_there("a", "b", "c", host="one-lives-on"),
        *_there("a", "b", "c", host="at-other-times"),
        *_there("a", "b", host="one-began-again"),
        *_there("a", "b", "c", "d", host="nearly-all"),
        # Its session is longer by 20 s, so it is missed later.
        _member("g9", "slow@all-at-once", "all-at-once", session_ms=30_000),
        # One process, a member of two groups.
        _member("g1", "p1", "one-process") | {"client_id": "p"},
        _member("g2", "p2", "one-process") | {"client_id": "p"},
        _member("g0", "a2", "one-began-again") | {"client_id": "a@one-began-again", "number": 2, "ts_ms": 150_000},
    ]
    signals = [
        *_dead("a", "b", "c", host="all-at-once"),
        _signal("g9", "slow@all-at-once", 131_000),
        *_dead("a", "b", host="one-lives-on"),
        *_dead("a", "b", "c", host="at-other-times", apart_ms=40_000),
        *_dead("a", "b", host="one-began-again"),
        _signal("g0", "a2", 105_000, "joined"),
        *_dead("a", "b", "c", host="nearly-all"),
        _signal("g1", "p1", 110_000),
        _signal("g2", "p2", 110_000),
    ]
    marked = with_stalled_hosts(table(spark, SIGNALS, signals), table(spark, MEMBERS, there))
    assert marked.schema.names == SIGNALS.names
    rows = rows_of(marked, "stall", "member_id", by=("member_id",))
    assert len(rows) == len(signals)
    assert [row for row in rows if row[0] is not None] == [
        ("all-at-once", "a@all-at-once"),
        ("nearly-all", "a@nearly-all"),
        ("all-at-once", "b@all-at-once"),
        ("nearly-all", "b@nearly-all"),
        ("all-at-once", "c@all-at-once"),
        ("nearly-all", "c@nearly-all"),
        ("all-at-once", "slow@all-at-once"),
    ]


@pytest.fixture(scope="module")
def of_two_groups(spark: SparkSession) -> DataFrame:
    """Client b, a member of g and of h, was killed: records of both, events of g alone."""
    records = [
        row | {"group_id": group, "partition": partition}
        for group, partition in (("g", 7), ("h", 8))
        for row in (
            group_record(1, 1_000, 1, member("a", 0), member("b", 1)),
            commit_record(2, 955_000, 0, 10),
            commit_record(3, 955_000, 1, 10),
            commit_record(4, 999_000, 0, 11),
            group_record(5, 1_000_100, 2, member("a", 0, 1), state_timestamp_ms=1_000_090),
        )
    ]
    died = event(9, 1_000_000, "member_left", reason="session_timeout", trigger=B, state_from="Stable")
    return incidents(decoded(spark, *records), events(event_records(spark, died))).cache()


def test_what_happened_to_a_process_in_several_groups_is_one_incident(of_two_groups: DataFrame) -> None:
    assert of_two_groups.schema.names == INCIDENTS.names
    rows = [row.asDict(recursive=True) for row in of_two_groups.where("cause = 'killed'").collect()]
    assert [(row["groups"], row["clients"], row["host"]) for row in rows] == [
        (["g", "h"], ["client-b@host-b"], "host-b")
    ]
    assert rows[0]["basis"] == "inferred"
    assert {place["topic"] for place in rows[0]["evidence"]} == {"__kshim_events", "__consumer_offsets"}


def test_incidents_are_findings(of_two_groups: DataFrame) -> None:
    findings = findings_of(of_two_groups.where("cause = 'killed'"))
    assert findings.schema.names == FINDINGS.names
    (row,) = rows_of(findings, "analysis", "severity", "group_id", "member.client_id", "member.client_host", "cause")
    assert row == ("diagnosis", "warning", None, "client-b", "host-b", "killed")
