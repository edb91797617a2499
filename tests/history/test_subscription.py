"""What events say of the subscription in a JoinGroup."""

from __future__ import annotations

from typing import Any

from kshim.coordinator.groups.events import Offer
from kshim.history.subscription import TOPICS_MAX, subscription_of
from tests.coordinator.peers import a_group, subscription
from tests.history.page import problems
from tests.history.told import only, told


def said(event: dict[str, Any]) -> tuple[list[str], list[str], list[str], list[str]]:
    found = event["subscription"]
    return found["topics"], found["added"], found["removed"], found["assignors"]


def test_a_new_member_says_what_it_subscribes_to_and_has_changed_nothing() -> None:
    sim = a_group().stable("a", protocols={"sticky": subscription("b", "a"), "range": subscription("b", "a")})
    event = only(told(sim), "member_joined")
    assert said(event) == (["a", "b"], [], [], ["sticky", "range"])
    assert problems(event) == []


def test_a_member_that_joins_again_says_what_it_has_added_and_removed() -> None:
    sim = a_group().stable("a", protocols={"range": subscription("orders", "mails")})
    before = len(told(sim))
    sim["a"].protocols = {"range": subscription("mails", "bills")}
    sim["a"].send_join()
    event = only(told(sim, before), "rebalance_started")
    assert said(event) == (["bills", "mails"], ["bills"], ["orders"], ["range"])


def test_a_static_member_that_replaces_another_is_compared_with_it() -> None:
    sim = a_group().stable("a", instance_id="i")
    before = len(told(sim))
    sim["a"].member_id = ""
    sim["a"].protocols = {"range": subscription("orders", "mails")}
    sim["a"].send_join()
    assert said(only(told(sim, before), "member_fenced")) == (["mails", "orders"], ["mails"], [], ["range"])


def test_a_rebalance_that_a_new_member_begins_has_the_subscription_in_the_members_event_only() -> None:
    sim = a_group().stable("a")
    assert only(told(sim), "rebalance_started")["subscription"] is None


def test_members_that_are_no_consumers_have_no_subscription() -> None:
    sim = a_group().stable("a", protocol_type="connect")
    assert only(told(sim), "member_joined")["subscription"] is None


def test_metadata_that_cannot_be_read_are_no_subscription() -> None:
    assert subscription_of(Offer({"range": b"?"})) is None


def test_of_very_many_topics_the_first_are_kept() -> None:
    names = [f"t{number:04}" for number in range(TOPICS_MAX + 7)]
    found = subscription_of(Offer({"range": subscription(*names)}, {"range": subscription()}))
    assert found is not None
    assert (len(found.topics), len(found.added), found.omitted) == (TOPICS_MAX, TOPICS_MAX, 14)


def test_who_joins_says_its_timeouts() -> None:
    sim = a_group().stable("a", session_timeout_ms=12_000, rebalance_timeout_ms=34_000)
    found = only(told(sim), "member_joined")["subscription"]
    assert (found["session_timeout_ms"], found["rebalance_timeout_ms"]) == (12_000, 34_000)
