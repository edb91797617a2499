"""Each root cause, from the signals it leaves."""

from __future__ import annotations

from itertools import chain

import pytest

from kshim_pipeline.diagnosis.causes import Cause, Confidence, Subject
from kshim_pipeline.diagnosis.sentences import advice, sentence
from kshim_pipeline.diagnosis.signals import Kind, Signal
from tests.pipeline.diagnosis_rows import (
    QUIET_MS,
    REBALANCE_MS,
    a_member,
    a_snapshot,
    a_static_member,
    answers,
    diagnosed,
    expired,
    joined,
    left,
    of,
    rebalanced,
    with_commits,
)

ABC = a_snapshot(1_000, 1, a_member("a"), a_member("b"), a_member("c"))
STATIC = a_snapshot(1_000, 1, a_static_member("a"), a_static_member("b"), a_static_member("c"))


def test_members_that_join_one_after_another_in_an_empty_group_are_a_one_by_one_start() -> None:
    signals = [joined("a", 100_000), joined("b", 102_000), joined("c", 104_000)]
    (found,) = diagnosed(signals=signals)
    assert (found.cause, found.subject) == (Cause.ONE_BY_ONE_START, Subject.GROUP)


def test_a_member_that_fails_in_a_group_that_has_just_started_is_reported_besides_the_start() -> None:
    signals = [joined("a", 100_000), joined("b", 102_000), *rebalanced(102_000), expired("b", 118_000)]
    start, death = diagnosed(a_snapshot(102_500, 2, a_member("a"), a_member("b")), signals=signals)
    assert (start.cause, start.from_ms, start.to_ms) == (Cause.ONE_BY_ONE_START, 100_000, 102_000)
    assert (death.cause, death.clients, death.from_ms) == (Cause.KILLED, ("b@hb",), 108_000)


def test_a_member_that_joins_existing_ones_is_a_scale_up() -> None:
    found = diagnosed(ABC, signals=[joined("d", 100_000), *rebalanced(100_000), joined("e", 102_000)])
    assert answers(found) == [("scale_up", ("d@hd", "e@he"))]


def test_members_that_leave_and_do_not_rejoin_are_a_scale_down() -> None:
    found = diagnosed(ABC, signals=[left("b", 100_000), *rebalanced(100_000)])
    assert answers(found) == [("scale_down", ("b@hb",))]


def test_a_member_that_leaves_and_rejoins_is_a_restart() -> None:
    found = diagnosed(ABC, signals=[left("b", 100_000), joined("b.2", 103_000)])
    assert answers(found) == [("restart", ("b@hb",))]


def test_a_member_that_leaves_while_another_joins_is_a_restart_under_a_new_name() -> None:
    found = diagnosed(ABC, signals=[joined("d", 100_000), left("b", 103_000)])
    assert answers(found) == [("restart", ("b@hb",))]


def test_all_members_leaving_and_rejoining_is_a_deploy() -> None:
    turns = [
        [left(name, at), joined(f"{name}.2", at + 2_000)]
        for name, at in zip("abc", range(100_000, 109_000, 3_000), strict=True)
    ]
    (found,) = diagnosed(ABC, signals=list(chain.from_iterable(turns)))
    assert (found.cause, found.subject) == (Cause.DEPLOY, Subject.GROUP)


def test_all_static_members_rejoining_with_new_ids_is_a_deploy() -> None:
    signals = [
        of(a_static_member(f"{name}.2"), at, Kind.REPLACED, other_id=name)
        for name, at in (("a", 100_000), ("b", 104_000), ("c", 108_000))
    ]
    assert answers(diagnosed(STATIC, signals=signals)) == [("deploy", ("s-a", "s-b", "s-c"))]


def test_one_static_member_rejoining_is_a_static_restart() -> None:
    signals = [of(a_static_member("b.2"), 100_000, Kind.REPLACED, other_id="b")]
    assert answers(diagnosed(STATIC, signals=signals)) == [("static_restart", ("s-b",))]


def test_a_static_member_that_alternates_between_hosts_is_a_duplicate_instance() -> None:
    signals = [
        of(a_static_member("b.2", host="hx"), 100_000, Kind.REPLACED, other_id="b"),
        of(a_static_member("b.3", host="hb"), 103_000, Kind.REPLACED, other_id="b.2"),
        of(a_static_member("b.4", host="hx"), 106_000, Kind.REPLACED, other_id="b.3"),
    ]
    assert answers(diagnosed(STATIC, signals=signals)) == [("duplicate_instance", ("s-b",))]


def test_a_static_member_that_rejoins_repeatedly_from_one_host_is_a_crash_loop() -> None:
    signals = [
        of(a_static_member(f"b.{i + 1}"), 100_000 + 3_000 * i, Kind.REPLACED, other_id=f"b.{i}" if i > 1 else "b")
        for i in range(1, 4)
    ]
    assert answers(diagnosed(STATIC, signals=signals)) == [("crash_loop", ("s-b",))]


def test_a_client_that_fails_after_each_start_is_in_a_crash_loop() -> None:
    signals = [
        joined("b.2", 100_000), expired("b", 108_000), joined("b.3", 110_000), expired("b.2", 118_000),
        joined("b.4", 119_000), expired("b.3", 128_000),
    ]  # fmt: skip
    assert answers(diagnosed(ABC, signals=signals)) == [("crash_loop", ("b@hb",))]


def test_a_client_that_leaves_and_joins_repeatedly_is_flapping() -> None:
    signals = [
        left("b", 100_000), joined("b.2", 103_000), left("b.2", 106_000), joined("b.3", 109_000),
        left("b.3", 112_000), joined("b.4", 115_000),
    ]  # fmt: skip
    assert answers(diagnosed(ABC, signals=signals)) == [("flapping", ("b@hb",))]


def test_a_member_that_leaves_with_a_poll_timeout_as_its_reason_is_a_slow_poll() -> None:
    signals = [left("b", 100_000, client_reason="consumer poll timeout has expired."), joined("b.2", 103_000)]
    assert answers(diagnosed(ABC, signals=signals)) == [("slow_poll", ("b@hb",))]


def test_a_member_that_leaves_without_a_reason_after_a_poll_timeout_without_commits_is_a_slow_poll() -> None:
    silent = with_commits(ABC, {"a": 99_000, "b": 79_500, "c": 99_000})
    found = diagnosed(silent, signals=[left("b", 100_000), joined("b.2", 103_000)])
    assert answers(found) == [("slow_poll", ("b@hb",))]


def test_an_incident_does_not_reach_back_to_the_last_commit_of_a_group_without_traffic() -> None:
    idle = with_commits(ABC, {"a": 12_000, "b": 12_000, "c": 12_000})
    found = diagnosed(idle, signals=[joined("d", 11_000), left("b", 100_000), joined("b.2", 103_000)])
    assert [one.from_ms for one in found] == [11_000, 100_000 - REBALANCE_MS]


def test_a_member_that_did_not_rejoin_within_the_rebalance_timeout_is_a_slow_poll() -> None:
    signals = [joined("d", 80_000), of(a_member("b"), 100_000, Kind.KICKED, state="PreparingRebalance")]
    assert answers(diagnosed(ABC, signals=signals)) == [("slow_poll", ("b@hb",))]


def test_a_static_member_whose_commits_ended_long_before_its_heartbeats_is_a_slow_poll() -> None:
    silent = with_commits(STATIC, {"a": 99_000, "b": 70_000, "c": 99_000})
    signals = [of(a_static_member("b"), 100_000, Kind.EXPIRED, state="Stable")]
    assert answers(diagnosed(silent, signals=signals)) == [("slow_poll", ("s-b",))]


def test_a_member_that_all_wait_for_in_join_is_a_slow_poll_whatever_triggered_the_rebalance() -> None:
    ordinary = [signal for at in (10_000, 40_000, 70_000) for signal in rebalanced(at)]
    signals = [*ordinary, joined("d", 130_000), *rebalanced(130_000, join_ms=9_000, last="c")]
    assert answers(diagnosed(ABC, signals=signals))[-1] == ("slow_poll", ("c@hc",))


def test_without_a_known_last_member_of_join_it_is_the_last_to_commit() -> None:
    commits = with_commits(ABC, {"a": 130_200, "b": 138_950, "c": 130_300})
    signals = [joined("d", 130_000), *rebalanced(130_000, join_ms=9_000, last=None)]
    assert answers(diagnosed(commits, signals=signals)) == [("slow_poll", ("b@hb",))]


def test_a_wait_that_a_heartbeat_interval_explains_is_no_slow_poll() -> None:
    signals = [joined("d", 130_000), *rebalanced(130_000, join_ms=3_300, last="c")]
    assert answers(diagnosed(ABC, signals=signals)) == [("scale_up", ("d@hd",))]


def test_a_long_sync_phase_is_a_slow_leader() -> None:
    signals = [joined("d", 100_000), *rebalanced(100_000, sync_ms=4_000)]
    assert answers(diagnosed(ABC, signals=signals)) == [("slow_leader", ("a@ha",))]


def test_a_session_that_ends_while_the_assignment_is_awaited_is_a_slow_leader() -> None:
    dead = of(a_member("a"), 110_000, Kind.EXPIRED, state="CompletingRebalance")
    assert answers(diagnosed(ABC, signals=[joined("d", 100_000), dead])) == [("slow_leader", ("a@ha",))]


def test_a_member_that_fails_and_does_not_rejoin_was_killed() -> None:
    assert answers(diagnosed(ABC, signals=[expired("b", 100_000)])) == [("killed", ("b@hb",))]


def test_a_member_that_rejoins_before_its_session_ended_was_killed_and_restarted() -> None:
    found = diagnosed(ABC, signals=[joined("b.2", 95_000), expired("b", 100_000)])
    assert answers(found) == [("killed", ("b@hb",))]


def test_a_member_that_rejoins_after_its_session_ended_was_paused() -> None:
    reason = "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"
    (found,) = diagnosed(ABC, signals=[expired("b", 100_000), joined("b.2", 102_000, client_reason=reason)])
    assert (found.cause, found.clients, found.confidence) == (Cause.PAUSED, ("b@hb",), Confidence.HIGH)


def test_a_member_that_rejoins_without_a_reason_in_a_group_with_reasons_was_killed() -> None:
    signals = [expired("b", 100_000), joined("b.2", 102_000), joined("d", 200_000, client_reason="hello")]
    assert answers(diagnosed(ABC, signals=signals))[0] == ("killed", ("b@hb",))


def test_a_pause_without_a_reason_has_low_confidence() -> None:
    (found,) = diagnosed(ABC, signals=[expired("b", 100_000), joined("b.2", 102_000)])
    assert (found.cause, found.confidence) == (Cause.PAUSED, Confidence.LOW)
    assert "nearly the same evidence" in found.sentence


def test_expired_sessions_on_one_host_are_a_stalled_host() -> None:
    (found,) = diagnosed(ABC, signals=[expired("b", 100_000, stall="hb"), joined("b.2", 103_000)])
    assert (found.cause, found.subject, found.host) == (Cause.HOST_STALLED, Subject.HOST, "hb")


@pytest.mark.parametrize(
    ("reason", "answer"),
    [
        ("subscription has changed", ("subscription_changed", ("a@ha",))),
        ("cached metadata has changed", ("partitions_added", ())),
        ("rebalance enforced by user", ("rebalance_enforced", ("a@ha",))),
        (None, ("unexplained", ("a@ha",))),
    ],
)
def test_a_rebalance_that_a_member_requested_has_its_reason(
    reason: str | None, answer: tuple[str, tuple[str, ...]]
) -> None:
    asked = of(a_member("a"), 100_000, Kind.REJOINED, client_reason=reason)
    assert answers(diagnosed(ABC, signals=[asked, *rebalanced(100_000)])) == [answer]


def test_cooperative_members_that_revoke_partitions_did_not_request_a_rebalance() -> None:
    follow_up = of(a_member("a"), 101_000, Kind.REJOINED, client_reason="need to revoke partitions and re-join")
    assert answers(diagnosed(ABC, signals=[joined("d", 100_000), follow_up])) == [("scale_up", ("d@hd",))]


def test_records_show_a_changed_subscription_where_the_client_gives_no_reason() -> None:
    after = a_snapshot(100_500, 2, a_member("a"), a_member("b", topics=("t", "u")), a_member("c"))
    asked = of(a_member("b"), 100_000, Kind.REJOINED)
    assert answers(diagnosed(ABC, after, signals=[asked])) == [("subscription_changed", ("b@hb",))]


def test_records_show_added_partitions_where_the_client_gives_no_reason() -> None:
    after = a_snapshot(100_500, 2, a_member("a", partitions=3), a_member("b"), a_member("c"))
    asked = of(a_member("a"), 100_000, Kind.REJOINED)
    assert answers(diagnosed(ABC, after, signals=[asked])) == [("partitions_added", ())]


def test_signals_after_a_quiet_period_are_another_incident() -> None:
    later_ms = 100_000 + QUIET_MS + 1
    found = diagnosed(ABC, signals=[joined("d", 100_000), joined("e", later_ms)])
    assert answers(found) == [("scale_up", ("d@hd",)), ("scale_up", ("e@he",))]


def test_an_incident_begins_when_a_member_went_silent_and_not_when_that_was_noticed() -> None:
    (found,) = diagnosed(ABC, signals=[joined("d", 100_000), expired("b", 100_000 + QUIET_MS + 5_000)])
    assert found.from_ms == 100_000


def test_an_id_that_was_issued_and_never_used_is_no_member() -> None:
    assert diagnosed(ABC, signals=[Signal(100_000, Kind.LEFT, member_id="z")]) == []


def test_a_host_that_no_line_names_is_taken_from_records_of_the_same_client() -> None:
    told = Signal(100_000, Kind.EXPIRED, member_id="b", state="Stable")
    assert answers(diagnosed(ABC, signals=[told])) == [("killed", ("b@hb",))]


def test_every_cause_has_a_sentence_and_every_fault_advice() -> None:
    for cause in Cause:
        text = sentence(cause, ("a@ha", "b@hb"), host="ha", times=3, confidence=Confidence.HIGH)
        assert text.endswith(".")
        assert "{" not in text
    assert advice(Cause.SLOW_POLL)
    assert advice(Cause.SCALE_UP) is None
