"""Several disturbances: which belong together, and which only overlap."""

from __future__ import annotations

from typing import Any

from kshim.explain import Incident, Known, explain
from kshim.explain.facts import (
    FORGOTTEN,
    NOTHING_CHANGED,
    UNSEEN,
    Activity,
    Committed,
    Fact,
    Kind,
    Member,
    Profile,
    Subscription,
)
from kshim.explain.words import sentence
from tests.explain.story import MINUTE, REBALANCE_MS, SECOND, SESSION_MS, Story, a_group_of_three, activity

HOUR = 60 * MINUTE
GOES_ON = "rejoining after we previously errored and backed off"


def causes_of(story: Story) -> list[str]:
    return [cause for cause, _ in story.causes()]


def test_members_that_join_an_empty_group_start_it() -> None:
    assert a_group_of_three().causes() == [("one_by_one_start", ("one@10.0.0.1", "three@10.0.0.3", "two@10.0.0.2"))]


def test_what_happens_within_a_millisecond_is_told_in_the_order_in_which_it_happened() -> None:
    story = Story().joins(HOUR, "one", completes=False).leaves(HOUR, "one", completes=False)
    assert causes_of(story) == ["one_by_one_start", "scale_down"]


def test_members_that_are_replaced_one_after_the_other_are_a_deploy() -> None:
    story = a_group_of_three()
    for number, client in enumerate(("one", "two", "three")):
        host = f"10.0.0.{number + 1}"
        story.leaves(HOUR + number * MINUTE, client).joins(HOUR + number * MINUTE + 10 * SECOND, client, host=host)
    assert causes_of(story) == ["one_by_one_start", "deploy"]


def test_pods_that_are_replaced_are_a_deploy_also_where_their_names_have_no_digit() -> None:
    story = Story()
    for number, pod in enumerate(("api-5c6f-nwhgc", "api-5c6f-kjclx")):
        story.joins(number * 300, pod, host=f"10.0.0.{number + 1}")
    for pod in ("api-5c6f-nwhgc", "api-5c6f-kjclx"):
        story.leaves(HOUR, pod)
    for number, pod in enumerate(("api-7c6f-pcmtf", "api-7c6f-zvdrs")):
        story.joins(HOUR + 10 * SECOND + number * 300, pod, host=f"10.0.0.{number + 1}")
    assert causes_of(story) == ["one_by_one_start", "deploy"]


def surged(begin_ms: int) -> Story:
    """Three processes on one host, and three others, each of which comes before one of them leaves."""
    story = Story()
    for number in range(3):
        story.joins(number * 500, f"api-{number}", host="10.0.0.1")
    for number in range(3):
        new_ms = begin_ms + number * 13 * SECOND
        story.joins(new_ms, f"api-{number + 3}", host="10.0.0.1").leaves(new_ms + 8 * SECOND, f"api-{number}")
    return story


def test_processes_before_each_of_which_leaves_another_one_comes_are_a_deploy_also_soon_after_the_start() -> None:
    for begin_ms in (SESSION_MS - 20 * SECOND, HOUR):
        assert causes_of(surged(begin_ms)) == ["one_by_one_start", "deploy"]


def test_a_deploy_after_which_the_group_uses_another_assignor_changed_it() -> None:
    story = a_group_of_three()
    for number, client in enumerate(("one", "two", "three")):
        host = f"10.0.0.{number + 1}"
        story.leaves(HOUR + number * SECOND, client)
        story.joins(HOUR + MINUTE + number * SECOND, client, host=host, assignor="cooperative-sticky")
    assert causes_of(story) == ["one_by_one_start", "assignor_changed"]


def test_a_crash_during_a_deploy_is_an_incident_of_its_own() -> None:
    story = a_group_of_three().joins(900, "four", host="10.0.0.4")
    for number, client in enumerate(("one", "two", "three")):
        host = f"10.0.0.{number + 1}"
        story.leaves(HOUR + number * MINUTE, client).joins(HOUR + number * MINUTE + 10 * SECOND, client, host=host)
    dead = activity(last_request_ms=HOUR + MINUTE, closed_ms=HOUR + MINUTE, closed_by="reset")
    story.expires(HOUR + MINUTE + SESSION_MS, "four", activity=dead)
    assert sorted(causes_of(story)) == ["deploy", "killed", "one_by_one_start"]


def test_a_process_that_crashes_before_its_turn_and_is_started_again_is_no_sign_against_a_deploy() -> None:
    story = a_group_of_three()
    story.leaves(HOUR, "one").joins(HOUR + SECOND, "one", host="10.0.0.1")
    dead = activity(last_request_ms=HOUR + 6 * SECOND, closed_ms=HOUR + 6 * SECOND, closed_by="reset")
    story.joins(HOUR + 10 * SECOND, "two", host="10.0.0.2")
    story.leaves(HOUR + 22 * SECOND, "three").joins(HOUR + 23 * SECOND, "three", host="10.0.0.3")
    story.expires(HOUR + 6 * SECOND + SESSION_MS, "two", activity=dead)
    assert sorted(causes_of(story)) == ["deploy", "killed", "one_by_one_start"]


def test_a_deploy_replaces_pods_by_those_of_another_release_that_take_long_to_be_ready() -> None:
    story = Story()
    for number, pod in enumerate(("x2z9q", "nwhgc")):
        story.joins(number * 300, f"api-7d9fbc6-{pod}", host=f"10.0.0.{number}")
    for number, (old, new) in enumerate((("x2z9q", "k4tlb"), ("nwhgc", "p8vds"))):
        at_ms = HOUR + number * 90 * SECOND
        story.joins(at_ms, f"api-5c8d4b7-{new}", host=f"10.0.1.{number}")
        story.leaves(at_ms + 80 * SECOND, f"api-7d9fbc6-{old}")
    assert causes_of(story) == ["one_by_one_start", "deploy"]


def test_a_process_that_takes_a_little_longer_is_part_of_a_start_of_one_after_the_other() -> None:
    story = Story().joins(0, "api-1").joins(6 * SECOND, "api-2", host="10.0.0.2")
    story.joins(34 * SECOND, "api-3", host="10.0.0.3").joins(42 * SECOND, "api-4", host="10.0.0.4")
    assert causes_of(story) == ["one_by_one_start"]


def test_processes_that_are_added_one_by_one_are_no_part_of_a_start_that_was_over() -> None:
    story = a_group_of_three()
    for at_ms in (14 * SECOND, 14_100, 22 * SECOND, 31 * SECOND):
        story.joins(at_ms, f"added-{at_ms}", host="10.0.0.4")
    assert causes_of(story) == ["one_by_one_start", "scale_up"]


def test_the_first_process_that_a_deploy_starts_is_replaced_only_by_the_next_deploy() -> None:
    """Each process is started before the one is stopped that it replaces; half a minute later all are stopped, and started again."""
    story = Story()
    for number, place in enumerate((1, 2, 3)):
        story.joins(number * SECOND, f"api-{place}", host="10.0.0.1")
    for number, place in enumerate((1, 2, 3)):
        at_ms = HOUR + 6 * SECOND * number
        story.joins(at_ms, f"api-10{place}", host="10.0.0.1").leaves(at_ms + 3 * SECOND, f"api-{place}")
    for number, place in enumerate((1, 2, 3)):
        story.leaves(HOUR + 45 * SECOND + 10 * number, f"api-10{place}", completes=False)
    for number, place in enumerate((1, 2, 3)):
        story.joins(HOUR + 48 * SECOND + 100 * number, f"api-10{place}", host="10.0.0.1", assignor="sticky")
    assert causes_of(story) == ["one_by_one_start", "deploy", "assignor_changed"]


def test_a_client_that_crashes_and_returns_again_and_again_is_in_a_crash_loop() -> None:
    story = a_group_of_three()
    for number in range(4):
        at_ms = HOUR + number * 2 * MINUTE
        story.expires(at_ms, "one", activity=activity(last_request_ms=at_ms - SESSION_MS, closed_ms=at_ms - SESSION_MS))
        story.joins(at_ms + 5 * SECOND, "one")
    assert causes_of(story) == ["one_by_one_start", "crash_loop"]


def test_a_crash_loop_whose_client_id_is_new_each_time_is_one_loop() -> None:
    story = a_group_of_three().joins(900, "api-0001", host="10.0.0.4")
    for number in range(4):
        at_ms = HOUR + number * 2 * MINUTE
        dead = activity(last_request_ms=at_ms - SESSION_MS, closed_ms=at_ms - SESSION_MS)
        story.expires(at_ms, f"api-000{number + 1}", activity=dead)
        story.joins(at_ms + 5 * SECOND, f"api-000{number + 2}", host="10.0.0.4")
    assert causes_of(story) == ["one_by_one_start", "crash_loop"]
    assert len(story.causes()[-1][1]) == 5  # and the process that is there now


def test_a_client_that_leaves_and_joins_again_and_again_is_flapping() -> None:
    story = a_group_of_three()
    for number in range(5):
        story.leaves(HOUR + number * MINUTE, "one").joins(HOUR + number * MINUTE + 20 * SECOND, "one")
    assert causes_of(story) == ["one_by_one_start", "flapping"]


def test_members_of_a_host_that_fall_silent_together_were_cut_off_with_it() -> None:
    story = Story()
    for group in ("billing", "orders"):
        story.joins(0, f"{group}-a", group=group, host="10.0.0.7").joins(
            300, f"{group}-b", group=group, host="10.0.0.8"
        )
    for group in ("billing", "orders"):
        silent = activity(last_request_ms=HOUR + SECOND, connection=group)
        story.expires(HOUR + SESSION_MS, f"{group}-a", group=group, activity=silent)
        story.joins(HOUR + 2 * MINUTE, f"{group}-a", group=group, host="10.0.0.7", connection=f"{group} again")
    incident = next(each for each in story.incidents() if str(each.cause) not in ("one_by_one_start",))
    assert (str(incident.cause), incident.host, incident.groups) == ("network_cut", "10.0.0.7", ("billing", "orders"))


def test_members_of_a_host_that_go_on_at_the_same_moment_fell_silent_together_however_rare_their_heartbeats_are() -> (
    None
):
    # One sends a heartbeat every ten seconds, and its last one came nine before the host stood still.
    last_ms = {"billing": HOUR, "orders": HOUR + 9 * SECOND, "mails": HOUR + 10 * SECOND}
    story = Story()
    for group in last_ms:
        story.joins(0, f"{group}-a", group=group, host="10.0.0.7", connection=group)
        story.joins(300, f"{group}-b", group=group, host="10.0.0.8")
    silent = {group: story.member(f"{group}-a", group) for group in last_ms}
    for group, heard_ms in last_ms.items():
        known = activity(last_request_ms=heard_ms, connection=group)
        story.expires(heard_ms + SESSION_MS, f"{group}-a", group=group, activity=known)
    for number, group in enumerate(last_ms):
        at_ms = HOUR + 2 * MINUTE + number
        story.is_heard_of(at_ms, silent[group], group=group)
        story.joins(at_ms + 500 * number, f"{group}-a", group=group, host="10.0.0.7", connection=group, opened_ms=0)
    (incident,) = (each for each in story.incidents() if str(each.cause) != "one_by_one_start")
    assert (str(incident.cause), incident.host, set(incident.groups)) == ("host_stalled", "10.0.0.7", set(last_ms))


def test_what_follows_from_a_restart_of_the_broker_is_no_doing_of_the_clients() -> None:
    story = a_group_of_three().loads(HOUR).expires(HOUR + SESSION_MS, "one").expires(HOUR + SESSION_MS, "two")
    story.joins(HOUR + SESSION_MS + SECOND, "one").joins(HOUR + SESSION_MS + SECOND, "two", host="10.0.0.2")
    assert causes_of(story) == ["one_by_one_start", "broker_restarted"]


def test_the_only_member_of_which_nothing_is_heard_for_a_session_after_a_restart_of_the_broker_was_silent_by_itself() -> (
    None
):
    story = a_group_of_three().stops(HOUR - 10 * SECOND).loads(HOUR).expires(HOUR + SESSION_MS, "one")
    story.joins(HOUR + SESSION_MS + 8 * SECOND, "one", says="encountered UNKNOWN_MEMBER_ID from OFFSET_COMMIT response")
    assert causes_of(story) == ["one_by_one_start", "broker_restarted", "paused"]


def test_members_that_subscribe_to_other_topics_than_the_rest_are_another_application() -> None:
    story = a_group_of_three()
    story.joins(HOUR, "mail", host="10.0.0.8", topics=("mails",)).joins(
        HOUR + SECOND, "post", host="10.0.0.9", topics=("mails",)
    )
    assert story.causes()[-1] == ("shared_group_id", ("mail@10.0.0.8", "post@10.0.0.9"))


def test_a_member_that_adds_a_topic_which_the_others_do_not_add_changed_its_subscription() -> None:
    added = Subscription(("orders", "orders-eu"), added=("orders-eu",))
    story = a_group_of_three().requests(HOUR, "one", reason="metadata_changed", subscription=added)
    assert (
        str(story.incidents(until_ms=HOUR + MINUTE)[-1].cause) == "topic_created"
    )  # the others may not have looked yet
    assert str(story.incidents(until_ms=2 * HOUR)[-1].cause) == "subscription_changed"


def test_a_member_that_adds_a_topic_changed_its_subscription_also_where_another_one_adds_it_long_after() -> None:
    added = Subscription(("orders", "orders-eu"), added=("orders-eu",))
    story = a_group_of_three().requests(HOUR, "one", subscription=added).requests(3 * HOUR, "two", subscription=added)
    known = story.known()
    # What is known of a member is what its last record says.
    profiles = {name: each._replace(topics=("orders", "orders-eu")) for name, each in known.profiles.items()}
    three = story.member("three").member_id
    profiles[three] = known.profiles[three]
    of_records = explain(known._replace(profiles=profiles))
    assert [str(each.cause) for each in of_records if each.from_ms == HOUR] == ["subscription_changed"]


def test_two_members_that_add_the_same_topic_found_it_by_a_pattern() -> None:
    story = a_group_of_three()
    added = Subscription(("orders", "orders-eu"), added=("orders-eu",))
    story.requests(HOUR, "one", subscription=added).requests(
        HOUR + MINUTE, "two", reason="metadata_changed", subscription=added
    )
    assert causes_of(story) == ["one_by_one_start", "topic_created"]


def test_a_leader_that_says_that_its_topics_changed_has_more_partitions() -> None:
    story = a_group_of_three().requests(HOUR, "one", says="cached metadata has changed from (x) at the beginning")
    assert causes_of(story) == ["one_by_one_start", "partitions_added"]


def test_a_request_that_follows_from_a_cooperative_rebalance_is_nothing_to_explain() -> None:
    story = a_group_of_three().requests(2 * SECOND, "one", says="need to revoke partitions and re-join")
    assert causes_of(story) == ["one_by_one_start"]


def test_a_member_for_which_all_wait_is_slow_to_poll() -> None:
    story = a_group_of_three().completes(HOUR, waited_for="two", wait_ms=2 * MINUTE)
    assert story.causes()[-1] == ("slow_poll", ("two@10.0.0.2",))


def test_a_member_whose_arrival_showed_that_another_is_slow_to_poll_is_no_incident() -> None:
    story = a_group_of_three().completes(HOUR + 40 * SECOND, waited_for="two", wait_ms=39 * SECOND)
    story.joins(HOUR + SECOND, "four", host="10.0.0.4")
    assert story.causes() == [
        ("one_by_one_start", ("one@10.0.0.1", "three@10.0.0.3", "two@10.0.0.2")),
        ("slow_poll", ("two@10.0.0.2",)),
    ]


def test_a_wait_for_longer_than_a_heartbeat_interval_and_a_poll_take_is_that_for_a_slow_member() -> None:
    story = a_group_of_three().completes(HOUR, waited_for="two", wait_ms=5 * SECOND)
    assert story.causes()[-1] == ("slow_poll", ("two@10.0.0.2",))


def test_a_wait_for_members_that_look_for_the_coordinator_of_a_restarted_broker_is_due_to_that() -> None:
    story = a_group_of_three_until(HOUR).loads(HOUR + 10 * SECOND)
    story.completes(HOUR + 10 * SECOND + SESSION_MS, waited_for="two", wait_ms=SESSION_MS)
    assert causes_of(story) == ["one_by_one_start", "broker_restarted"]


def test_a_group_whose_heartbeats_are_rare_always_joins_slowly() -> None:
    story = a_group_of_three()
    for number, join_s in enumerate((9, 14, 12, 15, 11, 8)):
        story.completes(HOUR + number * MINUTE, join_ms=join_s * SECOND)
    assert causes_of(story) == ["one_by_one_start"]
    story.completes(2 * HOUR, join_ms=40 * SECOND)
    assert causes_of(story) == ["one_by_one_start", "slow_poll"]


def test_a_group_that_often_waits_for_longer_than_heartbeats_may_take_has_slow_members() -> None:
    """They are a third of the session apart at most."""
    story = Story(session_ms=10 * SECOND)
    for number, client in enumerate(("one", "two", "three")):
        story.joins(300 * number, client, host=f"10.0.0.{number}")
    for number, join_s in enumerate((3, 12, 2, 14, 3, 12, 13, 11)):
        story.completes(HOUR + number * 10 * MINUTE, join_ms=join_s * SECOND)
    assert causes_of(story) == ["one_by_one_start", *["slow_poll"] * 5]


def test_a_group_whose_heartbeats_are_as_rare_as_may_be_joins_as_slowly() -> None:
    """They are 15 s apart, and then each member polls."""
    story = a_group_of_three()
    for number, join_s in enumerate((7, 12, 17, 9, 4, 17, 11, 6)):
        story.completes(HOUR + number * 10 * MINUTE, join_ms=join_s * SECOND)
    assert causes_of(story) == ["one_by_one_start"]


def test_phases_in_which_nobody_had_to_learn_of_a_rebalance_do_not_tell_how_long_that_takes() -> None:
    """Those of an empty group: they are as long as the broker waits for others."""
    story = Story()
    for number in range(4):
        at_ms = number * HOUR
        story.joins(at_ms, f"job-{number}", completes=False).completes(at_ms + 3 * SECOND, join_ms=3 * SECOND)
        story.leaves(at_ms + MINUTE, f"job-{number}", completes=False)
    for number, client in enumerate(("one", "two", "three")):
        story.joins(5 * HOUR + 300 * number, client, host=f"10.0.0.{number}", completes=False)
    story.completes(5 * HOUR + 3 * SECOND, join_ms=3 * SECOND)
    for number, join_s in enumerate((12, 11, 13, 14)):
        story.completes(6 * HOUR + number * HOUR, join_ms=join_s * SECOND)
    assert "slow_poll" not in causes_of(story)


def test_two_long_join_phases_of_which_nobody_is_known_to_be_last_are_two_incidents() -> None:
    story = a_group_of_three().completes(HOUR, join_ms=20 * SECOND).completes(HOUR + MINUTE, join_ms=20 * SECOND)
    assert causes_of(story) == ["one_by_one_start", "slow_poll", "slow_poll"]


def test_members_of_a_host_that_expire_together_and_are_back_together_had_more_certainly_a_common_cause() -> None:
    def confidence(second_ms: int) -> float:
        story = two_groups_on_a_host(session_ms=SESSION_MS)
        for group, back_ms in (("billing", HOUR + SECOND), ("orders", second_ms)):
            story.expires(HOUR, f"{group}-a", group=group).joins(back_ms, f"{group}-a", group=group, host="10.0.0.7")
        return story.incidents()[-1].confidence

    assert confidence(HOUR + 4 * MINUTE) < confidence(HOUR + 2 * SECOND)


def test_a_wait_that_the_heartbeat_interval_explains_is_nothing_to_explain() -> None:
    story = a_group_of_three().completes(HOUR, waited_for="two", wait_ms=3 * SECOND)
    assert causes_of(story) == ["one_by_one_start"]


def test_two_members_that_join_an_empty_group_in_the_same_millisecond_start_it() -> None:
    story = Story().joins(0, "one").joins(0, "two")
    assert causes_of(story) == ["one_by_one_start"]


def test_when_the_members_of_all_hosts_fall_silent_together_no_host_is_named() -> None:
    story = a_group_of_three()
    for number, client in enumerate(("one", "two", "three")):
        silent = activity(connection=client, last_request_ms=HOUR + number * SECOND)
        story.expires(HOUR + SESSION_MS + number * SECOND, client, activity=silent)
    incident = story.incidents()[-1]
    assert (str(incident.cause), incident.host, len(incident.clients)) == ("network_cut", None, 3)


def test_two_deploys_of_the_same_processes_are_two_incidents() -> None:
    story = a_group_of_three()
    for begin_ms in (HOUR, HOUR + 4 * MINUTE):
        for number, client in enumerate(("one", "two", "three")):
            story.leaves(begin_ms + number * 10 * SECOND, client)
            story.joins(begin_ms + number * 10 * SECOND + 5 * SECOND, client, host=f"10.0.0.{number + 1}")
    assert causes_of(story) == ["one_by_one_start", "deploy", "deploy"]


def test_the_members_of_another_application_that_leave_again_are_still_its_doing() -> None:
    story = a_group_of_three()
    story.joins(HOUR, "mail", host="10.0.0.8", topics=("mails",)).joins(
        HOUR + SECOND, "post", host="10.0.0.9", topics=("mails",)
    )
    story.leaves(HOUR + MINUTE, "mail").leaves(HOUR + MINUTE, "post")
    assert causes_of(story) == ["one_by_one_start", "shared_group_id"]


def test_a_restart_long_before_a_deploy_is_no_part_of_it() -> None:
    story = a_group_of_three().leaves(HOUR, "three").joins(HOUR + 5 * SECOND, "three", host="10.0.0.3")
    begin_ms = HOUR + 4 * MINUTE
    for number, client in enumerate(("one", "two", "three")):
        at_ms = begin_ms + number * 10 * SECOND
        story.leaves(at_ms, client).joins(at_ms + 5 * SECOND, client, host=f"10.0.0.{number + 1}")
    assert causes_of(story) == ["one_by_one_start", "restart", "deploy"]


def test_a_member_that_leaves_after_the_start_is_not_replaced_by_one_that_was_there_before_it() -> None:
    story = Story()
    for number, client in enumerate(("api-1", "api-2", "api-3")):
        story.joins(number * 3 * SECOND, client, host=f"10.0.0.{number + 1}")
    story.leaves(20 * SECOND, "api-2", says="the consumer is being closed")
    assert causes_of(story) == ["one_by_one_start", "scale_down"]


def test_processes_that_all_stop_and_come_back_after_more_than_their_timeouts_are_a_deploy() -> None:
    story = Story(session_ms=6 * SECOND, rebalance_ms=12 * SECOND)
    for round_ms in (0, HOUR):
        for number, client in enumerate(("one", "two", "three")):
            host = f"10.0.0.{number + 1}"
            if round_ms:
                story.leaves(round_ms, client)
            story.joins(round_ms + 45 * SECOND + number * SECOND, client, host=host)
    assert causes_of(story) == ["one_by_one_start", "deploy"]


def test_the_process_that_is_stopped_in_the_end_is_part_of_an_instance_id_used_twice() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    story.replaces(HOUR, "one", host="10.0.0.9", activity=activity(last_request_ms=HOUR - SECOND))
    stopped = activity(last_request_ms=HOUR + 20 * SECOND, closed_ms=HOUR + 20 * SECOND, closed_by="client")
    story.expires(HOUR + 20 * SECOND + SESSION_MS, "one", activity=stopped)
    assert causes_of(story) == ["one_by_one_start", "duplicate_instance"]


def test_a_leader_that_joins_again_much_later_than_the_last_rebalance_has_a_reason() -> None:
    story = a_group_of_three().joins(HOUR, "four", host="10.0.0.4").requests(HOUR + 30 * SECOND, "one")
    assert causes_of(story) == ["one_by_one_start", "scale_up", "partitions_added"]


def test_a_cooperative_member_that_joins_again_within_a_session_gives_partitions_back() -> None:
    story = Story()
    story.joins(0, "one", assignor="cooperative-sticky").joins(
        300, "two", host="10.0.0.2", assignor="cooperative-sticky"
    )
    story.joins(HOUR, "four", host="10.0.0.4", assignor="cooperative-sticky").requests(HOUR + 30 * SECOND, "one")
    assert causes_of(story) == ["one_by_one_start", "scale_up"]


def test_a_long_join_phase_of_which_nobody_is_known_to_be_last_had_a_slow_member() -> None:
    story = a_group_of_three().completes(HOUR, join_ms=20 * SECOND)
    assert story.causes()[-1] == ("slow_poll", ())


def test_a_long_join_phase_that_waited_for_a_client_which_never_used_its_member_id_had_no_slow_member() -> None:
    story = a_group_of_three().completes(HOUR, join_ms=20 * SECOND, waited_for_pending=True)
    assert causes_of(story) == ["one_by_one_start"]


def test_a_long_join_phase_that_waited_for_a_session_to_expire_had_no_slow_member() -> None:
    story = a_group_of_three()
    dead = activity(last_request_ms=HOUR - SESSION_MS, closed_ms=HOUR - SESSION_MS, closed_by="reset")
    story.expires(HOUR, "two", activity=dead).completes(HOUR + SECOND, join_ms=20 * SECOND)
    assert causes_of(story) == ["one_by_one_start", "killed"]


def test_clients_that_join_for_the_first_time_while_a_broker_restarts_do_so_by_themselves() -> None:
    story = a_group_of_three().loads(HOUR).joins(HOUR + 5 * SECOND, "four", host="10.0.0.4")
    assert causes_of(story) == ["one_by_one_start", "broker_restarted", "scale_up"]


def test_a_slow_poll_while_no_record_tells_since_when_the_leader_of_another_group_is_new_is_a_slow_poll() -> None:
    story = Story().joins(0, "one", host="10.0.0.1").joins(300, "two", host="10.0.0.2")
    story.joins(0, "far", group="orders", host="10.0.0.3")
    story.stops(2 * MINUTE, group="orders").loads(12 * MINUTE, group="orders")
    story.joins(8 * MINUTE, "three", host="10.0.0.4", completes=False)
    story.completes(8 * MINUTE + 80 * SECOND, waited_for="one", wait_ms=80 * SECOND)
    found = [(str(each.cause), each.groups) for each in story.incidents(is_observed=False)]
    assert ("broker_restarted", ("orders",)) in found
    assert ("slow_poll", ("billing",)) in found


def test_a_slow_poll_after_the_first_record_of_a_new_leader_is_a_slow_poll() -> None:
    story = Story().joins(0, "one", host="10.0.0.1").joins(300, "two", host="10.0.0.2").stops(2 * MINUTE)
    story.loads(12 * MINUTE).joins(12 * MINUTE + 20 * SECOND, "three", host="10.0.0.3", completes=False)
    story.completes(12 * MINUTE + 100 * SECOND, waited_for="one", wait_ms=80 * SECOND)
    assert "slow_poll" in [str(each.cause) for each in story.incidents(is_observed=False)]


def test_sessions_that_expire_after_the_first_record_of_a_new_leader_are_the_brokers() -> None:
    story = a_group_of_three().stops(HOUR).loads(HOUR + MINUTE)
    story.expires(HOUR + MINUTE + SESSION_MS, "one").joins(HOUR + MINUTE + SESSION_MS + SECOND, "one")
    assert "broker_restarted" in [str(each.cause) for each in story.incidents(is_observed=False)]


def test_a_process_that_was_replaced_while_a_broker_restarts_was_killed() -> None:
    story = a_group_of_three().loads(HOUR).expires(HOUR + SESSION_MS, "one")
    story.joins(HOUR + SESSION_MS + SECOND, "one", says="beginning to manage the group lifecycle")
    assert sorted(causes_of(story)) == ["broker_restarted", "killed", "one_by_one_start"]


def test_a_process_that_comes_and_goes_is_flapping_also_where_it_does_not_always_leave() -> None:
    """librdkafka that closes before it has been given anything sends no LeaveGroup."""
    story = a_group_of_three()
    for number in range(3):
        at = HOUR + 25 * number * SECOND
        story.joins(at, f"job-{2 * number}", host="10.0.0.9")
        closed = activity(last_request_ms=at + SECOND, closed_ms=at + 2 * SECOND, closed_by="client")
        story.joins(at + 5 * SECOND, f"job-{2 * number + 1}", host="10.0.0.9")
        story.expires(at + 11 * SECOND, f"job-{2 * number}", activity=closed)
        story.leaves(at + 12 * SECOND, f"job-{2 * number + 1}")
    assert causes_of(story) == ["one_by_one_start", "flapping"]


def test_the_end_of_a_loop_belongs_to_it_also_where_a_client_of_its_name_is_added_much_later() -> None:
    story = a_group_of_three()
    for number in range(4):
        begin_ms = HOUR + number * 6 * SECOND
        story.joins(begin_ms, "job", host="10.0.0.9").leaves(begin_ms + 4 * SECOND, "job", completes=False)
    story.completes(HOUR + MINUTE).joins(2 * HOUR, "job", host="10.0.0.9")
    assert story.causes()[1:] == [("flapping", ("job@10.0.0.9",)), ("scale_up", ("job@10.0.0.9",))]


def test_a_process_that_comes_much_later_than_those_of_a_loop_is_none_of_its_clients() -> None:
    story = a_group_of_three()
    for number in range(4):
        begin_ms = HOUR + number * 6 * SECOND
        client = f"job-000{number}"
        story.joins(begin_ms, client, host="10.0.0.9").leaves(begin_ms + 4 * SECOND, client, completes=False)
    story.completes(HOUR + 25 * SECOND).joins(HOUR + 40 * SECOND, "job-0007", host="10.0.0.9")
    assert story.causes()[1] == ("flapping", tuple(f"job-000{number}@10.0.0.9" for number in range(4)))


def test_a_new_client_that_joins_and_leaves_in_a_loop_is_flapping_from_its_first_join_to_its_end() -> None:
    story = a_group_of_three()
    for number in range(5):
        story.joins(HOUR + number * 20 * SECOND, "job", host="10.0.0.9", says="")
        story.leaves(HOUR + number * 20 * SECOND + 5 * SECOND, "job", says="the consumer is being closed")
    assert story.causes()[1:] == [("flapping", ("job@10.0.0.9",))]


def test_a_member_that_joins_minutes_later_on_another_host_is_no_successor() -> None:
    story = (
        a_group_of_three()
        .joins(900, "api-1", host="10.0.0.4")
        .leaves(HOUR, "api-1", says="the consumer is being closed")
    )
    for number, client in enumerate(("one", "two")):
        at_ms = HOUR + MINUTE + number * 10 * SECOND
        story.leaves(at_ms, client).joins(at_ms + 5 * SECOND, client, host=f"10.0.0.{number + 1}")
    story.joins(HOUR + 3 * MINUTE, "api-2", host="10.0.0.9")
    assert ("scale_down", ("api-1@10.0.0.4",)) in story.causes()


def a_group_of_three_until(stop_ms: int) -> Story:
    return a_group_of_three().stops(stop_ms)


def test_a_member_that_joined_twice_while_a_broker_started_and_whose_first_id_expires_was_there_all_the_time() -> None:
    story = a_group_of_three_until(HOUR).loads(HOUR + 10 * SECOND)
    story.joins(HOUR + 12 * SECOND, "one", connection="new", opened_ms=HOUR + 11 * SECOND)
    speaks_anew = activity(connection="new", last_request_ms=HOUR + 12 * SECOND)
    story.expires(HOUR + 10 * SECOND + SESSION_MS, "one", activity=speaks_anew)
    assert causes_of(story) == ["one_by_one_start", "broker_restarted"]


def test_a_member_that_left_just_before_the_broker_stopped_is_not_gone_once_more_when_its_session_expires() -> None:
    story = a_group_of_three().leaves(HOUR, "one", says="the consumer is being closed").stops(HOUR + SECOND)
    one = story.incidents()[-1].disturbances[0].member
    assert one is not None
    story.loads(HOUR + 10 * SECOND).expires_again(HOUR + 10 * SECOND + SESSION_MS, one)
    assert causes_of(story) == ["one_by_one_start", "scale_down", "broker_restarted"]


def test_a_process_that_goes_on_is_not_added_to_its_group_when_it_joins_after_a_restart_of_the_broker() -> None:
    story = a_group_of_three_until(HOUR).loads(HOUR + 10 * SECOND)
    story.joins(
        HOUR + 12 * SECOND, "four", host="10.0.0.4", says="rejoining after we previously errored and backed off"
    )
    assert causes_of(story) == ["one_by_one_start", "broker_restarted"]


def test_a_session_that_expired_before_the_broker_stopped_is_no_consequence_of_that() -> None:
    silent = activity(connection="one", last_request_ms=HOUR - 5 * SECOND - SESSION_MS)
    story = a_group_of_three().expires(HOUR - 5 * SECOND, "one", activity=silent).stops(HOUR).loads(HOUR + 10 * SECOND)
    story.joins(HOUR + 12 * SECOND, "one", connection="one", opened_ms=0)
    assert causes_of(story) == ["one_by_one_start", "paused", "broker_restarted"]


def test_a_deploy_soon_after_another_changes_the_assignor_alone() -> None:
    story = a_group_of_three()
    for begin_ms, assignor in ((HOUR, "range"), (HOUR + 30 * SECOND, "sticky")):
        for number, client in enumerate(("one", "two", "three")):
            story.leaves(begin_ms, client)
            story.joins(begin_ms + (4 + number) * SECOND, client, host=f"10.0.0.{number + 1}", assignor=assignor)
    assert causes_of(story) == ["one_by_one_start", "deploy", "assignor_changed"]


def test_a_process_that_was_added_during_a_deploy_and_leaves_again_and_again_is_no_part_of_it() -> None:
    story = a_group_of_three()
    for number, client in enumerate(("one", "two", "three")):
        at_ms = HOUR + number * 5 * SECOND
        story.leaves(at_ms, client).joins(at_ms + 4 * SECOND, client, host=f"10.0.0.{number + 1}")
    for number in range(4):
        at_ms = HOUR + (25 + number * 8) * SECOND
        story.joins(at_ms, "job", host="10.0.0.9", says="").leaves(at_ms + 4 * SECOND, "job")
    assert story.causes()[1:] == [
        ("deploy", ("one@10.0.0.1", "three@10.0.0.3", "two@10.0.0.2")),
        ("flapping", ("job@10.0.0.9",)),
    ]


def test_static_members_that_are_stopped_and_return_when_the_broker_is_there_again_are_a_deploy() -> None:
    story = Story(session_ms=6 * SECOND).joins(0, "one", static=True).joins(300, "two", static=True)
    for client in ("one", "two"):
        stopped = activity(last_request_ms=HOUR, closed_ms=HOUR + 1, closed_by="client", last_api="OffsetCommit")
        story.expires(HOUR + 6 * SECOND, client, activity=stopped)
    story.stops(HOUR + 20 * SECOND, group="orders").loads(HOUR + 10 * MINUTE, group="orders").loads(HOUR + 10 * MINUTE)
    for client in ("one", "two"):
        story.joins(HOUR + 10 * MINUTE + 2 * SECOND, client, static=True)
    assert [cause for cause in causes_of(story) if cause != "broker_restarted"] == ["one_by_one_start", "deploy"]


def test_two_that_joined_in_one_rebalance_do_not_replace_each_other() -> None:
    story = a_group_of_three()
    story.joins(HOUR, "api-1", host="10.0.0.4", completes=False).joins(HOUR + 50, "api-2", host="10.0.0.5")
    story.leaves(HOUR + 20 * SECOND, "api-1")
    story.leaves(HOUR + 25 * SECOND, "one").joins(HOUR + 29 * SECOND, "one")
    assert ("scale_down", ("api-1@10.0.0.4",)) in story.causes()


def test_more_partitions_than_before_are_why_a_leader_without_reasons_joined_again_just_after_a_rebalance() -> None:
    story = a_group_of_three().completes(HOUR, partitions={"orders": 6}).requests(HOUR + 3 * SECOND, "one")
    story.completes(HOUR + 4 * SECOND, partitions={"orders": 8})
    assert causes_of(story) == ["one_by_one_start", "partitions_added"]


def test_partitions_that_are_added_twice_are_two_incidents() -> None:
    story = a_group_of_three().completes(HOUR, partitions={"orders": 6})
    for number in (1, 2):
        story.requests(HOUR + number * MINUTE, "one")
        story.completes(HOUR + number * MINUTE + SECOND, partitions={"orders": 6 + number})
    assert causes_of(story) == ["one_by_one_start", "partitions_added", "partitions_added"]


def test_partitions_that_are_noticed_in_a_rebalance_of_another_cause_are_named_besides_it() -> None:
    story = a_group_of_three().completes(HOUR, partitions={"orders": 6}).joins(HOUR + MINUTE, "four", host="10.0.0.4")
    story.completes(HOUR + MINUTE + SECOND, partitions={"orders": 8})
    assert causes_of(story) == ["one_by_one_start", "scale_up", "partitions_added"]


def test_another_topic_with_more_partitions_has_not_grown() -> None:
    story = a_group_of_three().completes(HOUR, partitions={"orders": 6})
    story.completes(HOUR + MINUTE, partitions={"orders": 6, "mails": 12})
    assert causes_of(story) == ["one_by_one_start"]


def two_groups_on_a_host(session_ms: int = 6 * SECOND) -> Story:
    story = Story(session_ms=session_ms)
    for group in ("billing", "orders"):
        story.joins(0, f"{group}-a", group=group, host="10.0.0.7", connection=group)
        story.joins(300, f"{group}-b", group=group, host="10.0.0.8")
    return story


def the_host_stands_still(story: Story) -> None:
    """Ten seconds long; then its members are back on their old connections."""
    for group in ("billing", "orders"):
        silent = activity(last_request_ms=HOUR, connection=group)
        story.expires(HOUR + 6 * SECOND, f"{group}-a", group=group, activity=silent)
        story.joins(HOUR + 10 * SECOND, f"{group}-a", group=group, host="10.0.0.7", connection=group, opened_ms=500)


def test_processes_of_a_host_that_go_on_where_they_were_stood_still_with_it() -> None:
    story = two_groups_on_a_host()
    for group in ("billing", "orders"):
        silent = activity(last_request_ms=HOUR, connection=group)
        story.expires(HOUR + 6 * SECOND, f"{group}-a", group=group, activity=silent)
        story.joins(
            HOUR + 10 * SECOND, f"{group}-a", group=group, host="10.0.0.7", connection=f"{group} 2", opened_ms=500
        )
    incident = story.incidents()[-1]
    assert (str(incident.cause), incident.host, incident.groups) == ("host_stalled", "10.0.0.7", ("billing", "orders"))


def test_a_member_of_a_stalled_host_that_has_not_come_back_says_nothing_of_connections() -> None:
    story = two_groups_on_a_host()
    for group in ("billing", "orders"):
        silent = activity(last_request_ms=HOUR, connection=group)
        story.expires(HOUR + 6 * SECOND, f"{group}-a", group=group, activity=silent)
    for member in ("x", "y"):
        story.joins(HOUR - MINUTE, f"billing-{member}", host="10.0.0.7", session_ms=6 * SECOND, connection=member)
        silent = activity(last_request_ms=HOUR, connection=member)
        story.expires(HOUR + 6 * SECOND, f"billing-{member}", activity=silent)
    for group in ("billing", "orders"):
        story.joins(HOUR + 10 * SECOND, f"{group}-a", group=group, host="10.0.0.7", connection=group, opened_ms=500)
    story.joins(HOUR + 10 * SECOND, "billing-x", host="10.0.0.7", connection="x", opened_ms=500)
    incident = story.incidents()[-1]
    assert (str(incident.cause), incident.host) == ("host_stalled", "10.0.0.7")


def test_a_member_with_a_longer_session_says_nothing_against_a_host_that_stood_still() -> None:
    story = two_groups_on_a_host().joins(600, "patient", host="10.0.0.7", session_ms=SESSION_MS, group="mails")
    the_host_stands_still(story)
    incident = story.incidents()[-1]
    assert str(incident.cause) == "host_stalled"
    assert not [each for each in incident.evidence if "went on" in each.text]


def test_a_member_of_a_stalled_host_that_others_waited_for_meanwhile_stood_still_with_it() -> None:
    story = two_groups_on_a_host().joins(600, "patient", host="10.0.0.7", session_ms=SESSION_MS, group="mails")
    the_host_stands_still(story)
    story.completes(HOUR + 10 * SECOND, group="mails", waited_for="patient", wait_ms=9 * SECOND)
    incident = story.incidents()[-1]
    assert (str(incident.cause), incident.groups) == ("host_stalled", ("billing", "mails", "orders"))


def test_members_that_fell_silent_more_than_a_heartbeat_apart_are_two_pauses() -> None:
    story = two_groups_on_a_host(session_ms=SESSION_MS)
    for group, at_ms in (("billing", HOUR), ("orders", HOUR + 15 * SECOND)):
        silent = activity(last_request_ms=at_ms, connection=group)
        story.expires(at_ms + SESSION_MS, f"{group}-a", group=group, activity=silent)
        story.joins(at_ms + MINUTE, f"{group}-a", group=group, host="10.0.0.7", connection=group, opened_ms=0)
    assert causes_of(story)[-2:] == ["paused", "paused"]


def test_a_client_that_left_and_joins_again_much_later_was_added_again() -> None:
    story = a_group_of_three().leaves(HOUR, "three").joins(2 * HOUR, "three", host="10.0.0.3", says="")
    assert story.causes()[1:] == [("scale_down", ("three@10.0.0.3",)), ("scale_up", ("three@10.0.0.3",))]


def test_a_process_that_was_silent_for_long_and_goes_on_was_not_added() -> None:
    silent = activity(connection="one", last_request_ms=HOUR)
    story = a_group_of_three().expires(HOUR + SESSION_MS, "one", activity=silent)
    story.joins(2 * HOUR, "one", connection="one", opened_ms=0)
    assert causes_of(story) == ["one_by_one_start", "paused"]


def test_a_client_of_an_unknown_name_is_more_certainly_new_than_one_that_had_been_there() -> None:
    new = a_group_of_three().joins(HOUR, "four", host="10.0.0.4").incidents()[-1]
    known = a_group_of_three().leaves(HOUR, "three").joins(2 * HOUR, "three", host="10.0.0.3").incidents()[-1]
    assert new.cause is known.cause
    assert new.confidence > 0.75 > known.confidence


def test_processes_of_one_start_may_be_slower_than_a_short_session() -> None:
    story = Story(session_ms=6 * SECOND).joins(0, "one").joins(9 * SECOND, "two", host="10.0.0.2")
    assert causes_of(story) == ["one_by_one_start"]


def test_two_static_members_that_were_gone_one_after_the_other_are_hardly_a_deploy() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True, host="10.0.0.2")
    story.expires(HOUR, "one").joins(HOUR + 20 * SECOND, "one", static=True)
    story.replaces(HOUR + 40 * SECOND, "two", host="10.0.0.2")
    incident = story.incidents()[-1]
    assert incident.confidence < 0.9 or str(incident.cause) != "deploy"


def from_records(story: Story) -> list[Incident]:
    """What explains the story, if only the difference of records tells it."""
    return story.incidents(is_observed=False)


def test_members_of_one_record_are_told_apart() -> None:
    story = Story(source="record 1").joins(0, "one").joins(0, "two", host="10.0.0.2")
    story.joins(HOUR, "three", host="10.0.0.3").joins(HOUR, "four", host="10.0.0.4")
    assert story.incidents()[-1].clients == ("four@10.0.0.4", "three@10.0.0.3")


def test_nobody_knows_from_records_alone_how_a_member_was_gone_that_had_committed_nothing() -> None:
    story = a_group_of_three().leaves(HOUR, "one", reason=UNSEEN).joins(HOUR + 10 * SECOND, "one")
    incident = from_records(story)[-1]
    assert str(incident.cause) == "unknown"
    assert {str(each.cause) for each in incident.alternatives} <= {"restart", "killed", "paused"}


def test_a_loop_of_which_records_alone_tell_is_no_flapping_for_certain() -> None:
    story = a_group_of_three()
    for number in range(4):
        at_ms = HOUR + number * MINUTE
        story.leaves(at_ms, "one", reason=UNSEEN).joins(at_ms + 20 * SECOND, "one")
    incident = from_records(story)[-1]
    assert str(incident.cause) == "unknown"
    assert {str(each.cause) for each in incident.alternatives} >= {"flapping", "crash_loop"}


def test_what_is_unknown_is_told_for_each_client() -> None:
    story = a_group_of_three().leaves(HOUR, "one", reason=UNSEEN).leaves(HOUR + SECOND, "two", reason=UNSEEN)
    assert [each.clients for each in from_records(story)[1:]] == [("one@10.0.0.1",), ("two@10.0.0.2",)]


def test_a_long_absence_that_only_records_show_may_be_slow_polling() -> None:
    story = a_group_of_three().leaves(HOUR, "one", says="consumer poll timeout has expired (inferred)")
    assert from_records(story)[-1].confidence < 0.75


def test_a_deploy_of_processes_that_share_a_client_id_and_a_host_is_a_deploy() -> None:
    story = Story()
    for number in range(3):
        story.joins(number * 300, "app", connection=f"old {number}")
    for number in range(3):
        at_ms = HOUR + number * MINUTE
        left = activity(connection=f"old {number}", last_request_ms=at_ms)
        story.leaves(at_ms, "app", activity=left).joins(at_ms + 10 * SECOND, "app", connection=f"new {number}")
    assert story.causes() == [("one_by_one_start", ("app@10.0.0.1",)), ("deploy", ("app@10.0.0.1",))]


def static_members(count: int) -> Story:
    story = Story()
    for number in range(count):
        story.joins(number * 300, f"api-{number}", static=True, host=f"10.0.0.{number + 1}")
    return story


def test_static_members_that_come_back_without_a_rebalance_have_not_changed_the_assignor_of_a_later_one() -> None:
    story = static_members(3)
    for number in range(3):
        story.replaces(HOUR + number * SECOND, f"api-{number}", host=f"10.0.0.{number + 1}")
    story.completes(HOUR + 5 * MINUTE, protocol="sticky", join_ms=1_000)
    assert causes_of(story) == ["one_by_one_start", "deploy"]


def test_a_static_member_that_joins_twice_before_the_rebalance_is_over_is_not_restarted() -> None:
    story = static_members(2).joins(HOUR, "api-2", static=True, completes=False).replaces(HOUR + SECOND, "api-2")
    story.completes(HOUR + 2 * SECOND)
    assert causes_of(story) == ["one_by_one_start", "scale_up"]


def test_another_application_that_begins_just_after_the_group_is_no_part_of_its_start() -> None:
    story = Story().joins(0, "one").joins(300, "two", host="10.0.0.2")
    story.joins(8 * SECOND, "mail", host="10.0.0.8", topics=("mails",))
    story.joins(8 * SECOND + 300, "post", host="10.0.0.9", topics=("mails",))
    assert causes_of(story) == ["one_by_one_start", "shared_group_id"]


def test_two_members_that_expire_together_beside_others_on_their_hosts_that_go_on_were_not_cut_off() -> None:
    story = Story()
    for group, host in (("billing", "10.0.0.7"), ("orders", "10.0.0.8")):
        story.joins(0, f"{group}-a", group=group, host=host).joins(300, f"{group}-b", group=group, host=host)
        story.expires(HOUR, f"{group}-a", group=group).joins(HOUR + MINUTE, f"{group}-a", group=group, host=host)
    assert "network_cut" not in causes_of(story)


def test_a_process_that_ended_before_the_rebalance_of_its_join_was_over_is_followed_by_the_next_one() -> None:
    # Its session began anew when the phase JOIN ended, so the log does not show for how long it had been gone.
    story = a_group_of_three().joins(HOUR + 5 * SECOND, "one", completes=False)
    story.joins(HOUR + 12 * SECOND, "one", completes=False)
    story.expires(HOUR + 45 * SECOND, "one").completes(HOUR + 45 * SECOND + 100, join_ms=40 * SECOND)
    story.expires(HOUR + 90 * SECOND + 90, "one")
    assert "scale_up" not in causes_of(story)


def test_a_member_that_had_found_a_coordinator_again_and_joined_much_later_than_the_others_was_slow_to_poll() -> None:
    story = a_group_of_three_until(HOUR).loads(HOUR + 10 * SECOND)
    for number, (client, late_ms) in enumerate((("one", 300), ("two", 700), ("three", 20 * SECOND)), 1):
        loaded_ms = HOUR + 10 * SECOND
        story.expires(loaded_ms + SESSION_MS, client)
        story.joins(
            loaded_ms + late_ms, client, host=f"10.0.0.{number}", connection=client, opened_ms=loaded_ms - SECOND
        )
    assert ("slow_poll", ("three@10.0.0.3",)) in story.causes()


def test_a_process_that_is_started_after_a_restart_of_the_broker_is_not_slow_to_join() -> None:
    story = a_group_of_three_until(HOUR).loads(HOUR + 10 * SECOND).expires(HOUR + 10 * SECOND + SESSION_MS, "one")
    story.joins(HOUR + 30 * SECOND, "one", connection="new", opened_ms=HOUR + 30 * SECOND - 200)
    assert "slow_poll" not in causes_of(story)


def test_members_that_are_all_gone_in_a_record_of_others_did_not_leave_for_a_deploy() -> None:
    # When the last member leaves there is a record of an empty group.
    def incidents(*, is_emptied: bool) -> list[Incident]:
        story = a_group_of_three().in_record("record 2")
        for client in ("one", "two", "three"):
            story.leaves(HOUR, client, reason=UNSEEN)
        story.in_record("record 3" if is_emptied else "record 2")
        for number, client in enumerate(("one", "two", "three"), 1):
            story.joins(HOUR + 2 * SECOND, client, host=f"10.0.0.{number}")
        return from_records(story.empties(HOUR, source="record 2") if is_emptied else story)

    assert [str(each.cause) for each in incidents(is_emptied=True)] == ["one_by_one_start", "deploy"]
    assert "deploy" not in [str(each.cause) for each in incidents(is_emptied=False)]


def test_who_was_silent_and_has_a_successor_in_the_first_record_without_it_was_rather_killed() -> None:
    story = a_group_of_three().in_record("record 2").expires(HOUR, "one").joins(HOUR, "one")
    assert str(from_records(story)[-1].cause) == "killed"


def test_who_was_silent_and_came_back_when_the_others_had_gone_on_without_it_was_rather_paused() -> None:
    story = a_group_of_three().in_record("record 2").expires(HOUR, "one").in_record("record 3")
    assert str(from_records(story.joins(HOUR + 9 * SECOND, "one"))[-1].cause) == "paused"


def test_another_application_that_comes_while_a_group_is_still_young_is_told_from_its_members() -> None:
    story = Story().joins(0, "one").joins(20 * SECOND, "two", host="10.0.0.2").joins(MINUTE, "three", host="10.0.0.3")
    story.joins(2 * MINUTE, "mail", host="10.0.0.8", topics=("mails",))
    story.joins(2 * MINUTE, "post", host="10.0.0.9", topics=("mails",))
    assert story.causes()[-1] == ("shared_group_id", ("mail@10.0.0.8", "post@10.0.0.9"))


def test_a_member_that_joins_just_after_all_others_may_be_the_last_of_their_start() -> None:
    story = a_group_of_three()
    for number, client in enumerate(("one", "two", "three"), 1):
        story.leaves(HOUR, client).joins(HOUR + 5 * SECOND, client, host=f"10.0.0.{number}")
    incident = story.joins(HOUR + 20 * SECOND, "four", host="10.0.0.4").incidents()[-1]
    assert str(incident.cause) == "scale_up"
    assert "one_by_one_start" in [str(each.cause) for each in incident.alternatives]


def test_the_one_of_two_processes_with_an_instance_id_that_takes_it_back_when_the_other_stops_was_not_cut_off() -> None:
    story = Story().joins(0, "one", static=True).joins(300, "two", static=True)
    story.replaces(HOUR, "one", activity=activity(connection="first", last_request_ms=HOUR - SECOND))
    stopped_ms = HOUR + 20 * SECOND
    stopped = activity(connection="second", last_request_ms=stopped_ms, closed_ms=stopped_ms + 1, closed_by="client")
    story.expires(stopped_ms + SESSION_MS, "one", activity=stopped)
    back_ms, reason = stopped_ms + SESSION_MS + SECOND, "rejoining after we previously errored and backed off"
    story.joins(back_ms, "one", static=True, connection="first", opened_ms=0, says=reason)
    assert causes_of(story) == ["one_by_one_start", "duplicate_instance"]


def closed_before(at_ms: int) -> Activity:
    return activity(last_request_ms=at_ms - 3 * SECOND, closed_ms=at_ms - 2 * SECOND, closed_by="client")


def test_a_static_member_that_is_replaced_again_and_again_within_its_session_is_in_a_crash_loop() -> None:
    story = static_members(3)
    for number in range(4):
        at_ms = HOUR + number * 8 * SECOND
        story.replaces(at_ms, "api-1", host="10.0.0.2", activity=closed_before(at_ms))
    assert story.causes()[-1] == ("crash_loop", ("api-1",))


def test_a_static_member_that_is_replaced_again_within_seconds_of_its_start_is_in_a_crash_loop() -> None:
    story = static_members(3)
    story.replaces(HOUR, "api-1", host="10.0.0.2", activity=closed_before(HOUR))
    as_it_joined = closed_before(HOUR + 5 * SECOND)._replace(last_api="SyncGroup")
    story.replaces(HOUR + 5 * SECOND, "api-1", host="10.0.0.2", activity=as_it_joined)
    assert story.causes()[-1] == ("crash_loop", ("api-1",))


def test_a_static_member_that_is_killed_again_within_seconds_of_its_start_is_in_a_crash_loop_whatever_else_is_known() -> (
    None
):
    story = static_members(3)
    for at_ms in (HOUR, HOUR + 20 * SECOND):
        killed = closed_before(at_ms)._replace(last_api="Heartbeat")
        committed = Committed(at_ms - 6 * SECOND, SECOND, at_ms - 7 * SECOND)
        story.replaces(at_ms, "api-1", host="10.0.0.2", activity=killed, committed=committed)
    assert story.causes()[-1] == ("crash_loop", ("api-1",))


def test_a_loop_whose_processes_live_for_seconds_and_for_longer_in_turn_is_one() -> None:
    story, at_ms = static_members(3), HOUR
    for lived_s in (24, 5, 26, 5):
        story.replaces(at_ms, "api-1", host="10.0.0.2", activity=closed_before(at_ms))
        at_ms += lived_s * SECOND
    story.replaces(at_ms, "api-1", host="10.0.0.2", activity=closed_before(at_ms))
    assert [each for each in story.causes() if each[1] == ("api-1",)] == [("crash_loop", ("api-1",))]


def test_two_loops_minutes_apart_are_two() -> None:
    story = a_group_of_three()
    for begin_ms in (HOUR, HOUR + 5 * MINUTE):
        for number in range(3):
            at_ms = begin_ms + number * 25 * SECOND
            story.leaves(at_ms, "one").joins(at_ms + 5 * SECOND, "one")
    assert causes_of(story) == ["one_by_one_start", "flapping", "flapping"]


def test_who_comes_and_goes_first_for_half_a_minute_and_then_for_seconds_is_flapping_from_the_first_time_on() -> None:
    story = a_group_of_three()
    for at_s in (0, 32, 41):
        story.leaves(HOUR + at_s * SECOND, "one").joins(HOUR + (at_s + 5) * SECOND, "one")
    assert causes_of(story) == ["one_by_one_start", "flapping"]


def test_who_leaves_twice_and_was_there_for_half_a_minute_between_is_flapping_and_after_a_minute_was_restarted_again() -> (
    None
):
    for pause_s, causes in ((40, ["flapping"]), (70, ["restart", "restart"])):
        story = a_group_of_three()
        for at_ms in (HOUR, HOUR + pause_s * SECOND):
            story.leaves(at_ms, "one").joins(at_ms + 5 * SECOND, "one")
        assert causes_of(story)[1:] == causes


def test_static_members_that_are_replaced_in_turn_time_and_again_are_in_no_crash_loop() -> None:
    story = static_members(3)
    for deploy in range(3):
        for number in range(3):
            at_ms = HOUR + deploy * MINUTE + number * 3 * SECOND
            story.replaces(at_ms, f"api-{number}", host=f"10.0.0.{number + 1}", activity=closed_before(at_ms))
    assert causes_of(story) == ["one_by_one_start", "deploy", "deploy", "deploy"]


def test_a_deploy_replaces_also_a_process_whose_instance_id_had_been_used_twice_before() -> None:
    story = static_members(3)
    for number in range(3):
        at_ms = HOUR + number * 3 * SECOND
        story.replaces(at_ms, "api-1", host="10.0.0.2", activity=activity(last_request_ms=at_ms - SECOND))
    for number in range(3):
        at_ms = HOUR + MINUTE + number * 3 * SECOND
        story.replaces(at_ms, f"api-{number}", host=f"10.0.0.{number + 1}", activity=closed_before(at_ms))
    assert causes_of(story) == ["one_by_one_start", "duplicate_instance", "deploy"]


def test_a_client_that_is_gone_again_before_a_record_has_its_host_is_the_same_client() -> None:
    story = a_group_of_three()
    for number in range(3):
        story.joins(HOUR + number * 6 * SECOND, "four", host=None if number == 2 else "10.0.0.4")
        story.leaves(HOUR + number * 6 * SECOND + 3 * SECOND, "four")
    assert {name for _, clients in story.causes()[1:] for name in clients} == {"four@10.0.0.4"}


def test_a_client_that_flaps_before_a_deploy_is_no_part_of_it() -> None:
    story = a_group_of_three()
    for number in range(3):
        at_ms = HOUR + number * 6 * SECOND
        story.joins(at_ms, "four", host="10.0.0.4").leaves(at_ms + 3 * SECOND, "four")
    for number, client in enumerate(("one", "two", "three")):
        at_ms = HOUR + 30 * SECOND + number * 6 * SECOND
        story.leaves(at_ms, client).joins(at_ms + 2 * SECOND, client, host=f"10.0.0.{number + 1}")
    assert causes_of(story) == ["one_by_one_start", "flapping", "deploy"]


def test_a_client_with_a_member_on_each_host_is_on_the_one_that_has_none_when_there_is_no_record_of_it() -> None:
    story = Story()
    for number in range(3):
        story.joins(number * 300, "api", host=f"10.0.0.{number + 1}")
    story.leaves(HOUR, "api").joins(HOUR + 2 * SECOND, "api", host=None)
    assert story.causes()[-1] == ("restart", ("api@10.0.0.1",))


def test_two_members_for_which_all_wait_for_longer_than_for_any_poll_are_slow_even_if_they_are_alike() -> None:
    story = a_group_of_three().completes(HOUR, waited_for="two", wait_ms=12 * SECOND, other_wait_ms=11 * SECOND)
    assert story.causes()[-1] == ("slow_poll", ("two@10.0.0.2",))


def test_members_that_come_long_after_those_of_a_start_that_were_there_within_seconds_were_added() -> None:
    story = a_group_of_three().joins(20 * SECOND, "four", host="10.0.0.4").joins(20_300, "five", host="10.0.0.5")
    assert story.causes()[-1] == ("scale_up", ("five@10.0.0.5", "four@10.0.0.4"))


def test_a_member_that_has_only_been_restarted_is_old_beside_one_that_is_added() -> None:
    story = a_group_of_three()
    for number, client in enumerate(("one", "two", "three"), 1):
        story.leaves(HOUR, client).joins(HOUR + 5 * SECOND, client, host=f"10.0.0.{number}")
    incident = story.joins(HOUR + 20 * SECOND, "four", host="10.0.0.4").incidents()[-1]
    assert (str(incident.cause), incident.confidence > 0.8) == ("scale_up", True)


def test_a_start_goes_on_when_the_broker_that_was_stopped_meanwhile_is_there_again() -> None:
    story = Story().joins(0, "one").joins(500, "two", host="10.0.0.2").stops(SECOND).loads(40 * SECOND)
    story.joins(41 * SECOND, "three", host="10.0.0.3").joins(42 * SECOND, "four", host="10.0.0.4")
    assert sorted(causes_of(story)) == ["broker_restarted", "one_by_one_start"]


def test_a_group_whose_first_members_a_coordinator_forgot_starts_anew() -> None:
    story = Story().joins(0, "one").stops(SECOND).loads(20 * SECOND, reason=FORGOTTEN)
    story.joins(21 * SECOND, "one", says=GOES_ON).joins(22 * SECOND, "two", host="10.0.0.2", says=GOES_ON)
    assert sorted(causes_of(story)) == ["broker_restarted", "one_by_one_start"]


def test_a_member_that_came_after_the_broker_was_restarted_and_falls_silent_does_so_by_itself() -> None:
    story = a_group_of_three().stops(HOUR).loads(HOUR + 10 * SECOND)
    story.joins(HOUR + 12 * SECOND, "four", host="10.0.0.4").expires(HOUR + MINUTE, "four")
    story.joins(HOUR + 90 * SECOND, "four", host="10.0.0.4", says="encountered UNKNOWN_MEMBER_ID")
    assert story.causes()[-1] == ("paused", ("four@10.0.0.4",))


def test_static_members_that_are_stopped_soon_after_the_broker_was_restarted_are_a_deploy() -> None:
    story = Story().stops(0).loads(20 * SECOND, reason=FORGOTTEN)
    for number in range(3):
        story.joins((21 + number) * SECOND, f"api-{number}", static=True, host=f"10.0.0.{number + 1}")
    for number in range(3):
        at_ms = (40 + number) * SECOND
        story.replaces(at_ms, f"api-{number}", host=f"10.0.0.{number + 1}", activity=closed_before(at_ms))
    assert causes_of(story)[-1] == "deploy"


def test_a_host_whose_members_are_back_while_one_is_not_did_not_take_that_one_with_it() -> None:
    story = Story()
    for number, client in enumerate(("one", "two", "three")):
        group = f"group {number}"
        story.joins(0, client, group=group, host="10.0.0.7").joins(300, f"{client}-b", group=group, host="10.0.0.8")
        story.expires(HOUR + number * 100, client, group=group)
    story.joins(HOUR + 5 * SECOND, "one", group="group 0", host="10.0.0.7", says=GOES_ON)
    story.joins(HOUR + 5 * SECOND, "two", group="group 1", host="10.0.0.7", says=GOES_ON)
    stalled = next(each for each in story.incidents(until_ms=2 * HOUR) if str(each.cause) == "host_stalled")
    assert any("has not come back" in each.text for each in stalled.evidence)


def test_a_static_member_that_had_committed_until_it_was_replaced_is_no_part_of_a_deploy() -> None:
    story = static_members(2)
    story.replaces(HOUR, "api-0", committed=Committed(HOUR - 300, SECOND))
    story.replaces(HOUR + 26 * SECOND, "api-1", host="10.0.0.2", committed=Committed(HOUR + 20 * SECOND, SECOND))
    assert causes_of(story) == ["one_by_one_start", "duplicate_instance", "static_restart"]


def test_three_of_four_that_are_replaced_one_after_the_other_are_a_deploy_also_in_records() -> None:
    story = a_group_of_three().joins(900, "four", host="10.0.0.4")
    for number, client in enumerate(("one", "two", "three"), 1):
        at_ms = HOUR + number * 10 * SECOND
        story.leaves(at_ms, client).joins(at_ms + 5 * SECOND, client, host=f"10.0.0.{number}")
    assert str(from_records(story)[-1].cause) == "deploy"


def test_a_join_phase_that_ends_with_the_session_of_a_member_that_came_meanwhile_had_no_slow_member() -> None:
    story = a_group_of_three().joins(HOUR + SECOND, "four", host="10.0.0.4", completes=False)
    story.expires(HOUR + 46 * SECOND, "four").completes(HOUR + 46 * SECOND + 10, join_ms=46 * SECOND)
    assert "slow_poll" not in causes_of(story)


def test_a_client_whose_name_is_new_each_time_is_followed_through_records_that_have_both() -> None:
    story = a_group_of_three()
    for number in range(1, 5):
        story.in_record(f"record {number}").joins(HOUR + number * 10 * SECOND, f"api-000{number}", host="10.0.0.4")
        if number > 1:
            story.leaves(HOUR + number * 10 * SECOND, f"api-000{number - 1}")
    assert [str(each.cause) for each in from_records(story)] == ["one_by_one_start", "flapping"]


def test_two_members_that_say_that_there_are_more_topics_found_one_by_a_pattern() -> None:
    reason = "rejoining because there are more topics to consume, our interests have changed"
    story = a_group_of_three().requests(HOUR, "one", says=reason)
    story.requests(HOUR + SECOND, "two", says=reason, reason="metadata_changed")
    assert causes_of(story) == ["one_by_one_start", "topic_created"]


def test_two_members_that_add_the_same_topic_found_it_also_in_records() -> None:
    added = Subscription(("orders", "orders-eu"), added=("orders-eu",))
    story = a_group_of_three()
    for number, client in enumerate(("one", "two")):
        story.requests(HOUR + number * 3 * SECOND, client, reason="metadata_changed", subscription=added)
    assert [str(each.cause) for each in from_records(story)] == ["one_by_one_start", "topic_created"]


def test_two_topics_that_are_found_one_after_the_other_are_two_incidents() -> None:
    story = a_group_of_three()
    for number, topic in enumerate(("orders-eu", "orders-us")):
        for place, client in enumerate(("one", "two")):
            added = Subscription(("orders", topic), added=(topic,))
            at_ms = HOUR + number * 20 * SECOND + place * 4 * SECOND
            story.requests(at_ms, client, reason="metadata_changed", subscription=added)
    assert causes_of(story) == ["one_by_one_start", "topic_created", "topic_created"]


def test_a_member_that_joins_just_before_the_rebalance_begins_that_shows_a_slow_one_is_no_incident() -> None:
    story = a_group_of_three().joins(HOUR - 20, "four", host="10.0.0.4", completes=False)
    story.completes(HOUR + 9 * SECOND, waited_for="two", wait_ms=9 * SECOND)
    assert causes_of(story) == ["one_by_one_start", "slow_poll"]


def test_static_members_that_were_closed_at_once_and_whose_successors_were_refused_at_first_are_no_cut_network() -> (
    None
):
    story = Story(session_ms=10 * SECOND)
    for number, client in enumerate(("one", "two", "three")):
        story.joins(number * 300, client, host="10.0.0.7", static=True)
    for number, client in enumerate(("one", "two", "three")):
        closed = activity(
            connection=client,
            last_request_ms=HOUR + number * 50,
            last_fetch_ms=HOUR + number * 50 + 1,
            closed_ms=HOUR + number * 50 + 2,
            closed_by="client",
            software="kgo v1.22.2",
            has_fetch_session=False,
        )
        story.expires(HOUR + 10 * SECOND, client, activity=closed, completes=False)
    for number, client in enumerate(("one", "two", "three")):
        back_ms = HOUR + 10 * SECOND + number * 200
        again = f"{client} again"
        story.joins(
            back_ms,
            client,
            host="10.0.0.7",
            static=True,
            says=GOES_ON,
            connection=again,
            opened_ms=HOUR + 2 * SECOND,
            completes=False,
        )
    story.completes(HOUR + 12 * SECOND)
    for client in ("slow", "waits"):
        story.joins(0, client, group="other", host="10.0.0.7")
    story.completes(HOUR + 11 * SECOND, group="other", waited_for="slow", wait_ms=11 * SECOND, join_ms=11 * SECOND)
    assert sorted(set(causes_of(story))) == ["deploy", "one_by_one_start", "slow_poll"]


def test_all_members_of_a_group_that_are_back_with_another_assignor_had_not_lost_their_network() -> None:
    story = Story(session_ms=10 * SECOND)
    for number, client in enumerate(("one", "two", "three")):
        story.joins(number * 300, client, host="10.0.0.7", static=True)
    for number, client in enumerate(("one", "two", "three")):
        last_ms = HOUR + number * 5
        due = Committed(last_ms, SECOND, before_ms=last_ms - SECOND)
        story.expires(last_ms + 10 * SECOND, client, committed=due, completes=False)
    for number, client in enumerate(("one", "two", "three")):
        back_ms = HOUR + 10 * SECOND + 300 + number * 500
        story.joins(back_ms, client, host="10.0.0.7", static=True, assignor="sticky", completes=False)
    story.completes(HOUR + 13 * SECOND, protocol="sticky", join_ms=2_700)
    facts = tuple(fact._replace(subscription=None) for fact in story.known().facts)  # as of a log
    found = explain(story.known()._replace(facts=facts))
    assert "network_cut" not in [str(each.cause) for each in found]


def test_a_member_of_a_stalled_host_that_was_removed_from_a_rebalance_stood_still_with_it() -> None:
    story = Story()
    for number, client in enumerate(("one", "two", "three")):
        group = f"group {number}"
        story.joins(0, client, group=group, host="10.0.0.7").joins(300, f"{client}-b", group=group, host="10.0.0.8")
    story.expires(HOUR, "one", group="group 0").expires(HOUR + 100, "two", group="group 1")
    story.is_removed(HOUR - 20 * SECOND, "three", group="group 2")
    for number, client in enumerate(("one", "two", "three")):
        story.joins(HOUR + 5 * SECOND, client, group=f"group {number}", host="10.0.0.7", says=GOES_ON)
    assert {cause for cause, _ in story.causes()} == {"one_by_one_start", "host_stalled"}


def test_two_members_of_a_host_that_are_gone_for_good_at_the_same_time_were_lost_with_it() -> None:
    story = Story(session_ms=10 * SECOND)
    for group in ("billing", "orders"):
        story.joins(0, f"{group}-a", group=group, host="10.0.0.7")
        story.joins(300, f"{group}-b", group=group, host="10.0.0.8")
        story.expires(HOUR, f"{group}-a", group=group)
    (incident,) = (each for each in story.incidents(until_ms=2 * HOUR) if str(each.cause) != "one_by_one_start")
    assert (str(incident.cause), incident.host) == ("host_stalled", "10.0.0.7")


def test_two_members_of_the_only_host_of_all_that_fall_silent_together_were_cut_off() -> None:
    for other_host, cause in (("10.0.0.7", "network_cut"), ("10.0.0.8", "host_stalled")):
        story = Story()
        for group in ("billing", "orders", "mails"):
            story.joins(0, f"{group}-a", group=group, host="10.0.0.7")
            story.joins(300, f"{group}-b", group=group, host=other_host)
            story.expires(HOUR, f"{group}-a", group=group)
            story.joins(HOUR + 5 * SECOND, f"{group}-a", group=group, host="10.0.0.7", says=GOES_ON)
        assert {each for each in causes_of(story) if each != "one_by_one_start"} == {cause}


def test_a_member_of_another_host_that_falls_silent_at_the_same_time_as_all_of_one_does_so_by_itself() -> None:
    story = Story()
    for number, client in enumerate(("one", "two", "three")):
        group = f"group {number}"
        story.joins(0, client, group=group, host="10.0.0.7").joins(300, f"{client}-b", group=group, host="10.0.0.8")
        story.expires(HOUR + number * 100, client, group=group)
        story.joins(HOUR + 5 * SECOND, client, group=group, host="10.0.0.7", says=GOES_ON)
    story.expires(HOUR + 50, "one-b", group="group 0")
    stalled = next(each for each in story.incidents() if str(each.cause) == "host_stalled")
    assert (stalled.host, "one-b@10.0.0.8" in stalled.clients) == ("10.0.0.7", False)


def strangers(story: Story, begin_ms: int) -> Story:
    """Two members with another name, which are gone before any rebalance with them is over."""
    story.joins(begin_ms, "mail-1", host=None, topics=(), completes=False)
    story.joins(begin_ms + 100, "mail-2", host=None, topics=(), completes=False)
    story.expires(begin_ms + MINUTE, "one", completes=False)
    story.leaves(begin_ms + 70 * SECOND, "mail-1", completes=False)
    return story.leaves(begin_ms + 70 * SECOND, "mail-2")


def test_members_with_another_name_with_which_no_rebalance_is_over_are_another_application() -> None:
    story = Story()
    for number in range(1, 4):
        story.joins(number * 300, "one" if number == 1 else f"api-{number}", host=f"10.0.0.{number}")
    strangers(story, HOUR).joins(HOUR + 2 * MINUTE, "one")
    assert [each for each in story.causes() if each[0] == "shared_group_id"] == [
        ("shared_group_id", ("mail-1", "mail-2"))
    ]
    assert "killed" not in causes_of(story)


def test_a_process_that_ends_again_within_seconds_of_its_start_is_in_a_crash_loop() -> None:
    story = a_group_of_three()
    for at_ms in (HOUR, HOUR + 20 * SECOND):
        dead = activity(last_request_ms=at_ms, closed_ms=at_ms + 10, closed_by="client")
        story.expires(at_ms + SESSION_MS, "one", activity=dead).joins(at_ms + 15 * SECOND, "one")
    assert story.causes()[-1] == ("crash_loop", ("one@10.0.0.1",))


def test_a_member_of_a_failed_host_of_which_records_do_not_tell_how_it_was_gone_was_back_with_the_others() -> None:
    story = Story(session_ms=10 * SECOND)
    for number, client in enumerate(("one", "two", "three")):
        group = f"group {number}"
        story.joins(0, client, group=group, host="10.0.0.7").joins(300, f"{client}-b", group=group, host="10.0.0.8")
    story.expires(HOUR, "one", group="group 0").expires(HOUR + 100, "two", group="group 1")
    story.leaves(HOUR, "three", group="group 2", reason=UNSEEN)
    for number, client in enumerate(("one", "two", "three")):
        story.joins(HOUR + 5 * SECOND, client, group=f"group {number}", host="10.0.0.7")
    assert from_records(story)[-1].groups == ("group 0", "group 1", "group 2")


def test_members_that_commit_rarely_may_have_fallen_silent_with_one_that_commits_often() -> None:
    story = Story(session_ms=6 * SECOND)
    for client in ("one", "two"):
        story.joins(0, client, group=client, host="10.0.0.7").joins(300, f"{client}-b", group=client, host="10.0.0.8")
    story.expires(HOUR, "one", group="one", committed=Committed(HOUR - 6 * SECOND, 4 * SECOND))
    story.expires(HOUR + 7 * SECOND, "two", group="two", committed=Committed(HOUR + SECOND, SECOND))
    for client in ("one", "two"):
        story.joins(HOUR + 12 * SECOND, client, group=client, host="10.0.0.7")
    assert from_records(story)[-1].groups == ("one", "two")


def test_members_of_the_new_protocol_that_expire_a_session_after_a_load_found_no_answer_to_their_heartbeats() -> None:
    members = [Member(f"{name}{'x' * 21}", None, name, f"10.0.0.{number}") for number, name in enumerate("ab", 1)]
    facts = [
        Fact(number * SECOND, "billing", Kind.JOINED, f"event {number}", each) for number, each in enumerate(members, 1)
    ]
    facts.append(Fact(10 * MINUTE, "billing", Kind.LOADED, "event 3"))
    expired_ms = 10 * MINUTE + SESSION_MS + 3
    for number, each in enumerate(members, 4):
        # Its process had sent other requests since.
        seen = activity(connection=each.member_id, last_request_ms=expired_ms - SECOND, last_api="Metadata")
        facts.append(Fact(expired_ms, "billing", Kind.EXPIRED, f"event {number}", each, activity=seen))
    profiles = {each.member_id: Profile(each, SESSION_MS, REBALANCE_MS, ()) for each in members}
    *_, incident = explain(Known(tuple(facts), profiles, ("events",)))
    assert (str(incident.cause), incident.clients) == ("broker_restarted", ("a@10.0.0.1", "b@10.0.0.2"))


def test_a_member_of_a_group_of_which_no_rebalance_is_known_is_no_other_application() -> None:
    story = Story()
    for number, client in enumerate(("one", "two", "three"), 1):
        story.joins(0, client, host=f"10.0.0.{number}", topics=(), completes=False)
    assert causes_of(story.expires(HOUR, "two", completes=False)) == ["one_by_one_start", "killed"]


def test_a_group_that_goes_over_to_the_other_protocol_is_disturbed_by_that() -> None:
    story = a_group_of_three()
    story.converts(HOUR, "group_upgraded").joins(HOUR, "four", host="10.0.0.4")
    incident = next(each for each in story.incidents() if str(each.cause) == "protocol_changed")
    assert (incident.groups, incident.clients, incident.from_ms) == (("billing",), (), HOUR)
    assert incident.confidence > 0.9
    assert "scale_up" in causes_of(story)


def test_members_of_a_host_of_which_none_is_back_were_lost_with_it_rather_than_cut_off() -> None:
    story = two_groups_on_a_host(session_ms=SESSION_MS)
    for group in ("billing", "orders"):
        silent = activity(connection=group, last_request_ms=HOUR - SESSION_MS)
        story.expires(HOUR, f"{group}-a", group=group, activity=silent)
    (incident,) = [each for each in story.incidents(until_ms=HOUR + 10 * MINUTE) if len(each.groups) == 2]
    assert (str(incident.cause), incident.host) == ("host_stalled", "10.0.0.7")


def test_a_host_was_lost_of_whose_three_members_nobody_is_back_also_where_no_connections_tell() -> None:
    story = Story()
    for number, client in enumerate(("one", "two")):
        for group in ("billing", "orders"):
            story.joins(number * 300, f"{group}-{client}", group=group, host=f"10.0.0.{number + 7}")
    story.joins(600, "billing-three", host="10.0.0.7")
    for client, group in (("billing-one", "billing"), ("billing-three", "billing"), ("orders-one", "orders")):
        story.expires(HOUR, client, group=group)
    lost = story.incidents(until_ms=HOUR + 10 * MINUTE)[-1]
    assert (str(lost.cause), lost.host, len(lost.clients)) == ("host_stalled", "10.0.0.7", 3)


def test_an_assignment_that_takes_seconds_is_slow_also_where_sessions_are_long() -> None:
    story = a_group_of_three()
    story.completes(HOUR, join_ms=100, sync_ms=15 * SECOND)
    assert story.causes()[-1][0] == "slow_leader"


def test_a_group_that_starts_waits_for_nobody_while_its_first_members_join() -> None:
    story = Story().joins(0, "one", completes=False).joins(3 * SECOND, "two", host="10.0.0.2", completes=False)
    story.completes(7 * SECOND, join_ms=7 * SECOND - 20)
    assert [cause for cause, _ in story.causes()] == ["one_by_one_start"]


def test_a_client_with_a_short_rebalance_timeout_that_comes_and_goes_every_quarter_of_a_minute_flaps() -> None:
    story = Story(session_ms=10 * SECOND, rebalance_ms=10 * SECOND)
    for number, client in enumerate(("one", "two", "three")):
        story.joins(number * 300, client)
    for again in range(4):
        at_ms = HOUR + again * 15 * SECOND
        story.leaves(at_ms, "one").joins(at_ms + 3 * SECOND, "one")
    assert causes_of(story) == ["one_by_one_start", "flapping"]


def test_a_process_that_is_closed_again_within_seconds_of_its_start_is_flapping_after_two_times() -> None:
    for life_ms, expected in ((15 * SECOND, ["flapping"]), (5 * MINUTE, ["restart", "restart"])):
        story = a_group_of_three()
        story.leaves(HOUR, "one").joins(HOUR + 6 * SECOND, "one")
        story.leaves(HOUR + 6 * SECOND + life_ms, "one").joins(HOUR + 12 * SECOND + life_ms, "one")
        assert causes_of(story)[1:] == expected


def test_a_process_that_crashes_as_soon_as_its_predecessors_session_lets_it_in_is_in_a_crash_loop() -> None:
    story = a_group_of_three()
    for at_ms, back_ms in ((HOUR, HOUR + 20 * SECOND), (HOUR + 50 * SECOND, HOUR + 62 * SECOND)):
        story.joins(back_ms, "one", completes=False)
        closed = activity(last_request_ms=at_ms, closed_ms=at_ms + SECOND, closed_by="client")
        story.expires(at_ms + SESSION_MS, "one", activity=closed, completes=False)
        story.completes(at_ms + SESSION_MS + 100)
    assert causes_of(story) == ["one_by_one_start", "crash_loop"]


def test_a_member_that_adds_a_topic_which_the_group_had_long_before_changed_its_subscription() -> None:
    added = Subscription(("orders", "orders-eu"), added=("orders-eu",))
    removed = Subscription(("orders",), removed=("orders-eu",))
    story = (
        a_group_of_three()
        .requests(HOUR, "one", subscription=added)
        .requests(HOUR + MINUTE, "one", subscription=removed)
    )
    story.requests(2 * HOUR, "one", subscription=added)
    assert causes_of(story)[-1] == "subscription_changed"


def test_a_client_that_subscribes_to_something_else_again_minutes_later_has_changed_it_twice() -> None:
    for pause_s, count in ((30, 1), (240, 2)):
        story = a_group_of_three()
        for at_ms, new, old in ((HOUR, "a", "orders"), (HOUR + pause_s * SECOND, "b", "a")):
            changed = Subscription((new,), added=(new,), removed=(old,))
            story.requests(at_ms, "one", reason="metadata_changed", subscription=changed)
        assert causes_of(story)[1:] == ["subscription_changed"] * count


def test_one_process_that_falls_silent_in_all_its_groups_stood_still_and_is_no_cut_network() -> None:
    for names, cause in ((("worker", "worker"), "paused"), (("worker-a", "worker-b"), "host_stalled")):
        story = Story()
        for name, group in zip(names, ("billing", "orders"), strict=True):
            story.joins(0, name, group=group, host="10.0.0.7", connection=group)
            story.joins(300, f"{group}-b", group=group, host="10.0.0.8")
        for name, group in zip(names, ("billing", "orders"), strict=True):
            silent = activity(last_request_ms=HOUR + SECOND, connection=group)
            story.expires(HOUR + SESSION_MS, name, group=group, activity=silent)
            story.joins(HOUR + 2 * MINUTE, name, group=group, host="10.0.0.7", connection=group, opened_ms=0)
        assert {each for each in causes_of(story) if each != "one_by_one_start"} == {cause}


def test_a_pod_that_is_replaced_by_one_on_another_node_was_restarted() -> None:
    story = Story()
    for number, pod in enumerate(("api-7d9fbc6-x2z9q", "api-7d9fbc6-nwhgc", "api-7d9fbc6-b4kdv")):
        story.joins(number * 300, pod, host=f"10.0.0.{number}")
    story.leaves(HOUR, "api-7d9fbc6-x2z9q").joins(HOUR + 10 * SECOND, "api-7d9fbc6-q8rtz", host="10.0.0.9")
    assert causes_of(story) == ["one_by_one_start", "restart"]


def test_a_numbered_process_on_another_host_is_one_more() -> None:
    story = Story()
    for number in range(3):
        story.joins(number * 300, f"api-{number}", host=f"10.0.0.{number}")
    story.leaves(HOUR, "api-1").joins(HOUR + 10 * SECOND, "api-7", host="10.0.0.9")
    assert sorted(causes_of(story)) == ["one_by_one_start", "scale_down", "scale_up"]


def test_a_process_that_crashes_while_it_waits_for_a_rebalance_has_a_successor_before_its_session_begins() -> None:
    story = a_group_of_three()

    def crashes(at_ms: int, last_ms: int, expires_ms: int) -> None:
        closed = activity(last_request_ms=last_ms, closed_ms=at_ms, closed_by="client")
        story.expires(expires_ms, "one", activity=closed, completes=False).completes(expires_ms + 100)

    story.joins(HOUR + 5 * SECOND, "one", completes=False)
    crashes(HOUR, HOUR, HOUR + SESSION_MS)
    story.joins(HOUR + SESSION_MS + 5 * SECOND, "one", completes=False)  # it crashes 5 s later, and another one comes
    story.joins(HOUR + SESSION_MS + 15 * SECOND, "one", completes=False)
    crashes(HOUR + SESSION_MS + SECOND, HOUR + SESSION_MS + SECOND, HOUR + 2 * SESSION_MS + SECOND)
    crashes(HOUR + SESSION_MS + 10 * SECOND, HOUR + SESSION_MS + 5 * SECOND, HOUR + 3 * SESSION_MS + 2 * SECOND)
    assert causes_of(story) == ["one_by_one_start", "crash_loop"]


def test_a_process_that_lives_a_little_longer_in_the_end_is_in_its_crash_loop_still() -> None:
    story = a_group_of_three()
    began_ms = 0
    for life_ms in (HOUR, 3 * SECOND, 3 * SECOND, 15 * SECOND):
        ended_ms = began_ms + life_ms
        dead = activity(last_request_ms=ended_ms, closed_ms=ended_ms, closed_by="client")
        story.expires(ended_ms + SESSION_MS, "one", activity=dead).joins(ended_ms + SESSION_MS + 4 * SECOND, "one")
        began_ms = ended_ms + SESSION_MS + 4 * SECOND
    (loop,) = story.incidents()[1:]
    assert (str(loop.cause), len(loop.disturbances)) == ("crash_loop", 4)


def test_records_alone_show_a_member_that_no_longer_subscribes_to_a_topic() -> None:
    removed = Subscription(("orders",), removed=("orders-eu",))
    story = a_group_of_three().requests(HOUR, "one", reason="metadata_changed", subscription=removed)
    assert [str(each.cause) for each in from_records(story)] == ["one_by_one_start", "subscription_changed"]


def test_records_alone_show_a_member_that_adds_a_topic_which_the_others_do_not_add() -> None:
    added = Subscription(("orders", "orders-eu"), added=("orders-eu",))
    story = a_group_of_three().requests(HOUR, "one", reason="metadata_changed", subscription=added)
    story.leaves(2 * HOUR, "three")
    assert [str(each.cause) for each in from_records(story)][:2] == ["one_by_one_start", "subscription_changed"]


def test_records_alone_show_that_a_rebalance_was_asked_for_if_nothing_has_changed_with_it() -> None:
    story = a_group_of_three().requests(HOUR, "one", reason=NOTHING_CHANGED)
    assert [str(each.cause) for each in from_records(story)] == ["one_by_one_start", "rebalance_enforced"]


def test_records_alone_show_that_the_leader_was_slow() -> None:
    story = a_group_of_three().joins(HOUR, "four", host="10.0.0.4", completes=False)
    story.completes(HOUR + 40 * SECOND, sync_ms=38 * SECOND)
    assert [str(each.cause) for each in from_records(story)] == ["one_by_one_start", "scale_up", "slow_leader"]


def test_members_with_one_name_are_counted_each() -> None:
    story = Story()
    for number in range(3):
        story.joins(number * 2 * SECOND, "rdkafka")
    (started,) = story.incidents()
    assert sentence(started) == "billing started, with 3 members one after the other."


def test_a_process_that_is_a_member_of_several_groups_is_counted_once() -> None:
    story = a_group_of_three().joins(0, "one", group="orders").joins(300, "two", group="orders")
    for group in ("billing", "orders"):
        story.joins(HOUR, "four", group=group, host="10.0.0.4")
    assert sentence(story.incidents()[-1]).startswith("1 member was added")


def test_what_neither_came_nor_went_has_a_sentence() -> None:
    story = a_group_of_three().completes(HOUR + 40 * SECOND, waited_for="two", wait_ms=40 * SECOND)
    assert sentence(story.incidents()[-1]).startswith("two@10.0.0.2 did not call poll() in time")


def test_what_an_application_with_the_same_group_id_does_is_one_incident_each_time_it_comes() -> None:
    story = a_group_of_three()
    for begin_ms in (HOUR, 3 * HOUR):
        for number in range(2):
            story.joins(begin_ms + number * 100, "reports", host="10.0.0.9", topics=("reports",), completes=False)
        for number in range(2):
            story.leaves(begin_ms + 30 * SECOND + number, "reports", completes=False)
        story.completes(begin_ms + 35 * SECOND)
    assert causes_of(story) == ["one_by_one_start", "shared_group_id", "shared_group_id"]


def test_members_that_end_while_an_application_with_the_same_group_id_is_there_end_because_of_it() -> None:
    story = a_group_of_three()
    for number in range(2):
        story.joins(HOUR + number * 100, "reports", host="10.0.0.9", topics=("reports",), completes=False)
    for number, client in enumerate(("one", "two")):
        ended_ms = HOUR + (3 + number) * SECOND
        story.joins(ended_ms + 5 * SECOND, client, host=f"10.0.0.{number + 1}", connection=client * 2, completes=False)
    for number, client in enumerate(("one", "two")):
        ended_ms = HOUR + (3 + number) * SECOND
        seen = activity(connection=client, last_request_ms=ended_ms - 100, closed_ms=ended_ms, closed_by="reset")
        story.expires(ended_ms + SESSION_MS, client, activity=seen, completes=False)
    for number in range(2):
        story.leaves(HOUR + 55 * SECOND + number, "reports", completes=False)
    story.completes(HOUR + 60 * SECOND)
    assert causes_of(story) == ["one_by_one_start", "shared_group_id"]


def test_an_application_with_the_same_group_id_is_the_same_after_a_restart_of_the_broker() -> None:
    story = a_group_of_three()
    reports: dict[str, Any] = {"host": "10.0.0.9", "topics": ("reports",), "completes": False}
    for number in range(2):
        story.joins(HOUR + number, "reports", connection=f"r{number}", **reports)
    story.loads(HOUR + 8 * SECOND)
    story._members["billing", "reports"].clear()  # the broker knows nothing of them any more
    for number in range(2):
        story.joins(HOUR + 12 * SECOND + number, "reports", connection=f"again{number}", **reports)
    story.completes(HOUR + 15 * SECOND)
    for number in range(2):
        story.leaves(HOUR + 23 * SECOND + number, "reports", completes=False)
    story.completes(HOUR + 25 * SECOND)
    assert causes_of(story) == ["one_by_one_start", "shared_group_id", "broker_restarted"]


def test_a_client_that_twice_comes_alone_for_seconds_under_a_name_of_its_own_comes_and_goes() -> None:
    story = a_group_of_three()
    for number in range(2):
        begin_ms = HOUR + number * 7 * SECOND
        client = f"search-{number + 4:04x}"
        story.joins(begin_ms, client, host="10.0.0.1", completes=False).completes(begin_ms + 3 * SECOND)
        story.leaves(begin_ms + 4 * SECOND, client, completes=False).completes(begin_ms + 6 * SECOND)
    assert story.causes()[1:] == [("flapping", ("search-0004@10.0.0.1", "search-0005@10.0.0.1"))]


def test_a_process_that_was_killed_before_another_of_its_name_came_and_went_is_no_part_of_that() -> None:
    story = a_group_of_three()
    silent_ms = HOUR - SESSION_MS
    seen = activity(connection="one", last_request_ms=silent_ms, closed_ms=silent_ms + 50, closed_by="client")
    story.expires(HOUR, "one", activity=seen)
    for number in range(4):
        begin_ms = HOUR + (8 + 6 * number) * SECOND
        story.joins(begin_ms, "one", connection=f"one-{number}").leaves(begin_ms + 3 * SECOND, "one", completes=False)
    assert causes_of(story) == ["one_by_one_start", "killed", "flapping"]


def test_a_process_that_had_just_joined_is_no_old_one_that_a_deploy_left_alone() -> None:
    story = Story(session_ms=SESSION_MS)
    for number, client in enumerate(("search-0009", "search-000b")):
        story.joins(number * 300, client, connection=client)
    names = iter(("search-000d", "search-000f", "search-0011"))
    story.joins(HOUR, next(names))
    for number, client in enumerate(("search-0009", "search-000b")):
        story.leaves(HOUR + (3 + 5 * number) * SECOND, client, completes=False)
        story.joins(HOUR + (6 + 5 * number) * SECOND, next(names))
    assert "deploy" in causes_of(story)


def test_a_client_that_left_soon_after_its_start_twice_in_minutes_does_not_come_and_go() -> None:
    for pause_s, cause in ((20, "flapping"), (180, "restart")):
        story = a_group_of_three()
        for number in range(2):
            left_ms = HOUR + number * pause_s * SECOND
            story.leaves(left_ms, "one", completes=False).completes(left_ms + SECOND)
            story.joins(left_ms + (pause_s - 5) * SECOND, "one", connection=f"one-{number}")
        assert causes_of(story)[1] == cause
