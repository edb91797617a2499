"""How a rebalance is explained in sentences."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from kshim_pipeline.options import instant
from kshim_pipeline.report.explain import explain_at, explain_rebalance, nearest
from kshim_pipeline.schemas import REBALANCES

LATE = {
    "member_id": "app-2-9f",
    "group_instance_id": None,
    "client_id": "app-2",
    "client_host": "10.0.0.6",
    "is_new": False,
    "wait_ms": 2_800,
}
LEAVER = {
    "member_id": "app-1-3c",
    "group_instance_id": None,
    "client_id": "app-1",
    "client_host": "10.0.0.5",
    "client_reason": "consumer poll timeout has expired.",
}


def a_rebalance(**fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(REBALANCES.fieldNames())
    row |= {
        "group_id": "orders",
        "from_generation": 41,
        "to_generation": 42,
        "ts_ms": 1_763_730_245_120,
        "ended_ts_ms": 1_763_730_248_000,
        "outcome": "completed",
        "reason": "member_left",
        "trigger": LEAVER,
        "join_ms": 2_868,
        "sync_ms": 12,
        "total_ms": 2_880,
        "joined": 11,
        "went": 1,
        "kicked": 0,
        "partitions": 12,
        "last_to_join": LATE,
        "basis": "observed",
        "source": "events",
        "evidence": {"topic": "__kshim_events", "partition": 0, "offset": 977},
    }
    return row | fields


def test_the_sentences_follow_a_fixed_order() -> None:
    incident = {"sentence": "app-1 exceeded max.poll.interval.ms.", "advice": "Raise it.", "confidence": 0.93}
    assert explain_rebalance(a_rebalance(), [incident], in_the_hour=14) == [
        "Group orders, generation 41 to 42, 2025-11-21 13:04:05.120 UTC, observed.",
        "It began because app-1 on 10.0.0.5 (app-1-3c) left; the client's reason: "
        '"consumer poll timeout has expired.".',
        "JOIN took 2.9 s and SYNC took 12 ms, 2.9 s in all; 12 partitions were stopped.",
        "Last to join was app-2 on 10.0.0.6 (app-2-9f): other members waited 2.8 s for it.",
        "11 members are in the new generation, 1 of the previous generation are missing.",
        "Cause, 93% sure: app-1 exceeded max.poll.interval.ms.",
        "Recommendation: Raise it.",
        "The group rebalanced 14 times within half an hour before and after.",
        "Evidence: __kshim_events-0, offset 977.",
    ]


def an_epoch(**fields: Any) -> dict[str, Any]:
    epoch: dict[str, Any] = dict.fromkeys(("join_ms", "sync_ms", "last_to_join"))
    epoch |= {"group_type": "consumer", "compute_ms": 1_000, "revoke_ms": 6_000, "assign_ms": 1_500, "total_ms": 8_500}
    epoch |= {"last_to_revoke": LATE, "unowned_ms": 1_500, "unowned_partition_ms": 3_000}
    return a_rebalance(**epoch | fields)


@pytest.mark.parametrize(("after_ms", "is_named"), [(0, True), (1, True), (5_000, False)])
def test_an_incident_may_end_a_moment_before_the_rebalance_that_it_began(after_ms: int, is_named: bool) -> None:
    row = a_rebalance()
    ended_ms = row["ts_ms"] - after_ms
    killed = {"from_ms": ended_ms - 6_000, "to_ms": ended_ms, "confidence": 0.9, "sentence": "app-1 was killed."}
    lines = explain_at([row], [killed], [], row["ts_ms"])
    assert ("Cause, 90% sure: app-1 was killed." in lines) is is_named


def test_an_epoch_of_the_new_protocol_is_explained_by_its_phases() -> None:
    lines = explain_rebalance(an_epoch(), migrations=[{"to_type": "consumer", "ts_ms": 1_763_730_240_000}])
    assert lines[0].startswith("Group orders, the new protocol, epoch 41 to 42, ")
    assert lines[2:-1] == [
        "Computing a target took 1.0 s, revoking took 6.0 s, assigning took 1.5 s, 8.5 s in all.",
        "Last to give up partitions was app-2 on 10.0.0.6 (app-2-9f): others waited 2.8 s for it.",
        "Partitions had no owner for up to 1.5 s, 3.0 s summed over all.",
        "11 members are in the new epoch, 1 of the previous epoch are missing.",
        "The group went over to the new protocol at 2025-11-21 13:04:00.000 UTC.",
    ]


def test_an_epoch_that_is_not_over_names_who_holds_partitions() -> None:
    row = an_epoch(
        outcome="open", total_ms=None, revoke_ms=None, assign_ms=None, basis="inferred", reason="topics_changed"
    )
    lines = explain_rebalance(row)
    assert lines[1] == (
        "It began because topics that it subscribes to were made, deleted or got partitions; the client's reason: "
        '"consumer poll timeout has expired.".'
    )
    assert lines[2:4] == [
        "Computing a target took 1.0 s.",
        "Partitions were held longest by app-2 on 10.0.0.6 (app-2-9f): others waited 2.8 s for it.",
    ]
    assert "which records the phases, but not why an epoch rises" in lines[-2]


def test_an_inferred_rebalance_says_what_is_unknown() -> None:
    unknown = dict.fromkeys(("trigger", "join_ms", "sync_ms", "total_ms", "last_to_join", "partitions"))
    place = {"topic": "__consumer_offsets", "partition": 7, "offset": 3}
    row = a_rebalance(**unknown, reason="member_gone", basis="inferred", source="records", evidence=place)
    lines = explain_rebalance(row)
    assert "whether it left or failed is not recorded" in lines[1]
    assert any("records neither when a rebalance begins" in line for line in lines)
    assert not any("JOIN took" in line for line in lines)


@pytest.mark.parametrize(
    ("outcome", "words"), [("superseded", "the next rebalance began"), ("open", "still open"), ("cut_off", "not known")]
)
def test_a_rebalance_that_did_not_complete_says_so(outcome: str, words: str) -> None:
    assert any(words in line for line in explain_rebalance(a_rebalance(outcome=outcome, to_generation=None)))


def test_a_line_of_a_log_is_named_by_its_number() -> None:
    evidence = {"topic": "log", "partition": None, "offset": 1203}
    assert explain_rebalance(a_rebalance(evidence=evidence))[-1] == "Evidence: log, line 1203."


@pytest.mark.parametrize(("at_ms", "expected"), [(5, 10), (10, 10), (15, 10), (22, 20), (99, 30)])
def test_the_nearest_rebalance_is_the_current_one_or_else_the_previous(at_ms: int, expected: int) -> None:
    rows = [{"ts_ms": begin, "ended_ts_ms": begin + 4} for begin in (30, 10, 20)]
    found = nearest(rows, at_ms)
    assert found is not None
    assert found["ts_ms"] == expected


def test_without_rebalances_there_is_no_nearest() -> None:
    assert nearest([], 0) is None


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2025-11-21T13:04:05", 1_763_730_245_000),
        ("2025-11-21T14:04:05+01:00", 1_763_730_245_000),
        ("1763730245120", 1_763_730_245_120),
        ("latest", None),
    ],
)
def test_times_are_parsed(text: str, ms: int | None) -> None:
    assert instant(text) == ms


def test_a_malformed_time_is_refused_with_an_example() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write 2026"):
        instant("yesterday")
