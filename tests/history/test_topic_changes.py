"""What events say of topics that were created, deleted or given partitions before a rebalance."""

from __future__ import annotations

from typing import Any

from kshim.history.topic_changes import KEPT_COUNT, KEPT_MS, TOLD_COUNT, TopicChanges
from kshim.partitions.topics import NewTopic
from tests.broker.harness import START_WALL_MS, NodeUnderTest, a_node
from tests.history.members import Member
from tests.history.page import problems


def changes_of_last(node: NodeUnderTest) -> list[tuple[str, int, int, int]]:
    """What the last event that begins a rebalance says: topic, partitions before and since, ms since the node was started."""
    event = next(event for event in reversed(list(node.cluster.history.ring)) if event.type == "rebalance_started")
    document: dict[str, Any] = event.document()
    assert problems(document) == []
    return [
        (each["topic"], each["partitions_before"], each["partitions"], each["changed_ms"] - START_WALL_MS)
        for each in document["topic_changes"]
    ]


def test_a_rebalance_of_a_group_whose_topic_got_partitions_says_so() -> None:
    node = a_node()
    orders = node.topic("orders", 6)
    member = Member(node, "billing", "orders").work()
    node.pass_ms(2_000)
    node.cluster.topics.grow(orders, 12)
    node.pass_ms(3_000)
    member.work()
    assert changes_of_last(node) == [("orders", 6, 12, 2_000)]


def test_a_topic_that_a_member_has_added_to_its_subscription_was_created_just_before() -> None:
    node = a_node()
    node.topic("orders.a")
    member = Member(node, "billing", "orders.a").work()
    node.topic("orders.b", 3)
    node.topic("other")
    member.topics = ("orders.a", "orders.b")
    member.work()
    assert changes_of_last(node) == [("orders.b", 0, 3, 0)]


def test_a_topic_that_a_group_read_was_deleted() -> None:
    node = a_node()
    orders = node.topic("orders", 6)
    member = Member(node, "billing", "orders").work()
    node.cluster.delete_topic(orders, node.now)
    member.work()
    assert changes_of_last(node) == [("orders", 6, 0, 0)]


def test_what_was_done_to_topics_that_a_group_does_not_read_is_none_of_its_business() -> None:
    node = a_node()
    member = Member(node, "billing", "orders").work()
    node.cluster.topics.create_all([NewTopic("other", 1, {})])
    member.work()
    assert changes_of_last(node) == []


def test_only_the_event_that_begins_a_rebalance_tells_of_topics() -> None:
    node = a_node()
    Member(node, "billing", "orders").work().leave()
    told = {event.type: event.document()["topic_changes"] for event in node.cluster.history.ring}
    assert told.pop("rebalance_started") == []
    assert set(told.values()) == {None}


def test_after_ten_minutes_a_change_is_forgotten() -> None:
    node = a_node()
    known = TopicChanges()
    known.add("orders", 0, 1, node.now)
    assert len(known.until(node.now, lambda _: True)) == 1
    node.pass_ms(KEPT_MS)
    assert len(known.until(node.now, lambda _: True)) == 1
    node.pass_ms(1)
    assert known.until(node.now, lambda _: True) == ()
    assert len(known) == 0


def test_of_very_many_changes_the_newest_are_kept_and_told() -> None:
    known, now = TopicChanges(), a_node().now
    for number in range(KEPT_COUNT + 5):
        known.add(f"t{number}", 0, 1, now)
    assert len(known) == KEPT_COUNT
    told = known.until(now, lambda _: True)
    assert (len(told), told[-1].topic) == (TOLD_COUNT, f"t{KEPT_COUNT + 4}")
