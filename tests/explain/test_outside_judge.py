"""What somebody else played with real clients and found to be told wrongly."""

from __future__ import annotations

import pytest

from kshim.explain.facts import UNSEEN, Committed, Subscription, TopicChange
from tests.explain.story import Story, a_group_of_three, activity

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
GIVEN_UP = HOUR + 39 * SECOND
CREATED = TopicChange("orders.eu", 0, 3, HOUR - 4 * SECOND)


def a_group_with_polls_shorter_than_sessions() -> Story:
    """Members whose `max.poll.interval.ms` is 25 s, and their session timeout 45 s."""
    story = Story(rebalance_ms=25 * SECOND)
    for number, client in enumerate(("one", "two", "three")):
        story.joins(300 * number, client, host=f"10.0.0.{number + 1}", connection=client)
    return story


def test_a_killed_process_that_is_given_up_while_its_successor_waits_was_not_slow() -> None:
    """Its connection is closed at once, and its successor begins a rebalance that waits for the dead one until the rebalance timeout."""
    story = a_group_with_polls_shorter_than_sessions()
    story.joins(HOUR + 14 * SECOND, "two", host="10.0.0.2", connection="new", completes=False)
    story.ends_join(GIVEN_UP, join_ms=25 * SECOND)
    dead = activity(connection="two", last_request_ms=HOUR - SECOND, closed_ms=HOUR, closed_by="client")
    incident = story.is_removed(GIVEN_UP, "two", activity=dead).incidents()[-1]
    assert (str(incident.cause), incident.clients) == ("killed", ("two@10.0.0.2",))
    assert incident.confidence > 0.9


def test_a_log_tells_by_the_successor_that_began_the_rebalance_that_its_predecessor_is_dead() -> None:
    story = Story(rebalance_ms=25 * SECOND)
    for number, client in enumerate(("one", "two", "three")):
        story.joins(300 * number, client, host=f"10.0.0.{number + 1}")
    story.joins(HOUR + 14 * SECOND, "two", host="10.0.0.2", completes=False)
    story.ends_join(GIVEN_UP, join_ms=25 * SECOND)
    story.is_removed(GIVEN_UP, "two")
    assert [str(each.cause) for each in story.incidents()] == ["one_by_one_start", "killed"]


def test_one_that_goes_on_processing_and_is_given_up_was_slow() -> None:
    story = a_group_with_polls_shorter_than_sessions()
    story.joins(HOUR + 14 * SECOND, "four", host="10.0.0.4", connection="four", completes=False)
    story.ends_join(GIVEN_UP, join_ms=25 * SECOND)
    busy = activity(connection="two", last_request_ms=GIVEN_UP - SECOND)
    story.is_removed(GIVEN_UP, "two", activity=busy)
    assert ("slow_poll", ("two@10.0.0.2",)) in story.causes()


@pytest.mark.parametrize("later_ms", [SECOND, 10 * MINUTE])
def test_a_new_topic_of_a_pattern_stays_one_however_much_later_is_asked(later_ms: int) -> None:
    """The others join again with the same rebalance, of which events tell nothing."""
    found = Subscription(("orders", "orders.eu"), added=("orders.eu",))
    story = a_group_of_three().requests(HOUR, "one", subscription=found, topic_changes=(CREATED,))
    assert str(story.incidents(until_ms=HOUR + later_ms)[-1].cause) == "topic_created"


def a_group_whose_numbers_last() -> Story:
    """Three processes on one host, of which one has been restarted under its own number."""
    story = Story()
    for number in (1, 2, 3):
        story.joins(300 * number, f"billing-{number}", connection=f"billing-{number}")
    return story.leaves(MINUTE, "billing-1").joins(MINUTE + 5 * SECOND, "billing-1", connection="billing-1 again")


def test_a_new_number_is_one_process_more_where_numbers_last() -> None:
    """It is added while another one is dead, which does not come back."""
    story = a_group_whose_numbers_last()
    story.joins(HOUR + 5 * SECOND, "billing-6", connection="billing-6")
    dead = activity(connection="billing-2", last_request_ms=HOUR - SECOND, closed_ms=HOUR, closed_by="client")
    story.expires(HOUR + 44 * SECOND, "billing-2", activity=dead)
    assert sorted(story.causes()[-2:]) == [
        ("killed", ("billing-2@10.0.0.1",)),
        ("scale_up", ("billing-6@10.0.0.1",)),
    ]


def test_a_static_process_that_is_started_long_after_it_was_stopped_is_added() -> None:
    story = Story(session_ms=10 * SECOND, rebalance_ms=30 * SECOND)
    for number in (1, 2, 3):
        story.joins(300 * number, f"inv-{number}", static=True, connection=f"inv-{number}")
    stopped = activity(
        connection="inv-2", last_request_ms=HOUR, closed_ms=HOUR, closed_by="client", last_api="OffsetCommit"
    )
    story.expires(HOUR + 10 * SECOND, "inv-2", activity=stopped)
    story.joins(HOUR + 2 * MINUTE, "inv-2", static=True)
    assert [cause for cause, _ in story.causes()][1:] == ["static_stopped", "scale_up"]


def test_a_pause_with_the_new_protocol_is_none_of_a_slow_poll_as_its_commits_went_on_until_its_heartbeats_ended() -> (
    None
):
    """Records of the new protocol say exactly when a session has expired, so that its heartbeats ended a session before."""
    story = Story(rebalance_ms=20 * SECOND).in_record("record 1")
    mine, other = "aZwK1ec4RoSV3MitBzFh0g", "Y+nxpv1ATK2+BxfVSBHkjQ"
    story.joins(0, "search-1", member_id=mine).joins(0, "search-2", member_id=other)
    last = Committed(HOUR, 5 * SECOND)
    story.in_record("record 2").expires(HOUR + 42 * SECOND, "search-1", committed=last)
    story.in_record("record 3").joins(HOUR + MINUTE, "search-1", member_id=mine)
    incident = story.incidents(is_observed=False)[-1]
    assert str(incident.alternatives[0].cause if str(incident.cause) == "unknown" else incident.cause) == "paused"


def test_two_that_a_sample_shows_at_once_need_not_be_one_process() -> None:
    """Looks are a second apart: who was cut off together is seen to be back together."""
    story = Story(session_ms=10 * SECOND)
    for client in ("etl-1", "etl-2"):
        story.joins(0, client, late_ms=SECOND)
    for client in ("etl-3", "etl-4"):
        story.joins(8 * SECOND, client, late_ms=SECOND, completes=False)
    story.completes(9 * SECOND)
    for client in ("etl-3", "etl-4"):
        story.expires(HOUR, client, late_ms=SECOND, completes=False)
    story.completes(HOUR + SECOND)
    for client in ("etl-3", "etl-4"):
        story.joins(HOUR + 8 * SECOND, client, late_ms=SECOND, completes=False)
    incident = story.completes(HOUR + 9 * SECOND).incidents()[-1]
    assert (str(incident.cause), incident.clients) == ("network_cut", ("etl-3@10.0.0.1", "etl-4@10.0.0.1"))


def test_who_never_went_on_with_what_others_had_committed_may_have_been_dead_since_its_start() -> None:
    """Two processes of a crash loop are in one record, of which only samples tell when they came; neither is in the next one."""
    story = Story(session_ms=10 * SECOND).joins(0, "billing-1")
    for number in range(5):
        story.joins(MINUTE + 5 * number * SECOND, "billing-3", late_ms=SECOND, completes=False)
    for number, gone_ms in enumerate((14, 24, 34, 44, 44)):
        got = Committed(MINUTE + (gone_ms - 10) * SECOND, 5 * SECOND, is_none=True)
        story.leaves(
            MINUTE + gone_ms * SECOND, "billing-3", reason=UNSEEN, committed=got, completes=number in (0, 1, 2, 4)
        )
    assert [cause for cause, _ in story.causes()] == ["one_by_one_start", "crash_loop"]
