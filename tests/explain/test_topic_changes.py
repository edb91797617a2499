"""What the broker knows of topics tells why members joined again, where they give no reason themselves."""

from __future__ import annotations

from kshim.explain.facts import Subscription, TopicChange
from tests.explain.story import Story, a_group_of_three

SECOND, HOUR = 1_000, 3_600_000

GREW = TopicChange("orders", 6, 12, HOUR - 4 * SECOND)
CREATED = TopicChange("orders.eu", 0, 3, HOUR - 4 * SECOND)
DELETED = TopicChange("orders.us", 3, 0, HOUR - 4 * SECOND)


def the_last(story: Story) -> tuple[str, list[str]]:
    """Its cause and the texts of its evidence."""
    incident = story.incidents()[-1]
    return str(incident.cause), [each.text for each in incident.evidence]


def test_a_leader_that_joined_again_without_a_word_had_seen_more_partitions() -> None:
    cause, evidence = the_last(a_group_of_three().requests(HOUR, "one", topic_changes=(GREW,)))
    assert cause == "partitions_added"
    assert "orders had 6 partitions and got 12" in evidence


def test_a_leader_that_joined_again_without_a_word_and_without_news_was_told_to_by_its_application() -> None:
    cause, evidence = the_last(a_group_of_three().requests(HOUR, "one", topic_changes=()))
    assert cause == "rebalance_enforced"
    assert any("ten minutes" in text for text in evidence)


def test_more_partitions_explain_one_rebalance_and_not_the_next() -> None:
    story = a_group_of_three().requests(HOUR, "one", topic_changes=(GREW,))
    story.requests(HOUR + 60 * SECOND, "one", says="rebalance enforced by user", topic_changes=(GREW,))
    assert [str(each.cause) for each in story.incidents()][-2:] == ["partitions_added", "rebalance_enforced"]


def test_a_member_that_added_a_topic_that_was_just_created_has_a_pattern() -> None:
    found = Subscription(("orders", "orders.eu"), added=("orders.eu",))
    for changes, cause in (((CREATED,), "topic_created"), ((), "subscription_changed")):
        story = a_group_of_three().requests(
            HOUR, "one", reason="metadata_changed", subscription=found, topic_changes=changes
        )
        assert the_last(story)[0] == cause


def test_a_member_that_lost_a_topic_that_was_just_deleted_has_not_changed_its_mind() -> None:
    found = Subscription(("orders",), removed=("orders.us",))
    story = a_group_of_three().requests(
        HOUR, "one", reason="metadata_changed", subscription=found, topic_changes=(DELETED,)
    )
    cause, evidence = the_last(story)
    assert cause == "partitions_added"
    assert "orders.us was deleted" in evidence


def test_more_partitions_soon_after_a_rebalance_are_no_part_of_it() -> None:
    story = a_group_of_three().joins(HOUR, "four").completes(HOUR + SECOND)
    grew = GREW._replace(changed_ms=HOUR + 2 * SECOND)
    story.requests(HOUR + 4 * SECOND, "one", topic_changes=(grew,))
    assert [str(each.cause) for each in story.incidents()][-2:] == ["scale_up", "partitions_added"]


def test_the_broker_says_which_topics_changed_in_the_new_protocol() -> None:
    story = a_group_of_three().requests(HOUR, "one", reason="topics_changed", topic_changes=(GREW,))
    assert the_last(story) == ("partitions_added", ["orders had 6 partitions and got 12"])
