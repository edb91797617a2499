"""Incidents of clients that are all on one machine, as most are played: names and hosts tell little there, and times have to."""

from __future__ import annotations

from typing import Any

from kshim.explain.facts import Committed
from kshim.explain.sources.events import fact_of_event
from kshim.explain.words import sentence
from tests.explain.story import MINUTE, SECOND, Story, activity

HOUR = 60 * MINUTE
SESSION_MS = 10 * SECOND
HERE = "127.0.0.1"


def three_on_one_host(*, static: bool = False, rebalance_ms: int = MINUTE) -> Story:
    """Members that were started two seconds apart."""
    story = Story(session_ms=SESSION_MS, rebalance_ms=rebalance_ms)
    for number, client in enumerate(("a", "b", "c")):
        story.joins(2 * SECOND * number, client, host=HERE, static=static, connection=client)
    return story


def causes_of(story: Story) -> list[tuple[str, tuple[str, ...]]]:
    """All but the start."""
    return story.causes()[1:]


def test_the_delay_before_the_first_rebalance_of_a_group_is_no_wait_for_a_member() -> None:
    story = Story().joins(0, "a", completes=False).joins(300, "b", completes=False).completes(6_010, join_ms=5_999)
    assert [cause for cause, _ in story.causes()] == ["one_by_one_start"]


def test_nobody_waits_for_members_that_left_just_before_the_group_starts_again() -> None:
    story = three_on_one_host()
    for number, client in enumerate(("a", "b", "c")):
        story.leaves(HOUR + 200 * number, client, completes=False)
    for number, client in enumerate(("a", "b", "c")):
        story.joins(HOUR + 900 + 300 * number, client, host=HERE, completes=False)
    story.completes(HOUR + 7 * SECOND, join_ms=6 * SECOND)
    assert [cause for cause, _ in causes_of(story)] == ["deploy"]


def test_a_process_that_is_heard_of_when_another_one_has_its_instance_id_has_a_twin() -> None:
    story = three_on_one_host(static=True)
    old = story.member("a")
    story.replaces(HOUR, "a", host=HERE).is_heard_of(HOUR + 3 * SECOND, old)
    assert causes_of(story) == [("duplicate_instance", ("a",))]


def test_the_one_that_says_that_it_goes_on_after_its_twin_had_ended_is_the_other_one() -> None:
    story = three_on_one_host(static=True)
    old = story.member("a")
    story.replaces(HOUR, "a", host=HERE).is_heard_of(HOUR + SECOND, old).is_heard_of(HOUR + 20 * SECOND, old)
    story.expires(HOUR + 22 * SECOND, "a", committed=Committed(HOUR + 12 * SECOND, SECOND, HOUR + 11 * SECOND))
    story.joins(
        HOUR + 25 * SECOND, "a", host=HERE, static=True, says="rejoining after we previously errored and backed off"
    )
    assert causes_of(story) == [("duplicate_instance", ("a",))]


def test_a_twin_that_is_started_again_goes_on_taking_the_instance_id_from_the_same_process() -> None:
    story = three_on_one_host(static=True)
    old = story.member("a")
    story.replaces(HOUR, "a", host=HERE).is_heard_of(HOUR + SECOND, old)
    story.replaces(
        HOUR + 20 * SECOND, "a", host=HERE, committed=Committed(HOUR + 17 * SECOND, SECOND, HOUR + 16 * SECOND)
    )
    story.is_heard_of(HOUR + 22 * SECOND, old).is_heard_of(HOUR + 30 * SECOND, old)
    story.expires(HOUR + 41 * SECOND, "a", committed=Committed(HOUR + 31 * SECOND, SECOND, HOUR + 30 * SECOND))
    story.joins(HOUR + 42 * SECOND, "a", host=HERE, static=True)
    assert causes_of(story) == [("duplicate_instance", ("a",))]


def test_a_deploy_has_all_of_its_parts_also_where_a_process_of_its_name_is_added_much_later() -> None:
    """Each new process is started before an old one is stopped, so that the last that left has none after it."""
    story = Story(session_ms=SESSION_MS)
    for number in range(3):
        story.joins(2 * SECOND * number, "a", host=HERE)
    for number in range(3):
        at_ms = HOUR + 5 * SECOND * number
        story.joins(at_ms, "a", host=HERE).leaves(at_ms + 2 * SECOND, "a")
    story.joins(2 * HOUR, "a", host=HERE)
    assert causes_of(story) == [("deploy", (f"a@{HERE}",)), ("scale_up", (f"a@{HERE}",))]


def test_processes_that_end_before_any_assignment_has_them_are_in_the_loop_of_their_client() -> None:
    story = three_on_one_host()
    # Killed at 1, 7 and 12 s; its successors join at 2, 8 and 14 s, and no leader that is alive assigns before 30 s.
    story.joins(HOUR + 2 * SECOND, "a", host=None, completes=False)
    story.joins(HOUR + 8 * SECOND, "a", host=None, completes=False)
    story.expires(HOUR + 9 * SECOND, "a", completes=False).ends_join(HOUR + 9 * SECOND, join_ms=7 * SECOND)
    story.joins(HOUR + 14 * SECOND, "a", host=HERE, completes=False)
    story.expires(HOUR + 19 * SECOND, "a", completes=False).ends_join(HOUR + 19 * SECOND, join_ms=5 * SECOND)
    story.expires(HOUR + 29 * SECOND, "a", completes=False).completes(HOUR + 30 * SECOND)
    assert causes_of(story) == [("crash_loop", (f"a@{HERE}",))]


def test_a_loop_that_begins_soon_after_a_start_leaves_the_start_as_it_was() -> None:
    story = three_on_one_host()
    for begin_ms in (20 * SECOND, 40 * SECOND, 60 * SECOND):
        closed = activity(connection="a", last_request_ms=begin_ms, closed_ms=begin_ms + 100, closed_by="client")
        story.joins(begin_ms + 2 * SECOND, "a", host=HERE, completes=False)
        story.expires(begin_ms + SESSION_MS, "a", activity=closed)
    start, loop = story.causes()
    assert start == ("one_by_one_start", (f"a@{HERE}", f"b@{HERE}", f"c@{HERE}"))
    assert loop == ("crash_loop", (f"a@{HERE}",))


def test_a_loop_goes_on_where_a_process_is_started_again_only_after_the_session_of_the_one_before() -> None:
    """Supervisors wait longer each time: for 2, 4 and 12 s."""
    story = three_on_one_host()
    for back_ms, expired_ms in ((2, 10), (17, 23)):
        story.joins(HOUR + back_ms * SECOND, "a", host=HERE, completes=False)
        story.expires(HOUR + expired_ms * SECOND, "a")
    story.expires(HOUR + 33 * SECOND, "a").joins(HOUR + 35 * SECOND, "a", host=HERE)
    assert causes_of(story) == [("crash_loop", (f"a@{HERE}",))]


def test_a_static_member_whose_last_commit_came_ahead_of_its_timer_was_stopped() -> None:
    closing = Committed(HOUR, 5 * SECOND, before_ms=HOUR - 2 * SECOND)
    story = three_on_one_host(static=True).expires(HOUR + SESSION_MS, "a", committed=closing)
    assert causes_of(story) == [("static_stopped", ("a",))]


def test_a_static_member_whose_last_commit_came_hardly_ahead_of_a_timer_that_is_never_early_was_stopped() -> None:
    closing = Committed(HOUR, 5 * SECOND, before_ms=HOUR - 4_880, is_early=True)
    story = three_on_one_host(static=True).expires(HOUR + SESSION_MS, "a", committed=closing)
    assert causes_of(story) == [("static_stopped", ("a",))]


def test_a_static_member_that_a_sample_shows_gone_a_little_late_may_have_been_closed_with_its_last_commit() -> None:
    closing = Committed(HOUR, 5 * SECOND, before_ms=HOUR - 2 * SECOND)
    for late_ms, cause in ((0, "killed"), (SECOND, "static_stopped")):
        story = three_on_one_host(static=True)
        story.expires(HOUR + 700 + SESSION_MS, "a", committed=closing, late_ms=late_ms)
        assert causes_of(story) == [(cause, ("a",))]


def test_a_static_member_that_ended_between_two_commits_was_killed() -> None:
    regular = Committed(HOUR, 5 * SECOND, before_ms=HOUR - 5 * SECOND)
    story = three_on_one_host(static=True).expires(HOUR + 2 * SECOND + SESSION_MS, "a", committed=regular)
    assert causes_of(story) == [("killed", ("a",))]


def test_a_static_member_that_commits_only_what_is_new_need_not_commit_as_it_closes() -> None:
    regular = Committed(HOUR, SECOND, before_ms=HOUR - SECOND, is_sparse=True)
    story = three_on_one_host(static=True).expires(HOUR + SESSION_MS, "a", committed=regular)
    assert causes_of(story.completes(HOUR + MINUTE)) == [("static_stopped", ("a",))]


def test_a_static_member_that_is_added_again_much_later_had_been_stopped_for_good() -> None:
    regular = Committed(HOUR, SECOND, before_ms=HOUR - SECOND, is_sparse=True)
    story = three_on_one_host(static=True).expires(HOUR + SESSION_MS, "a", committed=regular)
    story.joins(HOUR + 10 * MINUTE, "a", host=HERE, static=True, says="")
    assert ("static_stopped", ("a",)) in causes_of(story)


def test_a_static_member_whose_connection_ends_long_after_its_last_commit_was_killed() -> None:
    killed = activity(
        last_request_ms=HOUR, closed_ms=HOUR + 2 * SECOND, closed_by="client", last_api="OffsetCommit", connection="a"
    )
    story = three_on_one_host(static=True).expires(HOUR + SESSION_MS, "a", activity=killed)
    assert causes_of(story) == [("killed", ("a",))]


def test_who_leaves_without_the_commit_of_a_consumer_that_closes_after_its_poll_interval_polled_too_late() -> None:
    story = three_on_one_host(rebalance_ms=15 * SECOND)
    story.leaves(HOUR, "a", committed=Committed(HOUR - 11 * SECOND, 5 * SECOND))
    story.joins(HOUR + 5 * SECOND, "a", host=HERE)
    assert causes_of(story) == [("slow_poll", (f"a@{HERE}",))]


def test_a_slow_poll_minutes_after_another_one_is_the_same_only_if_nothing_was_committed_in_between() -> None:
    for worked_ms, expected in ((20 * SECOND, 1), (4 * MINUTE, 2)):
        story = three_on_one_host(rebalance_ms=5 * MINUTE)
        for left_ms in (HOUR, HOUR + 6 * MINUTE + worked_ms):
            story.leaves(left_ms, "a", committed=Committed(left_ms - 5 * MINUTE, 5 * SECOND))
            story.joins(left_ms + MINUTE, "a", host=HERE)
        assert causes_of(story) == [("slow_poll", (f"a@{HERE}",))] * expected


def test_who_leaves_before_its_commit_timer_is_due_and_commits_nothing_then_polled_too_late() -> None:
    for quiet_ms, usual_ms, cause in (
        (5_400, 5_000, "slow_poll"),
        (100, 5_000, "restart"),  # it committed as it closed
        (4_800, 5_000, "restart"),  # a poll that took 10 s has no commit of its last 5 s
        (5_400, 6_000, "restart"),  # it commits by itself, perhaps not as it closes
    ):
        story = three_on_one_host(rebalance_ms=10 * SECOND)
        story.leaves(HOUR, "a", committed=Committed(HOUR - quiet_ms, usual_ms)).joins(HOUR + 900, "a", host=HERE)
        assert causes_of(story) == [(cause, (f"a@{HERE}",))]


def test_who_never_commits_what_it_was_assigned_polled_too_late_if_the_others_commit_more_often() -> None:
    story = three_on_one_host(rebalance_ms=8 * SECOND)
    story.leaves(HOUR, "a", committed=Committed(HOUR - 9 * SECOND, 5 * SECOND, is_none=True))
    story.joins(HOUR + 3 * SECOND, "a", host=HERE)
    assert causes_of(story) == [("slow_poll", (f"a@{HERE}",))]


def test_nobody_polled_too_late_because_the_broker_was_not_there_to_commit_to() -> None:
    story = three_on_one_host(rebalance_ms=30 * SECOND)
    story.stops(HOUR - 45 * SECOND).loads(HOUR - 12 * SECOND)
    story.leaves(HOUR, "a", committed=Committed(HOUR - 46 * SECOND, 5 * SECOND))
    story.joins(HOUR + 3 * SECOND, "a", host=HERE)
    assert ("restart", (f"a@{HERE}",)) in causes_of(story)


def a_process_of_three(*others: str) -> Story:
    """Three members that joined in the same moment; `others` did as well."""
    story = Story(session_ms=SESSION_MS)
    for number, client in enumerate(("t-0", "t-1", "t-2", *others)):
        story.joins(SECOND + 20 * number, client, host=HERE)
    return story.joins(MINUTE, "late", host=HERE)


def all_fall_silent_and_are_back(story: Story, back_ms: int, *, apart_ms: int = 20) -> None:
    for number, client in enumerate(("t-0", "t-1", "t-2")):
        story.joins(back_ms + apart_ms * number, client, host=HERE, completes=False)
        story.expires(HOUR + SESSION_MS + 100 * number, client, completes=False)
    story.completes(max(back_ms, HOUR + SESSION_MS) + SECOND)


def test_members_that_do_the_same_in_the_same_moment_are_of_one_process() -> None:
    story = a_process_of_three()
    all_fall_silent_and_are_back(story, HOUR + SESSION_MS + 5 * SECOND)
    incident = story.incidents()[-1]
    assert (str(incident.cause), len(incident.clients)) == ("paused", 3)
    assert sentence(incident).startswith(f"One process, with the members t-0@{HERE}, t-1@{HERE} and t-2@{HERE}, stood")


def test_a_process_with_several_members_that_is_killed_is_one_incident() -> None:
    story = a_process_of_three()
    all_fall_silent_and_are_back(story, HOUR + 3 * SECOND)
    names = tuple(f"t-{number}@{HERE}" for number in range(3))
    assert ("killed", names) in story.causes()


def test_members_beside_which_another_one_that_joined_with_them_goes_on_are_of_several_processes() -> None:
    story = a_process_of_three("t-3")
    all_fall_silent_and_are_back(story, HOUR + SESSION_MS + 5 * SECOND)
    assert story.causes()[-1][0] == "network_cut"


def test_members_that_come_back_some_time_apart_are_of_several_processes() -> None:
    story = a_process_of_three()
    all_fall_silent_and_are_back(story, HOUR + SESSION_MS + 5 * SECOND, apart_ms=SECOND)
    assert story.causes()[-1][0] in ("network_cut", "host_stalled")


def test_two_of_one_group_that_lose_the_broker_for_the_same_time_were_cut_off_whoever_else_is_on_the_only_host() -> (
    None
):
    story = three_on_one_host()
    for group in ("orders", "mails"):
        for client in ("x", "y"):
            story.joins(10 * SECOND, client, group=group, host=HERE)
    for client in ("a", "b"):
        silent = activity(connection=client, last_request_ms=HOUR)
        story.expires(HOUR + SESSION_MS, client, activity=silent)
        story.joins(HOUR + 15 * SECOND, client, host=HERE, connection=f"{client} 2", opened_ms=HOUR + 14 * SECOND)
    assert story.causes()[-1] == ("network_cut", (f"a@{HERE}", f"b@{HERE}"))


def test_members_of_several_groups_that_are_gone_and_back_together_were_cut_off_whoever_else_went_on() -> None:
    """All are on one machine, and half of the members of each group, or fewer, have the network that is cut."""
    groups = ("billing", "orders", "mails", "audits")
    story = Story(session_ms=SESSION_MS)
    for group in groups:
        for number in range(4):
            story.joins(300 * number, f"{group}-{number}", group=group, host=HERE)
    for number, group in enumerate(groups):
        story.expires(HOUR + 400 * number + SESSION_MS, f"{group}-0", group=group)
        story.joins(HOUR + 18 * SECOND + 200 * number, f"{group}-0", group=group, host=HERE)
    assert story.causes()[-1] == ("network_cut", tuple(sorted(f"{group}-0@{HERE}" for group in groups)))


def test_a_host_on_which_a_member_went_on_did_not_stand_still() -> None:
    story = Story(session_ms=SESSION_MS)
    for group in ("billing", "orders", "mails"):
        story.joins(0, group, group=group, host="10.0.0.7", connection=group)
    story.joins(0, "far", group="mails", host="10.0.0.8")
    for group in ("billing", "orders"):
        silent = activity(connection=group, last_request_ms=HOUR)
        story.expires(HOUR + SESSION_MS, group, group=group, activity=silent)
        story.joins(HOUR + 20 * SECOND, group, group=group, host="10.0.0.7", connection=group, opened_ms=0)
    assert "host_stalled" not in [cause for cause, _ in story.causes()]


def test_two_that_fetched_until_different_times_fell_silent_one_after_the_other() -> None:
    story = Story(session_ms=SESSION_MS)
    for group in ("billing", "orders"):
        story.joins(0, group, group=group, host="10.0.0.7", connection=group)
        story.joins(0, f"{group}-2", group=group, host="10.0.0.8")
    for group, at_ms in (("billing", HOUR), ("orders", HOUR + 2 * SECOND)):
        silent = activity(connection=group, last_request_ms=HOUR, last_fetch_ms=at_ms)
        story.expires(HOUR + SESSION_MS, group, group=group, activity=silent)
        story.joins(HOUR + 20 * SECOND, group, group=group, host="10.0.0.7", connection=group, opened_ms=0)
    assert [cause for cause, _ in story.causes()][-2:] == ["paused", "paused"]


def test_a_process_that_joins_while_another_ones_connection_is_open_is_not_its_successor() -> None:
    """Those of a loop wait for a rebalance when they are killed, so that their JoinGroup is all that was heard of them."""
    story = three_on_one_host().joins(HOUR - MINUTE, "a", host=HERE, connection="loop 0")
    story.joins(HOUR + 2 * SECOND, "a", host=HERE, connection="added", completes=False)
    for number in range(1, 4):
        begin_ms = HOUR + 5 * SECOND * number
        story.joins(begin_ms, "a", host=HERE, connection=f"loop {number}", opened_ms=begin_ms - 10, completes=False)
    joined = story.known().facts
    for number in range(4):
        (fact,) = [
            each for each in joined if each.activity is not None and each.activity.connection_id == f"loop {number}"
        ]
        closed_ms = HOUR + 5 * SECOND * number + 4 * SECOND
        heard_ms = HOUR if number == 0 else fact.ts_ms
        gone = activity(connection=f"loop {number}", last_request_ms=heard_ms, closed_ms=closed_ms, closed_by="client")
        assert fact.member is not None
        story.expires_again(heard_ms + SESSION_MS, fact.member, gone)
    story.joins(HOUR + 21 * SECOND, "a", host=HERE, connection="loop 4", opened_ms=HOUR + 21 * SECOND - 10)
    assert ("crash_loop", (f"a@{HERE}",)) in causes_of(story)
    assert "killed" not in [cause for cause, _ in causes_of(story)]


def test_an_application_that_asks_for_a_rebalance_again_later_has_done_so_twice() -> None:
    story = three_on_one_host()
    for at_ms in (HOUR, HOUR + 30 * SECOND):
        story.requests(at_ms, "a", says="rebalance enforced by user")
    assert causes_of(story) == [("rebalance_enforced", (f"a@{HERE}",))] * 2


def test_static_members_that_are_deployed_at_once_need_not_all_be_back_within_their_sessions() -> None:
    story = three_on_one_host(static=True)
    for group in ("orders", "mails"):
        story.joins(10 * SECOND, group, group=group, host=HERE)
    last_ms = [HOUR + 100 * number for number in range(3)]
    closing = [Committed(ts_ms, 9 * SECOND, before_ms=ts_ms - 9 * SECOND, is_sparse=True) for ts_ms in last_ms]
    story.replaces(HOUR + 9 * SECOND, "a", host=HERE, committed=closing[0])
    for number, client in enumerate(("b", "c"), 1):
        ends_ms = HOUR + 100 * number + SESSION_MS
        story.expires(ends_ms, client, committed=closing[number], completes=False)
        story.joins(ends_ms + 700 * number, client, host=HERE, static=True, completes=False)
    assert causes_of(story.completes(HOUR + 14 * SECOND))[-1] == ("deploy", ("a", "b", "c"))


def test_who_begins_a_rebalance_is_no_successor_of_one_that_joins_in_it() -> None:
    """Both fall silent as soon as it is over, and are back together."""
    story = Story(session_ms=SESSION_MS)
    for number in range(3):
        story.joins(2 * SECOND * number, "a", host=HERE)
    story.joins(HOUR, "a", host=HERE, completes=False).completes(HOUR + SECOND, join_ms=SECOND - 10)
    story.expires(HOUR + SECOND + SESSION_MS, "a", completes=False)
    new = story.member("a")
    story.expires_again(HOUR + SECOND + SESSION_MS, new).completes(HOUR + 12 * SECOND)
    for number in range(2):
        story.joins(HOUR + 17 * SECOND + number * 10, "a", host=HERE)
    assert [cause for cause, _ in causes_of(story)] == ["scale_up", "network_cut"]


def test_who_falls_silent_just_after_a_rebalance_may_have_sent_heartbeats_until_a_network_was_cut() -> None:
    story = Story(session_ms=SESSION_MS)
    for number, client in enumerate(("a", "b", "c", "d")):
        story.joins(2 * SECOND * number, client, host=HERE)
    # Sessions begin with the end of phase JOIN at HOUR. The network is cut 2.8 s later; that of a would have been the next.
    story.completes(HOUR + 10, join_ms=SECOND)
    for client, heard_ms in (("a", 0), ("b", 2_500), ("c", 2_600), ("d", 2_700)):
        story.expires(HOUR + heard_ms + SESSION_MS, client, completes=False)
    story.completes(HOUR + SESSION_MS + 5 * SECOND)
    for number, client in enumerate(("a", "b", "c", "d")):
        story.joins(HOUR + 18 * SECOND + 100 * number, client, host=HERE)
    assert causes_of(story) == [("network_cut", tuple(f"{client}@{HERE}" for client in "abcd"))]


def test_who_fetches_for_long_without_a_heartbeat_is_another_process_and_the_member_is_silent_with_the_others() -> None:
    story = three_on_one_host()
    for client, fetched_ms in (("a", HOUR), ("b", HOUR + 8 * SECOND)):
        silent = activity(connection=client, last_request_ms=HOUR, last_fetch_ms=fetched_ms)
        story.expires(HOUR + SESSION_MS, client, activity=silent, completes=False)
    for client in ("a", "b"):
        back_ms = HOUR + 15 * SECOND
        story.joins(back_ms, client, host=HERE, connection=f"{client} 2", opened_ms=back_ms - 100)
    assert causes_of(story) == [("network_cut", (f"a@{HERE}", f"b@{HERE}"))]


def test_who_had_fallen_silent_before_a_network_was_cut_takes_none_of_those_along_that_were_cut_off() -> None:
    story = Story(session_ms=SESSION_MS)
    for client in ("a", "b", "c", "d", "e"):
        story.joins(0, client, host=HERE)
    # The network is cut at HOUR, and heartbeats come every 3 s: b to e were heard of within these. a had ended before.
    story.expires(HOUR - 4_200 + SESSION_MS, "a", completes=False)
    for client, before_ms in (("b", 2_900), ("c", 400), ("d", 300), ("e", 200)):
        story.expires(HOUR - before_ms + SESSION_MS, client, completes=False)
    story.completes(HOUR + SESSION_MS + SECOND)
    for number, client in enumerate(("b", "c", "d", "e")):
        story.joins(HOUR + 15 * SECOND + 100 * number, client, host=HERE)
    assert ("network_cut", tuple(f"{client}@{HERE}" for client in "bcde")) in story.causes()


def test_a_network_that_is_cut_twice_within_a_minute_is_two_incidents() -> None:
    story = three_on_one_host()
    for begin_ms in (HOUR, HOUR + 40 * SECOND):
        for client in ("a", "b"):
            story.expires(begin_ms + SESSION_MS, client, activity=activity(connection=client, last_request_ms=begin_ms))
            back_ms = begin_ms + 15 * SECOND
            story.joins(back_ms, client, host=HERE, connection=f"{client} {back_ms}", opened_ms=back_ms - 100)
    assert [cause for cause, _ in causes_of(story)] == ["network_cut", "network_cut"]


def test_a_broker_that_is_restarted_twice_within_a_minute_is_two_incidents() -> None:
    story = three_on_one_host()
    for begin_ms in (HOUR, HOUR + 50 * SECOND):
        story.stops(begin_ms).loads(begin_ms + 6 * SECOND)
    assert [cause for cause, _ in causes_of(story)] == ["broker_restarted", "broker_restarted"]


def test_the_assignor_of_the_rebalance_with_the_last_process_tells_what_a_deploy_changed() -> None:
    story = three_on_one_host()
    for number, client in enumerate(("a", "b", "c")):
        story.leaves(HOUR + 200 * number, client, completes=False)
    story.joins(HOUR + 5 * SECOND, "a", host=HERE, assignor="sticky")
    story.joins(HOUR + 8 * SECOND, "c", host=HERE, completes=False)
    story.joins(HOUR + 10 * SECOND, "b", host=HERE, assignor="sticky")
    assert [cause for cause, _ in causes_of(story)] == ["assignor_changed"]


def test_a_static_member_that_sent_heartbeats_after_its_last_commit_and_is_back_is_no_part_of_a_deploy() -> None:
    story = three_on_one_host(static=True)
    for begin_ms, client in ((HOUR, "a"), (HOUR + 30 * SECOND, "b"), (HOUR + MINUTE, "c")):
        regular = Committed(begin_ms - 2 * SECOND, 5 * SECOND, before_ms=begin_ms - 7 * SECOND)
        story.expires(begin_ms + SESSION_MS, client, committed=regular)
        story.joins(begin_ms + 14 * SECOND, client, host=HERE, static=True)
    assert [cause for cause, _ in causes_of(story)] == ["paused"] * 3


def test_a_client_that_no_record_has_is_where_all_others_of_its_group_are() -> None:
    story = three_on_one_host().joins(HOUR, "d", host=None).leaves(HOUR + SECOND, "d")
    assert (f"d@{HERE}",) in [clients for _, clients in story.causes()]


def event(**activity_fields: int | None) -> dict[str, Any]:
    """Of a member that has left."""
    member = {"member_id": "a-1", "instance_id": None, "client_id": "a", "host": HERE, "client_reason": None}
    fields = {"connection_id": 1, "opened_ms": 0, "closed_by": None, "last_request_ms": 0, "last_api": "Heartbeat"}
    return {
        "event_id": "r-1",
        "run": "r",
        "type": "member_left",
        "ts_ms": HOUR,
        "group": "billing",
        "reason": "session_timeout",
        "trigger": member,
        "replaced_member_id": None,
        "state_from": "Stable",
        "activity": {**fields, "software": None, **activity_fields},
    }


def test_what_is_fetched_after_a_process_has_ended_is_fetched_by_another_one_of_its_name() -> None:
    before = fact_of_event(event(last_fetch_ms=SECOND, closed_ms=2 * SECOND))
    after = fact_of_event(event(last_fetch_ms=MINUTE, closed_ms=2 * SECOND))
    assert before is not None
    assert after is not None
    assert [fact.activity and fact.activity.last_fetch_ms for fact in (before, after)] == [SECOND, None]


def test_members_that_all_come_back_when_the_broker_does_are_of_no_process_that_was_killed() -> None:
    story = a_process_of_three().stops(HOUR).loads(HOUR + 6 * SECOND)
    all_fall_silent_and_are_back(story, HOUR + 8 * SECOND)
    assert [cause for cause, _ in story.causes()][2:] == ["broker_restarted"]


def test_who_comes_back_is_the_one_of_its_name_that_ended_last() -> None:
    story = Story(session_ms=SESSION_MS, rebalance_ms=MINUTE)
    for number, connection in enumerate(("a", "b", "c")):
        story.joins(2 * SECOND * number, "one", host=HERE, connection=connection)
    killed = activity(connection="a", last_request_ms=HOUR, closed_ms=HOUR + 100, closed_by="client")
    story.expires(HOUR + SESSION_MS, "one", activity=killed)
    story.leaves(HOUR + 40 * SECOND, "one", says="the consumer is being closed")
    story.joins(HOUR + 43 * SECOND, "one", host=HERE, connection="d")
    assert causes_of(story) == [("killed", (f"one@{HERE}",)), ("restart", (f"one@{HERE}",))]


def test_who_stands_still_after_a_crash_loop_is_no_part_of_it() -> None:
    story = three_on_one_host()
    for begin_ms in (HOUR, HOUR + 15 * SECOND, HOUR + 30 * SECOND):
        killed = activity(connection="x", last_request_ms=begin_ms, closed_ms=begin_ms + 100, closed_by="reset")
        story.joins(begin_ms + 7 * SECOND, "a", host=HERE, connection=f"a{begin_ms}")
        story.expires(begin_ms + SESSION_MS, "a", activity=killed)
    last = f"a{HOUR + 30 * SECOND}"
    story.expires(HOUR + 55 * SECOND, "a", activity=activity(connection=last, last_request_ms=HOUR + 45 * SECOND))
    story.joins(HOUR + 60 * SECOND, "a", host=HERE, connection=last)
    assert [cause for cause, _ in causes_of(story)] == ["crash_loop", "paused"]


def test_deploys_that_follow_each_other_are_no_loop_of_the_name_that_all_processes_have() -> None:
    story = Story(session_ms=SESSION_MS, rebalance_ms=MINUTE)
    for number in range(3):
        story.joins(2 * SECOND * number, "one", host=HERE, connection=f"{number}")
    for deploy in range(3):
        for number in range(3):
            at_ms = HOUR + deploy * 80 * SECOND + number * 6 * SECOND
            story.leaves(at_ms, "one", says="client leaving group per normal operation")
            story.joins(at_ms + 2 * SECOND, "one", host=HERE, connection=f"{deploy}.{number}")
    assert [cause for cause, _ in causes_of(story)] == ["deploy"] * 3


def test_who_is_waited_for_while_another_one_stands_still_has_not_lost_its_network_with_it() -> None:
    story = three_on_one_host()
    story.joins(HOUR, "d", host=HERE, connection="d", completes=False)
    story.completes(HOUR + 12 * SECOND, waited_for="b", wait_ms=12 * SECOND, other_wait_ms=400)
    story.expires(HOUR + 21 * SECOND, "a", activity=activity(connection="a", last_request_ms=HOUR + 11 * SECOND))
    story.joins(HOUR + 30 * SECOND, "a", host=HERE, connection="a")
    assert [cause for cause, _ in causes_of(story)] == ["slow_poll", "paused"]


def test_a_closed_process_that_is_back_after_a_minute_was_added_again() -> None:
    story = three_on_one_host(rebalance_ms=5 * MINUTE)
    story.leaves(HOUR, "c", says="the consumer is being closed")
    story.joins(HOUR + 85 * SECOND, "c", host=HERE, connection="new")
    assert causes_of(story) == [("scale_down", (f"c@{HERE}",)), ("scale_up", (f"c@{HERE}",))]


def test_a_commit_with_which_a_connection_closes_is_that_of_a_consumer_that_closes() -> None:
    story = three_on_one_host(static=True)
    closed = activity(
        connection="a", last_request_ms=HOUR, closed_ms=HOUR + 20, closed_by="client", last_api="OffsetCommit"
    )
    story.replaces(HOUR + 3 * SECOND, "a", activity=closed, committed=Committed(HOUR, SECOND, HOUR - SECOND), host=HERE)
    assert causes_of(story) == [("static_restart", ("a",))]


def test_a_process_whose_last_commit_was_due_and_that_ended_later_was_killed() -> None:
    story = three_on_one_host(static=True)
    killed = activity(
        connection="a", last_request_ms=HOUR, closed_ms=HOUR + 600, closed_by="client", last_api="OffsetCommit"
    )
    story.replaces(HOUR + 3 * SECOND, "a", activity=killed, committed=Committed(HOUR, SECOND, HOUR - SECOND), host=HERE)
    assert causes_of(story) == [("killed", ("a",))]


def test_who_was_told_late_of_a_rebalance_has_not_polled_slowly() -> None:
    for told_ms, cause in ((9_000, []), (None, ["slow_poll"])):
        story = three_on_one_host().joins(HOUR, "d", host=HERE, completes=False)
        story.completes(HOUR + 9_200, waited_for="b", wait_ms=9_100, other_wait_ms=400, told_ms=told_ms)
        assert [name for name, _ in causes_of(story) if name == "slow_poll"] == cause


def test_how_late_members_usually_hear_of_a_rebalance_says_nothing_of_how_long_their_polls_take() -> None:
    story = three_on_one_host()
    for number in range(4):
        at_ms = HOUR + number * MINUTE
        story.joins(at_ms, f"d{number}", host=HERE, completes=False)
        story.completes(at_ms + 2_500, waited_for="b", wait_ms=2_400, other_wait_ms=900, told_ms=2_390)
    story.joins(2 * HOUR, "e", host=HERE, completes=False)
    story.completes(2 * HOUR + 4_000, waited_for="b", wait_ms=3_900, other_wait_ms=900, told_ms=700)
    assert ("slow_poll", (f"b@{HERE}",)) in causes_of(story)


def test_an_event_tells_who_took_longest_since_it_was_told_of_the_rebalance() -> None:
    waits = [wait("a", wait_ms=9_100, told_ms=9_000), wait("b", wait_ms=4_000, told_ms=200), wait("c", wait_ms=3_100)]
    fields = {"waits": waits, "join_ms": 9_100, "sync_ms": 5, "protocol": "range", "leader_id": "a", "to_generation": 2}
    fact = fact_of_event(
        {
            **event(last_fetch_ms=None, closed_ms=None),
            "type": "rebalance_completed",
            "reason": "member_joined",
            **fields,
        }
    )
    assert fact is not None
    assert fact.phases is not None
    assert fact.phases.last_to_join is not None
    assert (fact.phases.last_to_join.client_id, fact.phases.last_told_ms) == ("b", 200)


def wait(client_id: str, *, wait_ms: int, told_ms: int | None = None) -> dict[str, Any]:
    """Of a rebalance."""
    member = {"member_id": f"{client_id}-1", "instance_id": None, "client_id": client_id, "host": HERE}
    return {**member, "is_new": False, "wait_ms": wait_ms, "told_ms": told_ms}


def test_processes_of_one_name_with_another_assignor_that_come_after_a_deploy_are_no_part_of_it() -> None:
    story = Story(session_ms=SESSION_MS, rebalance_ms=MINUTE)
    for number in range(3):
        story.joins(2 * SECOND * number, "app", host=HERE, connection=f"old {number}")
    for number in range(3):  # each new process is there before an old one leaves
        at_ms = HOUR + 8 * SECOND * number
        story.joins(at_ms, "app", host=HERE, connection=f"new {number}", completes=False).completes(at_ms + 2_900)
        story.leaves(at_ms + 3 * SECOND, "app", completes=False).completes(at_ms + 4_000)
    for number in range(3):
        story.leaves(HOUR + 10 * MINUTE + 200 * number, "app", completes=number == 2)
    for number in range(3):
        at_ms = HOUR + 10 * MINUTE + 10 * SECOND + 300 * number
        story.joins(at_ms, "app", host=HERE, connection=f"last {number}", assignor="cooperative-sticky")
    assert [cause for cause, _ in causes_of(story)] == ["deploy", "assignor_changed"]
