"""Events, log lines and records -> rebalances: each once, by the source that knows most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.sql import functions as F

from kshim_pipeline.materialize import Materialize
from kshim_pipeline.model.build import build
from kshim_pipeline.model.events import events, unreadable_events
from kshim_pipeline.model.logged import rebalances_of_log
from kshim_pipeline.schemas import EVENTS, LOG_LINES, REBALANCES
from tests.pipeline.model_rows import decoded, event, event_records, group_record, member, rows_of, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

B: Final = {"member_id": "b", "instance_id": None, "client_id": "client-b", "host": "host-b"}
A: Final = {"member_id": "a", "instance_id": None, "client_id": "client-a", "host": "host-a"}
JOINED: Final[dict[str, Any]] = {"join_ms": 3_000, "to_generation": 2, "protocol": "range", "leader_id": "a"}
COUNTS: Final[dict[str, Any]] = {"expected": 2, "joined": 2, "kicked": 0, "pending_sync": 1}
WAITS: Final = [{**A, "is_new": False, "wait_ms": 3_000}, {**B, "is_new": True, "wait_ms": 0}]
SENT: Final[list[dict[str, Any]]] = [
    event(1, 5_000, "rebalance_started", trigger={**B, "client_reason": "hello"}),
    event(2, 8_000, "join_completed", members=COUNTS, **JOINED),
    event(3, 8_050, "rebalance_completed", members=COUNTS, waits=WAITS, sync_ms=50, total_ms=3_050,
          last_to_join=WAITS[0], outcome="completed", ended_by={"reason": "assignment_received"},
          trigger={**B, "client_reason": "hello"}, **JOINED),
    # The second never ends: the broker was stopped, and another run loads the group.
    event(4, 9_000, "rebalance_started", epoch=2, from_generation=2, reason="leader_rejoined", trigger=A),
    event(5, 20_000, "coordinator_loaded", epoch=0, from_generation=2, to_generation=2, run="run2", seq=1,
          event_id="run2-1"),
    event(6, 30_000, "member_left", epoch=0, from_generation=2, run="run2", seq=2, event_id="run2-2",
          reason="session_timeout", trigger=B),
    event(7, 30_000, "rebalance_started", epoch=1, from_generation=2, run="run2", seq=3, event_id="run2-3",
          reason="session_timeout", trigger=B, members={"expected": 1, "joined": None, "kicked": 0}),
]  # fmt: skip


@pytest.fixture(scope="module")
def sent_events(spark: SparkSession) -> DataFrame:
    """The events above as records, one twice, with one malformed and one of a later version."""
    later, malformed = {**SENT[0], "_offset": 40, "v": 9}, {**SENT[0], "_offset": 41, "ts_ms": "soon"}
    return event_records(spark, *SENT, SENT[3], later, malformed)


def test_events_are_read_once_and_what_cannot_be_read_is_counted(sent_events: DataFrame) -> None:
    table_of_events = events(sent_events)
    assert table_of_events.schema.names == EVENTS.names
    assert rows_of(table_of_events, "ts_ms", "type", "trigger.client_reason", by=("ts_ms", "type"))[:2] == [
        (5_000, "rebalance_started", "hello"),
        (8_000, "join_completed", None),
    ]
    assert rows_of(table_of_events.agg(F.count("*"), F.countDistinct("event_id"))) == [(7, 7)]
    assert rows_of(unreadable_events(sent_events)) == [("incomplete", 1), ("version 9", 1)]


RECORDS: Final = [
    group_record(1, 1_000, 1, member("a", 0, 1)),
    group_record(2, 8_060, 2, member("a", 0), member("b", 1)),
    group_record(3, 30_500, 3, member("a", 0, 1)),
]
_LINES: Final[list[tuple[int, str, dict[str, Any]]]] = [
    (30_010, "member_failed", {"member_id": "b"}),
    (30_010, "preparing", {"generation_id": 2, "reason_text": "removing member b on heartbeat expiration."}),
    (30_400, "stabilized", {"generation_id": 3, "members": 1}),
    (30_490, "assignment_received", {"generation_id": 3, "members": 1}),
    (
        31_000,
        "preparing",
        {"generation_id": 3, "reason_text": "explicit `LeaveGroup` request for (a) members."},
    ),
    (31_000, "emptied", {"generation_id": 4}),
]
LINES: Final[list[dict[str, Any]]] = [
    {"type": kind, "ts_ms": ts_ms, "group_id": "g", "evidence": {"topic": "log", "offset": line}, **more}
    for line, (ts_ms, kind, more) in enumerate(_LINES)
]


def test_a_rebalance_is_a_row_by_events_else_by_the_log_else_inferred(
    spark: SparkSession, sent_events: DataFrame, materialize: Materialize
) -> None:
    # The third rebalance: events saw it begin, the log saw it end. The fourth is in the log alone.
    lines = table(spark, LOG_LINES, LINES + LINES[1:2])
    model = build(
        spark, decoded(spark, *RECORDS), materialize("events", events(sent_events)), lines, materialize=materialize
    )
    assert model["rebalances"].schema.names == REBALANCES.names
    columns = ("source", "from_generation", "to_generation", "started_ts_ms", "ended_ts_ms", "outcome", "reason",
               "trigger.member_id", "trigger.client_id", "trigger.client_host", "join_ms", "sync_ms", "total_ms",
               "came", "went", "partitions", "last_to_join.member_id", "last_to_join.wait_ms")  # fmt: skip
    assert rows_of(model["rebalances"], *columns, by=("ended_ts_ms", "started_ts_ms")) == [
        ("events", 2, None, 9_000, None, "cut_off", "leader_rejoined", "a", "client-a", "host-a", None, None, None,
         None, None, None, None, None),
        ("events", 2, None, 30_000, None, "open", "session_timeout", "b", "client-b", "host-b", None, None, None,
         None, None, None, None, None),
        ("records", None, 1, None, 1_000, "completed", "member_joined", "a", "client-a", "host-a", None, 10, None,
         1, 0, 2, None, None),
        ("events", 1, 2, 5_000, 8_050, "completed", "member_joined", "b", "client-b", "host-b", 3_000, 50, 3_050,
         1, 0, 2, "a", 3_000),
        ("log", 2, 3, 30_010, 30_490, "completed", "session_timeout", "b", "client-b", "host-b", 390, 90, 480,
         0, 1, 2, None, None),
        ("log", 3, None, 31_000, 31_000, "aborted", "member_left", "a", "client-a", "host-a", None, None, 0,
         None, None, None, None, None),
    ]  # fmt: skip
    of_members = (
        "generation_id",
        "ts_ms",
        "member_id",
        "change",
        "left_reason",
        "join_wait_ms",
        "partitions",
        "source",
    )
    assert rows_of(model["memberships"], *of_members, by=("ts_ms", "member_id")) == [
        (1, 1_000, "a", "joined", None, None, 2, "records"),
        (2, 8_060, "a", "kept", None, 3_000, 1, "both"),
        (2, 8_060, "b", "joined", None, 0, 1, "both"),
        (3, 30_000, "b", "left", "session_timeout", None, None, "both"),
        (3, 30_500, "a", "kept", None, None, 2, "records"),
    ]


def test_with_records_alone_reasons_are_inferred_from_joins_and_departures(
    spark: SparkSession, materialize: Materialize
) -> None:
    cooperative = {"protocol_name": "cooperative-sticky"}
    history = decoded(
        spark,
        group_record(1, 1_000, 1, member("a", 0, 1)),
        group_record(2, 2_000, 2, member("a", 0), member("b"), **cooperative),
        group_record(3, 3_000, 3, member("a", 0), member("b", 1), **cooperative),
        group_record(4, 4_000, 6, member("a", 0), member("b2", 1, client_id="client-b")),
        group_record(5, 5_000, 7, member("a", 0), member("c", 1)),
        group_record(6, 6_000, 8, member("a", 0), member("c", 1)),
        group_record(7, 7_000, 9),
    )
    model = build(spark, history, materialize=materialize)
    columns = (
        "to_generation",
        "outcome",
        "reason",
        "trigger.member_id",
        "came",
        "went",
        "missed",
        "partitions",
        "basis",
    )
    assert rows_of(model["rebalances"], *columns, by=("to_generation",)) == [
        (1, "completed", "member_joined", "a", 1, 0, None, 2, "inferred"),
        (2, "completed", "member_joined", "b", 1, 0, 0, 2, "inferred"),
        (3, "completed", "cooperative_follow_up", None, 0, 0, 0, 2, "inferred"),
        (6, "completed", "member_restarted", "b", 1, 1, 2, 2, "inferred"),
        (7, "completed", "members_changed", None, 1, 1, 0, 2, "inferred"),
        (8, "completed", "unknown", None, 0, 0, 0, 2, "inferred"),
        (9, "aborted", "member_gone", None, 0, 2, 0, 2, "inferred"),
    ]


REASONS: Final = {
    "Adding new member c-1 with group instance id null; client reason: not provided": ("member_joined", "c-1"),
    "adding new member c-1; client reason: rebalance failed": ("member_joined", "c-1"),
    "Leader c-1 re-joining group during Stable; client reason: topics changed": ("leader_rejoined", "c-1"),
    "Updating metadata for member c-1 during Stable; client reason: x": ("metadata_changed", "c-1"),
    "removing member c-1 on heartbeat expiration.": ("session_timeout", "c-1"),
    "Removing c-1 on pending sync request expiration": ("sync_timeout", "c-1"),
    "explicit `LeaveGroup` request for (c-1) members.": ("member_left", "c-1"),
    "Group's selectedProtocol will change because static member c-1 with instance id i joined with change of protocol; "
    "client reason: x": ("static_replaced", "c-1"),
    "Freshly-loaded group g (size 9) is over capacity 5. Rebalancing in order to give a chance for consumers to commit "
    "offsets": ("group_too_large", None),
    "something else": ("unknown", None),
}


def test_reasons_of_the_log_become_keywords_and_members(spark: SparkSession) -> None:
    lines = [
        {
            "type": "preparing",
            "ts_ms": n,
            "group_id": "g",
            "reason_text": text,
            "evidence": {"topic": "log", "offset": n},
        }
        for n, text in enumerate(REASONS)
    ]
    rows = rebalances_of_log(table(spark, LOG_LINES, lines))
    found = {text: (reason, who) for text, reason, who in rows_of(rows, "reason_text", "reason", "trigger.member_id")}
    assert found == REASONS
