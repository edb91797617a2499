"""Clients whose JoinGroup was refused: nothing is disturbed, and somebody does not work."""

from __future__ import annotations

from kshim.explain.facts import OTHER_TYPE, Subscription
from kshim.explain.words import advice, sentence
from tests.explain.story import a_group_of_three

SECOND, HOUR = 1_000, 3_600_000

STICKY = Subscription(("orders",), assignors=("cooperative-sticky",))


def test_a_client_with_another_assignor_could_not_join() -> None:
    story = a_group_of_three()
    for number in range(4):
        story.is_refused(HOUR + number * 10 * SECOND, "four", subscription=STICKY)
    incident = story.incidents()[-1]
    assert (str(incident.cause), incident.clients) == ("assignor_changed", ("four@10.0.0.1",))
    assert (incident.from_ms, incident.to_ms) == (HOUR, HOUR + 30 * SECOND)
    assert sentence(incident).startswith("four@10.0.0.1 could not join billing")
    assert "four@10.0.0.1 could not join with cooperative-sticky" in incident.evidence[0].text
    assert "two deployments" in (advice(incident) or "")
    assert incident.effects == ()


def test_members_that_left_and_could_not_come_back_were_given_another_assignor() -> None:
    story = a_group_of_three()
    for number, (client, host) in enumerate((("one", "10.0.0.1"), ("two", "10.0.0.2"))):
        story.leaves(HOUR + number * 5 * SECOND, client)
        story.is_refused(HOUR + (number * 5 + 1) * SECOND, client, host=host, subscription=STICKY)
    assert [str(each.cause) for each in story.incidents()][1:] == ["assignor_changed"]
    assert story.incidents()[-1].clients == ("one@10.0.0.1", "two@10.0.0.2")


def test_a_deployment_in_which_nobody_could_join_until_the_last_had_left_is_one_incident() -> None:
    story = a_group_of_three()
    for number, (client, host) in enumerate((("one", "10.0.0.1"), ("two", "10.0.0.2"), ("three", "10.0.0.3"))):
        story.leaves(HOUR + number * 5 * SECOND, client)
        if number < 2:
            story.is_refused(HOUR + (number * 5 + 2) * SECOND, client, host=host, subscription=STICKY)
    for client, host in (("one", "10.0.0.1"), ("two", "10.0.0.2"), ("three", "10.0.0.3")):
        story.joins(HOUR + 15 * SECOND, client, host=host, assignor="cooperative-sticky")
    assert [str(each.cause) for each in story.incidents()][1:] == ["assignor_changed"]


def test_a_client_of_another_kind_uses_the_group_id_as_well() -> None:
    story = a_group_of_three().is_refused(HOUR, "worker", reason=OTHER_TYPE)
    incident = story.incidents()[-1]
    assert (str(incident.cause), incident.clients) == ("shared_group_id", ("worker@10.0.0.1",))
    assert sentence(incident).startswith("Two applications use the group id billing")
