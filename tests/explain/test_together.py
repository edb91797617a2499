"""Incidents of several groups: found in each of them with what is known of the others, and put together."""

from __future__ import annotations

from kshim.explain import Incident, apart, together
from kshim.explain.facts import UNSEEN
from kshim.explain.words import sentence
from tests.explain.story import MINUTE, SECOND, SESSION_MS, Story, activity

HOUR = 60 * MINUTE
GROUPS = ("billing", "mail")


def each_group_alone(story: Story) -> list[Incident]:
    """As the pipeline does it: what is known of one group, and what happened on its members' hosts at the same time."""
    return together(incident for name in GROUPS for incident in apart(story.known(), name))


def a_service_with_two_groups(*clients: str) -> Story:
    story = Story()
    for number, client in enumerate(clients):
        for place, group in enumerate(GROUPS):
            at_ms = number * 300 + place * 20
            story.joins(at_ms, client, group=group, host=f"10.0.0.{number + 1}", connection=f"{client}-{group}")
    return story


def test_processes_that_are_replaced_in_all_their_groups_are_one_deploy() -> None:
    story = a_service_with_two_groups("one", "two", "three")
    for number, client in enumerate(("one", "two", "three")):
        at_ms = HOUR + number * MINUTE
        for place, group in enumerate(GROUPS):
            story.leaves(at_ms + place * 30, client, group=group)
            story.joins(at_ms + 10 * SECOND + place * 30, client, group=group, host=f"10.0.0.{number + 1}")
    found = [each for each in story.incidents() if each.cause.keyword == "deploy"]
    assert [each.groups for each in found] == [GROUPS]
    assert [each.culprit for each in each_group_alone(story)] == [each.culprit for each in story.incidents()]


def test_two_services_that_are_deployed_at_the_same_time_are_two_deploys() -> None:
    story = Story()
    for number, client in enumerate(("one", "two")):
        for group in GROUPS:
            story.joins(number * 300, f"{group}-{client}", group=group, host=f"10.0.0.{number + 1}")
    for number, client in enumerate(("one", "two")):
        at_ms = HOUR + number * MINUTE
        for group in GROUPS:
            story.leaves(at_ms, f"{group}-{client}", group=group)
            story.joins(at_ms + 10 * SECOND, f"{group}-{client}", group=group, host=f"10.0.0.{number + 1}")
    assert [each.groups for each in story.incidents() if each.cause.keyword == "deploy"] == [("billing",), ("mail",)]


def test_a_host_that_fails_is_one_incident_of_the_groups_with_members_on_it() -> None:
    story = Story()
    for number, host in enumerate(("10.0.0.1", "10.0.0.1", "10.0.0.2")):
        for group in GROUPS:
            client = f"{group}-{number}"
            story.joins(number * 300, client, group=group, host=host, connection=client)
    for number in range(2):
        for group in GROUPS:
            client = f"{group}-{number}"
            story.expires(
                HOUR, client, group=group, activity=activity(connection=client, last_request_ms=HOUR - SESSION_MS)
            )
            story.joins(HOUR + SECOND, client, group=group, host="10.0.0.1", connection=f"new-{client}")
    found = story.incidents()[-1]
    assert (found.cause.keyword, found.host, found.groups) == ("network_cut", "10.0.0.1", GROUPS)
    (alone,) = [each for each in each_group_alone(story) if each.host == "10.0.0.1"]
    assert (alone.cause, alone.groups, alone.clients) == (found.cause, found.groups, found.clients)
    assert [each.group for each in alone.effects] == list(GROUPS)


def test_a_loop_is_counted_once_for_a_process_that_is_in_two_groups() -> None:
    story = a_service_with_two_groups("one", "two")
    for number in range(4):
        at_ms = HOUR + number * MINUTE
        for group in GROUPS:
            story.leaves(at_ms, "one", group=group).joins(at_ms + 5 * SECOND, "one", group=group)
    (loop,) = [each for each in story.incidents() if each.cause.keyword == "flapping"]
    assert loop.groups == GROUPS
    assert "4 times" in sentence(loop)


def test_what_befell_two_groups_minutes_apart_is_two_incidents_however_long_their_timeouts_are() -> None:
    for apart_ms, count in ((5 * SECOND, 1), (4 * MINUTE, 2)):
        story = Story()
        for place, group in enumerate(GROUPS):
            start_ms = place * apart_ms
            for number in range(2):
                story.joins(start_ms + number * 300, f"app-{number}", group=group, host="10.0.0.1")
            story.loads(start_ms + MINUTE, group=group)
            for number in range(2):
                story.expires(start_ms + MINUTE + SESSION_MS, f"app-{number}", group=group)
        causes = [str(each.cause) for each in story.incidents()]
        assert sorted(causes) == ["broker_restarted"] * count + ["one_by_one_start"] * count


def test_clients_of_two_groups_with_the_id_of_their_library_are_not_the_same_process() -> None:
    for client, count in (("kgo", 2), ("rdkafka", 2), ("worker", 1)):
        story = Story()
        for number in range(2):
            for group in GROUPS[:2]:
                story.joins(number * 2 * SECOND, client, group=group, host="10.0.0.1")
        assert len([each for each in story.incidents() if each.cause.keyword == "one_by_one_start"]) == count


def test_an_instance_id_that_two_groups_have_is_used_twice_by_the_same_processes_if_at_the_same_time() -> None:
    for apart_ms, expected in ((100, [("billing", "mail")]), (MINUTE, [("billing",), ("mail",)])):
        story = Story()
        for number, group in enumerate(GROUPS):
            story.joins(number * 300, "till-1", group=group, static=True)
        for number, group in enumerate(GROUPS):
            for again in range(4):
                at_ms = HOUR + again * 5 * SECOND + number * apart_ms
                living = activity(last_request_ms=at_ms)
                story.replaces(at_ms, "till-1", group=group, host=f"10.0.0.{again}", activity=living)
        found = [each for each in story.incidents() if each.cause.keyword == "duplicate_instance"]
        assert [each.groups for each in found] == expected


def test_that_it_is_not_known_why_one_process_was_gone_is_said_once_for_all_its_groups() -> None:
    story = a_service_with_two_groups("one", "two")
    for number, group in enumerate(GROUPS):
        story.leaves(HOUR + number * SECOND, "one", group=group, reason=UNSEEN)
    (unknown,) = [each for each in story.incidents(is_observed=False) if each.cause.keyword == "unknown"]
    assert unknown.groups == GROUPS
    assert sentence(unknown).startswith("one@10.0.0.1 was no longer a member of billing and mail: it left or was lost")


def test_a_process_on_a_host_that_is_lost_falls_silent_in_all_of_its_groups() -> None:
    story = Story(session_ms=30 * SECOND)
    signs_ms = {("pod", "stock"): 500, ("pod", "stock-retry"): 4_700, ("media", "media"): 1_800, ("bill", "bill"): 300}
    for (client, group), _ in signs_ms.items():
        story.joins(0, client, group=group, host="10.0.0.7", connection=f"{client}-{group}")
        story.joins(0, f"{group}-2", group=group, host="10.0.0.8", connection=f"{group}-2")
    for (client, group), before_ms in signs_ms.items():
        seen = activity(connection=f"{client}-{group}", last_request_ms=HOUR - before_ms)
        story.expires(HOUR - before_ms + 30 * SECOND, client, group=group, activity=seen)
    lost = story.incidents(until_ms=2 * HOUR)[-1]
    assert (str(lost.cause), lost.groups) == ("host_stalled", ("bill", "media", "stock", "stock-retry"))
