"""One member is gone: what its connection, its reasons and its return say of the cause."""

from __future__ import annotations

import pytest

from kshim.explain import explain
from kshim.explain.facts import Committed
from kshim.explain.words import CERTAIN, sentence
from tests.explain.story import MINUTE, SECOND, SESSION_MS, Story, a_group_of_three, activity

HOUR = 60 * MINUTE


def the_last_cause(story: Story) -> tuple[str, tuple[str, ...]]:
    return story.causes()[-1]


def test_a_member_whose_connection_was_closed_when_it_fell_silent_was_killed() -> None:
    silent = activity(last_request_ms=HOUR, closed_ms=HOUR + 50, closed_by="client")
    story = a_group_of_three().expires(HOUR + SESSION_MS, "one", activity=silent)
    assert the_last_cause(story) == ("killed", ("one@10.0.0.1",))


def test_a_member_whose_connection_stayed_open_and_that_came_back_on_it_was_paused() -> None:
    silent = activity(connection="one", last_request_ms=HOUR)
    story = a_group_of_three().expires(HOUR + SESSION_MS, "one", activity=silent)
    story.joins(HOUR + MINUTE, "one", connection="one", opened_ms=0)
    assert the_last_cause(story) == ("paused", ("one@10.0.0.1",))


def test_without_connections_a_reason_of_a_process_that_goes_on_shows_a_pause() -> None:
    story = a_group_of_three().expires(HOUR, "one")
    story.joins(HOUR + 5 * SECOND, "one", says="encountered UNKNOWN_MEMBER_ID from HEARTBEAT response")
    assert the_last_cause(story) == ("paused", ("one@10.0.0.1",))


def test_a_process_that_went_on_and_did_not_join_again_had_been_paused() -> None:
    silent = activity(last_request_ms=HOUR)
    story = a_group_of_three()
    one = story.member("one")
    story.expires(HOUR + SESSION_MS, "one", activity=silent).is_heard_of(HOUR + SESSION_MS + 5 * SECOND, one)
    paused = story.incidents(until_ms=2 * HOUR)[-1]
    assert (paused.cause.keyword, paused.clients) == ("paused", ("one@10.0.0.1",))
    assert paused.confidence > CERTAIN - 0.2
    assert sentence(paused).endswith("was removed; it has not joined again.")


def test_a_process_that_went_on_before_another_one_took_its_place_had_been_paused() -> None:
    story = a_group_of_three()
    one = story.member("one")
    silent = activity(connection="one", last_request_ms=HOUR)
    story.expires(HOUR + SESSION_MS, "one", activity=silent).is_heard_of(HOUR + SESSION_MS + 5 * SECOND, one)
    story.joins(HOUR + SESSION_MS + 8 * SECOND, "one", says="", connection="other")
    assert the_last_cause(story) == ("paused", ("one@10.0.0.1",))


def test_a_client_that_joined_again_before_its_session_expired_had_been_killed() -> None:
    story = a_group_of_three().joins(HOUR - 20 * SECOND, "one").expires(HOUR, "one")
    joined_again = [cause for cause in story.causes() if cause[1] == ("one@10.0.0.1",)]
    assert joined_again == [("killed", ("one@10.0.0.1",))]


def test_a_static_member_that_committed_last_and_closed_was_stopped_in_order() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    stopped = activity(last_request_ms=HOUR, closed_ms=HOUR + 1, closed_by="client", last_api="OffsetCommit")
    story.expires(HOUR + SESSION_MS, "one", activity=stopped)
    assert the_last_cause(story) == ("static_stopped", ("one",))


@pytest.mark.parametrize(
    ("has_fetch_session", "software", "cause"),
    [
        (False, "apache-kafka-java 4.3.1", "static_stopped"),
        (False, "kafka-python 3.0.12", "static_stopped"),
        (True, "apache-kafka-java 4.3.1", "killed"),
        (True, "kgo v1.22.2", "killed"),
    ],
)
@pytest.mark.parametrize("last_api", ["Heartbeat", "OffsetCommit"])
def test_whether_a_static_member_ended_its_session_of_fetches_tells_whether_it_was_stopped(
    has_fetch_session: bool, software: str, cause: str, last_api: str
) -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    gone = activity(
        last_request_ms=HOUR,
        closed_ms=HOUR + 10,
        closed_by="client",
        last_api=last_api,
        software=software,
        has_fetch_session=has_fetch_session,
    )
    assert the_last_cause(story.expires(HOUR + SESSION_MS, "one", activity=gone)) == (cause, ("one",))


@pytest.mark.parametrize("software", ["kafka-python 3.0.12", "apache-kafka-java 3.3.2", None])
def test_a_session_of_fetches_that_goes_on_tells_nothing_of_clients_that_end_none(software: str | None) -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    gone = activity(
        last_request_ms=HOUR,
        closed_ms=HOUR + 10,
        closed_by="client",
        last_api="OffsetCommit",
        software=software,
        has_fetch_session=True,
    )
    assert the_last_cause(story.expires(HOUR + SESSION_MS, "one", activity=gone)) == ("static_stopped", ("one",))


def test_a_static_member_whose_connection_was_closed_long_after_its_last_commit_was_killed() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    silent = activity(last_request_ms=HOUR, closed_ms=HOUR + 2 * SECOND, closed_by="client", last_api="OffsetCommit")
    assert the_last_cause(story.expires(HOUR + SESSION_MS, "one", activity=silent)) == ("killed", ("one",))


@pytest.mark.parametrize("software", ["kafka-python 3.0.12", "confluent-kafka-python 2.16.1-rdkafka-2.16.0", None])
@pytest.mark.parametrize(("last_api", "silent_ms"), [("Heartbeat", 1_300), ("OffsetCommit", 200)])
def test_a_static_member_that_committed_by_a_timer_and_not_as_it_ended_was_killed(
    software: str | None, last_api: str, silent_ms: int
) -> None:
    for timer_ms in (5 * SECOND, 15 * SECOND):
        story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
        gone = activity(
            last_request_ms=HOUR,
            closed_ms=HOUR + silent_ms,
            closed_by="client",
            last_api=last_api,
            software=software,
            has_fetch_session=True,
        )
        last_ms = HOUR if last_api == "OffsetCommit" else HOUR - 2 * SECOND
        committed = Committed(last_ms, timer_ms + 5, last_ms - timer_ms)
        story.expires(HOUR + SESSION_MS, "one", activity=gone, committed=committed)
        assert the_last_cause(story) == ("killed", ("one",))


def test_a_static_member_that_had_long_had_nothing_to_commit_may_have_been_stopped() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    gone = activity(last_request_ms=HOUR, closed_ms=HOUR + 1_300, closed_by="client", last_api="Heartbeat")
    committed = Committed(HOUR - 40 * SECOND, 5 * SECOND, HOUR - 45 * SECOND)
    story.expires(HOUR + SESSION_MS, "one", activity=gone, committed=committed).completes(HOUR + 5 * MINUTE)
    assert the_last_cause(story) == ("static_stopped", ("one",))


def test_polls_that_take_too_long_twice_in_a_row_are_one_incident() -> None:
    story = a_group_of_three()
    for at_ms in (HOUR, HOUR + 5 * MINUTE + 20 * SECOND):
        story.leaves(at_ms, "one", says="consumer poll timeout has expired.").joins(at_ms + 10 * SECOND, "one")
    assert [cause for cause, _ in story.causes()] == ["one_by_one_start", "slow_poll"]


def test_two_long_phases_join_of_a_group_that_had_few_show_rare_heartbeats_and_one_a_slow_member() -> None:
    """Heartbeats may be a third of a session apart, 15 s here, and mostly are not."""
    for before_s, count in ((12, 0), (2, 1)):
        story = a_group_of_three()
        for at_ms, join_s in ((HOUR, before_s), (2 * HOUR, 13)):
            story.completes(at_ms, join_ms=join_s * SECOND)
        assert [cause for cause, _ in story.causes()].count("slow_poll") == count


def test_two_slow_polls_with_more_than_max_poll_interval_ms_between_are_two() -> None:
    for pause_ms, count in ((4 * MINUTE, 1), (7 * MINUTE, 2)):
        story = a_group_of_three()
        for at_ms in (HOUR, HOUR + 4 * MINUTE + pause_ms):
            story.completes(at_ms, waited_for="one", wait_ms=4 * MINUTE)
        assert [cause for cause, _ in story.causes()] == ["one_by_one_start", *["slow_poll"] * count]


def test_a_member_that_left_and_came_back_as_a_new_process_was_restarted() -> None:
    story = (
        a_group_of_three()
        .leaves(HOUR, "one", says="the consumer is being closed")
        .joins(HOUR + 10 * SECOND, "one", says="")
    )
    assert the_last_cause(story) == ("restart", ("one@10.0.0.1",))


def test_a_pod_that_left_and_whose_successor_has_another_name_was_restarted() -> None:
    story = a_group_of_three().joins(700, "api-0001", host="10.0.0.4").leaves(HOUR, "api-0001")
    story.joins(HOUR + 10 * SECOND, "api-0007", host="10.0.0.4")
    assert [cause for cause, _ in story.causes()] == ["one_by_one_start", "restart"]


def test_a_member_that_left_and_did_not_come_back_was_removed_by_its_operator() -> None:
    story = a_group_of_three().leaves(HOUR, "one", says="the consumer is being closed")
    assert the_last_cause(story) == ("scale_down", ("one@10.0.0.1",))


def test_a_member_that_an_administrator_removed_is_no_client_that_left() -> None:
    story = a_group_of_three().leaves(HOUR, "one", says="member was removed by an admin: it hangs")
    back = "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"
    story = story.joins(HOUR + SECOND, "one", says=back, connection="one", opened_ms=0)
    assert the_last_cause(story) == ("removed_by_admin", ("one@10.0.0.1",))
    incident = story.incidents()[-1]
    assert sentence(incident) == "An administrator removed one@10.0.0.1 from billing."
    assert incident.confidence > CERTAIN


def test_a_member_that_says_that_its_polls_took_too_long_was_slow() -> None:
    story = a_group_of_three().leaves(HOUR, "one", says="consumer poll timeout has expired.")
    assert the_last_cause(story) == ("slow_poll", ("one@10.0.0.1",))


def test_a_member_that_left_silently_and_came_back_on_its_connection_was_slow_to_poll() -> None:
    heartbeats = activity(connection="one", last_request_ms=HOUR, last_fetch_ms=HOUR - 5 * MINUTE)
    story = a_group_of_three().leaves(HOUR, "one", activity=heartbeats)
    story.joins(HOUR + MINUTE, "one", connection="one", opened_ms=0)
    assert the_last_cause(story) == ("slow_poll", ("one@10.0.0.1",))


def test_a_leader_whose_session_expired_while_its_assignment_was_awaited_was_slow_to_assign() -> None:
    story = a_group_of_three().expires(HOUR, "one", state="CompletingRebalance")
    story.joins(HOUR + SECOND, "one", says="encountered UNKNOWN_MEMBER_ID from SYNC_GROUP response")
    assert the_last_cause(story) == ("slow_leader", ("one@10.0.0.1",))


def test_a_leader_that_goes_on_when_its_session_has_expired_did_not_just_stand_still_while_it_assigned() -> None:
    silent = activity(connection="one", last_request_ms=HOUR - SESSION_MS)
    story = a_group_of_three().expires(HOUR, "one", state="CompletingRebalance", activity=silent)
    story.joins(HOUR + SECOND, "one", connection="one", opened_ms=0)
    assert the_last_cause(story) == ("slow_leader", ("one@10.0.0.1",))


@pytest.mark.parametrize(("session_s", "sync_s", "is_slow"), [(45, 6, True), (45, 4, False), (10, 4.5, True)])
def test_a_leader_that_lets_its_group_wait_for_seconds_is_slow(session_s: int, sync_s: float, is_slow: bool) -> None:
    story = Story(session_ms=session_s * SECOND).joins(0, "one").joins(300, "two", host="10.0.0.2")
    story.completes(HOUR, sync_ms=int(sync_s * SECOND), leader="one")
    assert (("slow_leader", ("one@10.0.0.1",)) in story.causes()) == is_slow


def test_a_leader_of_which_records_alone_tell_that_it_was_gone_while_its_assignment_was_awaited_was_slow() -> None:
    story = a_group_of_three().expires(
        HOUR, "one", state="CompletingRebalance", committed=Committed(HOUR - SESSION_MS, SECOND)
    )
    story.joins(HOUR + 10 * SECOND, "one")
    assert [str(each.cause) for each in story.incidents(is_observed=False)][-1] == "slow_leader"


def test_a_leader_that_is_slow_again_minutes_later_is_another_incident() -> None:
    for pause_s, count in ((40, 1), (240, 2)):
        story = a_group_of_three().completes(HOUR, sync_ms=12 * SECOND, leader="one")
        story.completes(HOUR + pause_s * SECOND, sync_ms=12 * SECOND, leader="one")
        assert [str(each.cause) for each in story.incidents()].count("slow_leader") == count


def test_a_static_member_whose_old_connection_was_closed_was_restarted() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    closed = activity(last_request_ms=HOUR, closed_ms=HOUR + 1, closed_by="client", last_api="OffsetCommit")
    story.replaces(HOUR + 5 * SECOND, "one", activity=closed)
    assert the_last_cause(story) == ("static_restart", ("one",))


def test_an_instance_id_taken_from_a_process_that_is_connected_is_used_twice() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    story.replaces(HOUR, "one", host="10.0.0.9", activity=activity(last_request_ms=HOUR - SECOND))
    assert the_last_cause(story) == ("duplicate_instance", ("one",))


def test_an_expired_session_of_which_nothing_else_is_known_is_no_certain_pause_of_a_client_that_is_back() -> None:
    story = a_group_of_three().expires(HOUR, "one").joins(HOUR + 5 * SECOND, "one")
    incident = story.incidents()[-1]
    assert (str(incident.cause), incident.confidence < 0.7) == ("paused", True)
    assert "killed" in [str(each.cause) for each in incident.alternatives]


def test_an_absence_tells_nothing_before_it_has_lasted_as_long_as_the_silence() -> None:
    story = a_group_of_three().expires(HOUR, "one")
    assert story.incidents()[-1].confidence < 0.6
    later = story.incidents(until_ms=HOUR + MINUTE)[-1]
    assert (str(later.cause), later.confidence > 0.6) == ("killed", True)


def test_a_process_whose_connection_was_closed_and_that_joined_again_was_cut_off() -> None:
    silent = activity(last_request_ms=HOUR, closed_ms=HOUR + 100, closed_by="reset")
    story = a_group_of_three().expires(HOUR + SESSION_MS, "one", activity=silent)
    story.joins(HOUR + MINUTE, "one", says="encountered UNKNOWN_MEMBER_ID from HEARTBEAT response")
    assert the_last_cause(story) == ("network_cut", ("one@10.0.0.1",))


def test_a_process_that_left_without_a_reason_and_went_on_much_later_was_slow_to_poll() -> None:
    # Of a client that fetches in the background, as librdkafka does.
    left = activity(connection="one", last_request_ms=HOUR, last_fetch_ms=HOUR - 100)
    story = a_group_of_three().leaves(HOUR, "one", activity=left)
    story.joins(HOUR + 10 * MINUTE, "one", connection="one", opened_ms=0)
    assert the_last_cause(story) == ("slow_poll", ("one@10.0.0.1",))


def test_a_member_without_reasons_that_had_committed_until_it_left_was_restarted() -> None:
    story = (
        a_group_of_three().leaves(HOUR, "one", committed=Committed(HOUR - SECOND, SECOND)).joins(HOUR + MINUTE, "one")
    )
    assert the_last_cause(story) == ("restart", ("one@10.0.0.1",))


def test_a_member_without_reasons_that_had_stopped_committing_for_as_long_as_a_poll_may_take_was_slow() -> None:
    story = a_group_of_three().leaves(HOUR, "one", committed=Committed(HOUR - 5 * MINUTE, SECOND))
    story.joins(HOUR + MINUTE, "one")
    assert the_last_cause(story) == ("slow_poll", ("one@10.0.0.1",))


def test_a_member_that_never_commits_often_has_not_stopped_it() -> None:
    story = a_group_of_three().leaves(HOUR, "one", committed=Committed(HOUR - 5 * MINUTE, 4 * MINUTE))
    story.joins(HOUR + MINUTE, "one")
    assert the_last_cause(story) == ("restart", ("one@10.0.0.1",))


def test_an_instance_id_taken_from_a_process_that_had_just_committed_is_rather_used_twice() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True, host="10.0.0.2")
    story.replaces(HOUR, "one", committed=Committed(HOUR - 300, SECOND))
    assert the_last_cause(story) == ("duplicate_instance", ("one",))


def test_an_instance_id_taken_from_a_process_that_had_stopped_committing_is_that_of_a_restart() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True, host="10.0.0.2")
    story.replaces(HOUR, "one", committed=Committed(HOUR - 8 * SECOND, SECOND))
    assert the_last_cause(story) == ("static_restart", ("one",))


def test_a_process_that_is_back_within_its_session_may_have_been_killed_as_well_where_nothing_tells_how_it_ended() -> (
    None
):
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True, host="10.0.0.2")
    incident = story.replaces(HOUR, "one", committed=Committed(HOUR - 8 * SECOND, SECOND)).incidents()[-1]
    assert (str(incident.cause), str(incident.alternatives[0].cause)) == ("static_restart", "killed")
    assert incident.confidence < 0.7


def test_a_static_member_whose_heartbeats_outlived_its_commits_by_more_than_a_session_was_slow_to_poll() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True, host="10.0.0.2")
    story.replaces(HOUR, "one", committed=Committed(HOUR - 2 * SESSION_MS, SECOND))
    assert the_last_cause(story) == ("slow_poll", ("one",))


def test_a_static_member_that_joins_anew_on_its_own_connection_was_slow_to_poll() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True, host="10.0.0.2")
    story.replaces(HOUR, "one", activity=activity(last_request_ms=HOUR, last_api="JoinGroup"))
    assert the_last_cause(story) == ("slow_poll", ("one",))


def test_a_commit_that_was_due_before_a_process_could_be_replaced_tells_that_it_had_ended() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True, host="10.0.0.2")
    story.replaces(HOUR, "one", committed=Committed(HOUR - 2_100, SECOND))
    assert "duplicate_instance" not in [str(each.cause) for each in story.incidents()[-1].alternatives]


def test_heartbeats_that_came_on_another_connection_tell_when_a_member_fell_silent() -> None:
    story = a_group_of_three().expires(HOUR, "one", activity=activity(last_request_ms=HOUR - SESSION_MS - 3 * SECOND))
    assert story.incidents()[-1].from_ms == HOUR - SESSION_MS


def test_a_static_member_whose_session_began_last_with_a_commit_was_stopped_in_order() -> None:
    # A commit counts as a heartbeat, and a consumer that closes commits last.
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    story.expires(HOUR + SESSION_MS, "one", committed=Committed(HOUR, SECOND))
    assert the_last_cause(story) == ("static_stopped", ("one",))


def test_a_static_member_that_fell_silent_with_its_first_commit_need_not_have_closed() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    story.expires(HOUR + SESSION_MS, "one", committed=Committed(HOUR, None))
    story.joins(HOUR + SESSION_MS + 8 * SECOND, "one", static=True)
    assert the_last_cause(story) == ("paused", ("one",))


def test_a_member_that_had_not_committed_for_much_longer_than_a_poll_may_take_had_another_reason() -> None:
    story = a_group_of_three().leaves(HOUR, "one", committed=Committed(HOUR - 20 * MINUTE, SECOND))
    story.joins(HOUR + MINUTE, "one")
    assert the_last_cause(story) == ("restart", ("one@10.0.0.1",))


def test_a_static_member_that_is_back_soon_after_its_session_has_expired_was_restarted() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    stopped = activity(last_request_ms=HOUR, closed_ms=HOUR + 1, closed_by="client", last_api="OffsetCommit")
    story.expires(HOUR + SESSION_MS, "one", activity=stopped).joins(HOUR + SESSION_MS + 2 * SECOND, "one", static=True)
    assert the_last_cause(story) == ("static_restart", ("one",))


def test_heartbeats_need_not_have_gone_on_for_a_session_that_began_anew_with_a_rebalance() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True, host="10.0.0.2")
    story.completes(HOUR - SECOND)
    story.replaces(HOUR, "one", committed=Committed(HOUR - SESSION_MS - 2 * SECOND, SECOND))
    assert the_last_cause(story) == ("static_restart", ("one",))


def test_a_static_member_whose_heartbeats_ended_a_poll_interval_after_its_commits_was_slow_to_poll() -> None:
    for back_s in (1, 8):
        for before_ms in (
            None,
            HOUR - 42 * SECOND,
        ):  # one that is regular is not one of a process that was killed just then
            story = Story(session_ms=10 * SECOND, rebalance_ms=30 * SECOND).joins(0, "one", static=True)
            story.joins(300, "two", static=True, host="10.0.0.2")
            story.expires(HOUR, "one", committed=Committed(HOUR - 41 * SECOND, SECOND, before_ms=before_ms))
            story.joins(HOUR + back_s * SECOND, "one", static=True)
            assert the_last_cause(story) == ("slow_poll", ("one",))


@pytest.mark.parametrize(("not_committed_s", "cause"), [(11, "slow_poll"), (3, "paused")])
@pytest.mark.parametrize("is_in_log", [False, True])
def test_librdkafka_with_the_new_protocol_falls_silent_when_a_poll_takes_too_long(
    not_committed_s: int, cause: str, is_in_log: bool
) -> None:
    """As confluent-kafka 2.16 did beside a broker: heartbeats and fetches went on for max.poll.interval.ms, and the commits did not."""
    own_id, silent_ms = "cLj8ZfVSSPS2tQHpMsixhQ", HOUR - 10 * SECOND
    story = Story(session_ms=10 * SECOND, rebalance_ms=12 * SECOND).joins(0, "one", member_id=own_id, connection="a")
    story.joins(300, "two", host="10.0.0.2")
    seen = activity(last_request_ms=silent_ms, last_fetch_ms=silent_ms - 74, software="rdkafka-2.16.0")
    committed = Committed(silent_ms - not_committed_s * SECOND, 5 * SECOND if not is_in_log else SECOND)
    story.expires(HOUR, "one", activity=None if is_in_log else seen, committed=committed)
    story.joins(HOUR + 8 * SECOND, "one", member_id=own_id, connection=None if is_in_log else "a", opened_ms=0)
    assert the_last_cause(story) == (cause, ("one@10.0.0.1",))


def test_an_application_that_gives_a_reason_of_its_own_has_asked_for_the_rebalance() -> None:
    for said, cause in (("operator asked", "rebalance_enforced"), ("leader noticed something new", "partitions_added")):
        story = a_group_of_three().requests(HOUR, "one", says=said)
        assert [str(each.cause) for each in story.incidents()][-1] == cause


def test_who_comes_back_long_after_twice_its_session_rather_was_killed() -> None:
    for back_ms, cause in ((20 * SECOND, "paused"), (200 * SECOND, "killed")):
        story = a_group_of_three().expires(HOUR, "one").joins(HOUR + back_ms, "one", host="10.0.0.1")
        assert [str(each.cause) for each in story.incidents()][1] == cause


def test_a_static_member_that_was_back_after_its_session_is_not_said_to_have_been_back_in_time() -> None:
    closing = Committed(HOUR, 5 * SECOND, before_ms=HOUR - 2 * SECOND)
    story = Story(session_ms=10 * SECOND)
    for number, client in enumerate(("a", "b", "c")):
        story.joins(2 * SECOND * number, client, static=True)
    story.expires(HOUR + 10 * SECOND, "a", committed=closing).joins(HOUR + 40 * SECOND, "a", static=True)
    assert sentence(story.incidents()[-1]).endswith("started again when its session had expired.")


def test_what_a_member_said_of_its_timeouts_counts_where_no_record_of_it_is_left() -> None:
    story = Story(session_ms=SESSION_MS, rebalance_ms=2 * MINUTE).joins(0, "one", static=True, connection="a")
    story.joins(300, "two", host="10.0.0.2")
    seen = activity(connection="a", last_request_ms=HOUR, last_fetch_ms=HOUR - 2 * MINUTE)
    story.expires(HOUR + SESSION_MS, "one", activity=seen)
    said = "consumer pro-actively leaving the group"
    story.joins(HOUR + SESSION_MS + 20 * SECOND, "one", static=True, connection="a", opened_ms=0, says=said)
    known = story.known()._replace(profiles={})
    assert str(explain(known)[-1].cause) == "slow_poll"
