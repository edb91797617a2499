"""What happens beside a broker's restart: what follows from it, and what has causes of its own."""

from __future__ import annotations

from kshim.explain.facts import Committed, Subscription
from tests.explain.story import MINUTE, SECOND, Story, activity

HOUR = 60 * MINUTE
SESSION_MS = 10 * SECOND
HERE = "127.0.0.1"
STOP_MS = HOUR
LOAD_MS = HOUR + 20 * SECOND


def three(*, static: bool = False) -> Story:
    """Members that are an hour old when their broker is stopped."""
    story = Story(session_ms=SESSION_MS, rebalance_ms=MINUTE)
    for number, client in enumerate(("a", "b", "c")):
        story.joins(2 * SECOND * number, client, host=HERE, static=static, connection=client)
    return story


def restarted(story: Story) -> Story:
    """The broker is not there for twenty seconds."""
    return story.stops(STOP_MS).loads(LOAD_MS)


def causes_of(story: Story, *, until_ms: int = 0) -> list[tuple[str, tuple[str, ...]]]:
    """All but the start."""
    return [(str(each.cause), each.clients) for each in story.incidents(until_ms=until_ms)][1:]


def test_members_of_whom_nothing_was_heard_until_their_sessions_ended_suffer_from_the_restart() -> None:
    story = restarted(three())
    for client in ("a", "b", "c"):
        story.expires(LOAD_MS + SESSION_MS, client, completes=False)
    for number, client in enumerate(("a", "b", "c")):
        story.joins(LOAD_MS + SESSION_MS + (1 + number) * SECOND, client, host=HERE, says="", completes=False)
    story.completes(LOAD_MS + SESSION_MS + 5 * SECOND)
    assert [cause for cause, _ in causes_of(story)] == ["broker_restarted"]


def test_who_had_sent_heartbeats_and_no_commits_before_the_broker_was_stopped_and_is_silent_after_it_was_slow_to_poll() -> (
    None
):
    """Its session had not ended when the broker was stopped, so that it had not stood still for longer than that."""
    for quiet_s, cause in ((25, "slow_poll"), (8, "paused")):
        story = restarted(three())
        for client in ("a", "b"):
            story.joins(LOAD_MS + SECOND, client, host=HERE, completes=False)
            story.expires(LOAD_MS + SESSION_MS, client, completes=False)
        committed = Committed(STOP_MS - quiet_s * SECOND, SECOND)
        story.expires(LOAD_MS + SESSION_MS, "c", committed=committed, completes=False)
        story.completes(LOAD_MS + SESSION_MS + SECOND).joins(LOAD_MS + SESSION_MS + 6 * SECOND, "c", host=HERE)
        assert (cause, (f"c@{HERE}",)) in causes_of(story)


def test_who_does_not_come_back_when_the_others_have_was_killed_meanwhile() -> None:
    story = restarted(three())
    for client in ("a", "b"):
        story.joins(LOAD_MS + SECOND, client, host=HERE, completes=False)
    for client in ("a", "b", "c"):
        story.expires(LOAD_MS + SESSION_MS, client, completes=False)
    story.completes(LOAD_MS + SESSION_MS + SECOND)
    found = causes_of(story, until_ms=2 * HOUR)
    assert ("killed", (f"c@{HERE}",)) in found
    assert ("broker_restarted", (f"a@{HERE}", f"b@{HERE}")) in found


def test_a_member_that_was_in_a_rebalance_since_the_broker_is_back_makes_the_others_wait_for_a_reason_of_its_own() -> (
    None
):
    for settles, expected in (
        (True, ["broker_restarted", "scale_up", "slow_poll"]),
        (False, ["broker_restarted", "scale_up"]),
    ):
        story = restarted(three())
        if settles:
            for client in ("a", "b", "c"):
                story.joins(LOAD_MS + SECOND, client, host=HERE, says="", completes=False)
            story.completes(LOAD_MS + 2 * SECOND, join_ms=SECOND)
        story.joins(LOAD_MS + 4 * SECOND, "d", host=HERE, completes=False)
        story.completes(LOAD_MS + 13 * SECOND, join_ms=9 * SECOND)
        assert sorted(cause for cause, _ in causes_of(story)) == expected


def test_who_had_joined_just_before_the_stop_is_no_new_member_when_it_joins_again() -> None:
    story = three().joins(STOP_MS - SECOND, "d", host=HERE, completes=False)
    restarted(story).joins(LOAD_MS + SECOND, "d", host=HERE, completes=False).completes(LOAD_MS + 3 * SECOND)
    assert [cause for cause, clients in causes_of(story) if f"d@{HERE}" in clients] == ["scale_up"]


def test_a_process_that_had_stopped_committing_before_the_stop_has_a_cause_of_its_own() -> None:
    story = restarted(three(static=True))
    quiet = Committed(STOP_MS - 30 * SECOND, 2 * SECOND, before_ms=STOP_MS - 32 * SECOND)
    story.replaces(LOAD_MS + 3 * SECOND, "a", host=HERE, committed=quiet)
    (found,) = [each for each in story.incidents() if each.cause.keyword == "broker_restarted"]
    assert "a" not in found.clients


def suffering(story: Story) -> tuple[str, ...]:
    """Whom the restart of the broker befell."""
    (found,) = [each for each in story.incidents() if each.cause.keyword == "broker_restarted"]
    return found.clients


def test_who_had_stopped_committing_before_the_stop_has_a_cause_of_its_own_also_where_nobody_came_back_in_time() -> (
    None
):
    story = restarted(three())
    for client, quiet_ms in (("a", 30 * SECOND), ("b", SECOND), ("c", SECOND)):
        last_ms = STOP_MS - quiet_ms
        quiet = Committed(last_ms, 2 * SECOND, before_ms=last_ms - 2 * SECOND)
        story.expires(LOAD_MS + SESSION_MS, client, committed=quiet, completes=False)
    for client in ("a", "b", "c"):
        story.joins(LOAD_MS + 12 * SECOND, client, host=HERE, completes=False)
    assert suffering(story.completes(LOAD_MS + 15 * SECOND)) == (f"b@{HERE}", f"c@{HERE}")


def test_the_only_process_that_another_one_replaces_when_the_broker_is_back_was_stopped_or_killed_meanwhile() -> None:
    alone = restarted(three(static=True)).replaces(LOAD_MS + 4 * SECOND, "a", host=HERE)
    assert "a" not in suffering(alone)
    all_ = restarted(three(static=True))
    for number, client in enumerate(("a", "b", "c")):
        all_.replaces(LOAD_MS + number * SECOND, client, host=HERE)
    assert suffering(all_) == ("a", "b", "c")


def test_a_broker_that_is_stopped_again_soon_is_restarted_twice_if_its_groups_had_recovered() -> None:
    for recovers, count in ((True, 2), (False, 1)):
        story = restarted(three())
        if recovers:
            story.completes(LOAD_MS + 2 * SECOND)
        story.stops(LOAD_MS + 5 * SECOND).loads(LOAD_MS + 8 * SECOND)
        assert [cause for cause, _ in causes_of(story)] == ["broker_restarted"] * count


def test_whose_successor_was_there_before_the_broker_was_stopped_was_killed_before_that() -> None:
    for others_expire, expected in ((False, True), (True, False)):
        story = three()
        story.joins(STOP_MS - 5 * SECOND, "a", host=HERE, completes=False)
        restarted(story)
        for client in ("b", "c") if others_expire else ():
            story.expires(LOAD_MS + SESSION_MS, client, completes=False)
        story.expires(LOAD_MS + SESSION_MS, "a", completes=False)
        for client in ("b", "c") if others_expire else ():
            story.joins(LOAD_MS + 11 * SECOND, client, host=HERE, completes=False)
        story.completes(LOAD_MS + 12 * SECOND)
        assert (("killed", (f"a@{HERE}",)) in causes_of(story)) is expected


def test_processes_of_one_name_that_follow_each_other_before_the_broker_is_stopped_are_in_a_crash_loop() -> None:
    """Whoever else is silent until its session ends after the restart: all of their sessions began anew with it."""
    story = three()
    for before_s in (9, 6, 3):
        story.joins(STOP_MS - before_s * SECOND, "a", host=HERE, completes=False)
    restarted(story)
    for client in ("a", "a", "a", "b", "c"):
        story.expires(LOAD_MS + SESSION_MS, client, completes=False)
    for client in ("b", "c"):
        story.joins(LOAD_MS + 11 * SECOND, client, host=HERE, completes=False)
    found = causes_of(story.completes(LOAD_MS + 12 * SECOND))
    assert ("crash_loop", (f"a@{HERE}",)) in found
    assert ("broker_restarted", (f"b@{HERE}", f"c@{HERE}")) in found


def test_who_cannot_commit_because_the_broker_was_away_before_had_not_stopped_committing() -> None:
    last = Committed(STOP_MS - SECOND, SECOND, before_ms=STOP_MS - 2 * SECOND)
    story = restarted(three()).completes(LOAD_MS + SECOND).stops(LOAD_MS + 9 * SECOND).loads(LOAD_MS + 12 * SECOND)
    for client in ("a", "b", "c"):
        story.expires(LOAD_MS + 12 * SECOND + SESSION_MS, client, committed=last, completes=False)
    for client in ("a", "b", "c"):
        story.joins(LOAD_MS + 23 * SECOND, client, host=HERE, completes=False)
    story.completes(LOAD_MS + 25 * SECOND)
    assert [cause for cause, _ in causes_of(story)] == ["broker_restarted", "broker_restarted"]


def test_processes_that_replace_others_when_the_broker_is_back_and_say_that_they_begin_are_new() -> None:
    for says, expected in (("beginning to manage the group lifecycle", set()), (None, {"a", "b", "c"})):
        story = restarted(three(static=True))
        for number, client in enumerate(("a", "b", "c")):
            story.replaces(LOAD_MS + number * SECOND, client, host=HERE, says=says)
        found = [each for each in story.incidents() if each.cause.keyword == "broker_restarted"]
        assert {name for each in found for name in each.clients} == expected


def test_who_commits_and_leaves_at_once_when_the_broker_is_back_was_closed() -> None:
    for quiet_ms, late_ms, expected in (
        (10, 0, "restart"),
        (900, SECOND, "restart"),
        (2 * SECOND, SECOND, "broker_restarted"),
    ):
        story = restarted(three())
        left_ms = LOAD_MS + 2 * SECOND
        closing = Committed(left_ms - quiet_ms, SECOND, before_ms=STOP_MS - SECOND)
        story.leaves(left_ms, "a", committed=closing, late_ms=late_ms).joins(LOAD_MS + 8 * SECOND, "a", host=HERE)
        assert (expected, (f"a@{HERE}",)) in causes_of(story)


def test_members_that_leave_some_time_after_they_are_connected_again_are_deployed() -> None:
    for opened_ms, expected in ((LOAD_MS, "deploy"), (LOAD_MS + 1_900, "broker_restarted")):
        story = restarted(three())
        for number, client in enumerate(("a", "b", "c")):
            left_ms = LOAD_MS + 2 * SECOND + 20 * number
            last = activity(connection=f"{client} 2", last_request_ms=left_ms, last_api="LeaveGroup")
            story.leaves(left_ms, client, activity=last._replace(opened_ms=opened_ms), completes=False)
        for number, client in enumerate(("a", "b", "c")):
            story.joins(LOAD_MS + 3 * SECOND + 200 * number, client, host=HERE, completes=False)
        assert (expected, (f"a@{HERE}", f"b@{HERE}", f"c@{HERE}")) in causes_of(story.completes(LOAD_MS + 6 * SECOND))


def test_a_process_that_was_back_before_it_was_replaced_has_a_cause_of_its_own() -> None:
    killed = activity(last_request_ms=LOAD_MS + 4 * SECOND, closed_ms=LOAD_MS + 5 * SECOND, closed_by="reset")
    story = restarted(three(static=True)).replaces(LOAD_MS + 7 * SECOND, "a", host=HERE, activity=killed)
    assert ("killed", ("a",)) in causes_of(story)


def test_a_start_is_over_when_the_broker_is_stopped_while_the_group_rests() -> None:
    story = Story(session_ms=SESSION_MS, rebalance_ms=MINUTE)
    for number, client in enumerate(("a", "b")):
        story.joins(2 * SECOND * number, client, host=HERE)
    story.stops(9 * SECOND).loads(29 * SECOND).joins(31 * SECOND, "c", host=HERE)
    start, *_ = story.causes()
    assert start == ("one_by_one_start", (f"a@{HERE}", f"b@{HERE}"))
    assert ("scale_up", (f"c@{HERE}",)) in story.causes()


def test_topics_that_are_found_when_the_broker_is_there_again_were_created() -> None:
    story = restarted(three())
    topics = Subscription(("orders", "orders.new"), added=("orders.new",))
    story.requests(LOAD_MS + SECOND, "a", reason="metadata_changed", subscription=topics)
    assert [cause for cause, _ in causes_of(story) if cause in ("topic_created", "subscription_changed")]
