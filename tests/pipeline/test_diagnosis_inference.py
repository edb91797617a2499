"""What records and commits alone allow to conclude."""

from __future__ import annotations

from tests.pipeline.diagnosis_rows import (
    a_member,
    a_snapshot,
    a_static_member,
    answers,
    diagnosed_from_records,
    with_commits,
)

A, B, C = a_member("a"), a_member("b"), a_member("c")
START = a_snapshot(1_000, 1, A, B, C)


def test_a_member_that_commits_until_it_is_gone_has_left() -> None:
    before = with_commits(START, {"a": 100_300, "b": 100_000, "c": 100_400})
    found = diagnosed_from_records(before, a_snapshot(100_450, 2, A, C))
    assert answers(found)[1:] == [("scale_down", ("b@hb",))]


def test_a_member_whose_commits_ended_a_session_before_was_killed() -> None:
    before = with_commits(START, {"a": 100_300, "b": 90_500, "c": 100_400})
    found = diagnosed_from_records(before, a_snapshot(100_450, 2, A, C))
    assert answers(found)[1:] == [("killed", ("b@hb",))]


def test_a_member_whose_commits_ended_a_poll_interval_before_it_rejoined_polled_too_late() -> None:
    before = with_commits(START, {"a": 100_300, "b": 80_000, "c": 100_400})
    gone = a_snapshot(100_450, 2, A, C)
    found = diagnosed_from_records(before, gone, a_snapshot(104_000, 3, A, C, a_member("b.2")))
    assert answers(found)[1:] == [("slow_poll", ("b@hb",))]


def test_a_restart_before_the_old_member_was_removed_is_a_kill() -> None:
    before = with_commits(START, {"a": 92_300, "b": 90_000, "c": 92_400})
    found = diagnosed_from_records(before, a_snapshot(100_450, 2, A, C, a_member("b.2")))
    assert answers(found)[1:] == [("killed", ("b@hb",))]


def test_a_record_of_the_same_generation_is_a_static_restart() -> None:
    static = a_static_member("a"), a_static_member("b"), a_static_member("c")
    again = a_snapshot(100_000, 1, static[0], a_static_member("b.2"), static[2])
    found = diagnosed_from_records(a_snapshot(1_000, 1, *static), again)
    assert answers(found)[1:] == [("static_restart", ("s-b",))]


def test_the_time_between_join_and_the_record_is_attributed_to_the_leader() -> None:
    before = with_commits(START, {"a": 100_300, "b": 100_200, "c": 100_400})
    after = a_snapshot(104_450, 2, A, B, C, a_member("d"), joined_ms=100_450)
    assert answers(diagnosed_from_records(before, after))[1:] == [("slow_leader", ("a@ha",))]


def test_a_member_that_commits_long_after_the_others_made_them_wait() -> None:
    before = with_commits(START, {"a": 100_300, "b": 109_900, "c": 100_400})
    after = a_snapshot(110_000, 2, A, B, C, a_member("d"))
    assert answers(diagnosed_from_records(before, after))[1:] == [("slow_poll", ("b@hb",))]


def test_a_generation_without_a_change_is_not_explained() -> None:
    before = with_commits(START, {"a": 100_300, "b": 100_200, "c": 100_400})
    (_, found) = diagnosed_from_records(before, a_snapshot(100_450, 2, A, B, C))
    assert (str(found.cause), found.is_observed) == ("unexplained", False)


def test_added_partitions_and_subscriptions_are_read_from_records() -> None:
    before = with_commits(START, {"a": 100_300, "b": 100_200, "c": 100_400})
    more = a_snapshot(100_450, 2, a_member("a", partitions=3), B, C)
    other = a_snapshot(100_450, 2, A, a_member("b", topics=("u",)), C)
    assert answers(diagnosed_from_records(before, more))[1:] == [("partitions_added", ())]
    assert answers(diagnosed_from_records(before, other))[1:] == [("subscription_changed", ("b@hb",))]
