"""What to change, with what is set now where that is known."""

from __future__ import annotations

from kshim.explain.effects import Effect
from kshim.explain.words import advice, sentence
from tests.explain.story import MINUTE, SECOND, Story, a_group_of_three

HOUR = 60 * MINUTE


def last_advice(story: Story) -> str:
    return advice(story.incidents()[-1]) or ""


def a_pause(story: Story) -> Story:
    story.joins(0, "one").joins(300, "two").expires(HOUR, "one")
    return story.joins(HOUR + 5 * SECOND, "one", says="encountered UNKNOWN_MEMBER_ID from HEARTBEAT response")


def test_a_pause_is_compared_with_the_session_that_is_set() -> None:
    assert "session.timeout.ms (now 12.5 s) has to exceed the pause" in last_advice(a_pause(Story(session_ms=12_500)))


def test_a_slow_poll_is_told_with_the_interval_that_is_set() -> None:
    story = a_group_of_three().leaves(HOUR, "one", says="consumer poll timeout has expired.")
    assert "max.poll.interval.ms (now 300 s) keeps the member" in last_advice(story.joins(HOUR + SECOND, "one"))


def test_of_members_with_several_timeouts_none_is_told() -> None:
    sessions = {"one": 10_000, "two": 20_000, "three": 30_000}
    story = Story()
    for number, (client, session_ms) in enumerate(sessions.items()):
        story.joins(300 * number, client, session_ms=session_ms)
    for number, (client, session_ms) in enumerate(sessions.items()):
        at_ms = HOUR + 20 * SECOND * number
        story.leaves(at_ms, client, says="the consumer is being closed")
        story.joins(at_ms + 10 * SECOND, client, says="", session_ms=session_ms)
    assert story.causes()[-1][0] == "deploy"
    assert "within session.timeout.ms causes no rebalance" in last_advice(story)


def test_a_group_of_the_new_protocol_has_its_session_from_the_broker() -> None:
    effect = effect_of(story := a_pause(Story(session_ms=30_000)))
    incident = story.incidents()[-1]._replace(effects=(effect._replace(has_epochs=True),))
    assert "consumer.session.timeout.ms of the group (now 30 s) has to exceed" in (advice(incident) or "")
    of_events = incident._replace(effects=(effect._replace(has_epochs=True, group_type="consumer"),))
    assert "consumer.session.timeout.ms of the group (now 30 s) has to exceed" in (advice(of_events) or "")
    assumed = incident._replace(timeouts=incident.timeouts._replace(session_ms=45_000))
    assert "consumer.session.timeout.ms of the group has to exceed" in (advice(assumed) or "")


def effect_of(story: Story) -> Effect:
    return story.incidents()[-1].effects[0]


def test_what_has_nothing_to_change_has_no_advice() -> None:
    story = a_group_of_three().leaves(HOUR, "one", says="the consumer is being closed")
    assert last_advice(story) == ""


def test_a_group_that_started_with_one_member_has_nothing_to_change() -> None:
    (start,) = Story().joins(0, "one").incidents()
    assert sentence(start) == "billing started with its first member, one@10.0.0.1."
    assert advice(start) is None
