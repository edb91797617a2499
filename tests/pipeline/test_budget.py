"""A budget of rebalances: what breaks it, and what a machine reads about it."""

from __future__ import annotations

from kshim_pipeline.report.budget import Budget, verdict

CALM = {"group_id": "calm", "rebalances": 2, "stopped_ms": 900, "longest_ms": 600, "critical": None}
FREQUENT = {"group_id": "frequent", "rebalances": 30, "stopped_ms": 90_000, "longest_ms": 45_000, "critical": 1}
UNTIMED = {"group_id": "untimed", "rebalances": 3, "stopped_ms": None, "longest_ms": None, "critical": None}


def test_a_group_within_every_limit_passes() -> None:
    found = verdict(Budget(max_rebalances=2, max_stopped_ms=900), [CALM], hours=1)
    assert found["broken"] is False
    assert found["groups"][0]["broken"] == []


def test_each_exceeded_limit_is_named() -> None:
    limits = Budget(max_rebalances=29, max_per_hour=14.9, max_stopped_ms=1, max_total_ms=44_999, max_critical=0)
    found = verdict(limits, [FREQUENT], hours=2)
    assert found["groups"][0]["broken"] == [
        "max_rebalances",
        "max_per_hour",
        "max_stopped_ms",
        "max_total_ms",
        "max_critical",
    ]


def test_one_group_that_exceeds_a_limit_fails_the_whole_check() -> None:
    found = verdict(Budget(max_per_hour=6), [FREQUENT, CALM], hours=1)
    assert found["broken"] is True
    assert [(row["group_id"], row["broken"]) for row in found["groups"]] == [
        ("calm", []),
        ("frequent", ["max_per_hour"]),
    ]


def test_unknown_times_exceed_no_limit() -> None:
    assert not verdict(Budget(max_stopped_ms=0, max_total_ms=0), [UNTIMED], hours=1)["broken"]


def test_only_limits_that_were_given_are_repeated() -> None:
    assert verdict(Budget(max_per_hour=6), [], hours=0.5)["budget"] == {"max_per_hour": 6}
