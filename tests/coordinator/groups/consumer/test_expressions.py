"""Subscriptions by regular expressions: when topics are looked up, and what they change. Epochs, records and waits are
those of a live 4.4."""

from __future__ import annotations

from typing import Any

import pytest

from kshim.coordinator.groups.consumer.updates import (
    ExpressionTopics,
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    Resolved,
    Update,
)
from kshim.coordinator.groups.events import Cause, Transition
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.coordinator.groups.consumer.test_heartbeat import INTERVAL_MS, World
from tests.coordinator.harness import Call, topic_id
from tests.coordinator.peers import Peer

MIN_INTERVAL_MS = 10_000
REFRESH_MS = 600_000


class Expressions(World):
    """Look-ups are answered when a test says so."""

    def subscribe(self, member_id: str, expression: str, **fields: Any) -> Call[ConsumerGroupHeartbeatResponse]:
        return self.join(member_id, subscribed_topic_regex=expression, **{"names": None, **fields})

    def resolve(self, **found: set[str]) -> None:
        """Answer the one look-up there is; "any" stands for the expression ".*"."""
        (lookup,) = self.lookups
        self.lookups.clear()
        topics = {".*" if name == "any" else name: frozenset(names) for name, names in found.items()}
        assert topics.keys() == lookup.expressions
        self.apply(self.coordinator.expressions_resolved(lookup, topics))

    def asked(self) -> list[frozenset[str]]:
        return [lookup.expressions for lookup in self.lookups]

    def kinds(self, batch: int) -> list[type[Update]]:
        return [type(update) for update in self.updates()[batch]]

    def stable(self, member_id: str = "a", epoch: int = 2) -> None:
        """A group of one member that has all topics."""
        self.subscribe(member_id, ".*")
        self.resolve(any={"t", "u"})
        assert self.told(self.heartbeat(member_id, epoch - 1)) == (epoch, {"t": [0, 1, 2], "u": [0, 1, 2, 3]})


def test_a_new_expression_stands_for_nothing_until_it_was_looked_up() -> None:
    sim = Expressions()
    assert sim.told(sim.subscribe("a", ".*")) == (1, {})
    assert sim.asked() == [frozenset({".*"})]
    assert sim.state()[1] == 1
    assert sim.kinds(0) == [MemberMetadata, MemberCurrent]


def test_its_topics_raise_the_epoch_and_come_with_the_next_heartbeat() -> None:
    sim = Expressions()
    sim.stable()
    record, epoch = sim.updates()[1]
    assert record == ExpressionTopics(".*", Resolved(frozenset({"t", "u"}), sim.topics.version, sim.wall_ms))
    assert isinstance(epoch, GroupEpoch)
    assert epoch.value is not None
    assert (epoch.value.epoch, epoch.value.metadata_hash == 0) == (2, False)
    (raised,) = (
        event for event in sim.events if isinstance(event, Transition) and event.cause is Cause.EXPRESSION_RESOLVED
    )
    assert str(raised.new) == "Assigning"


def test_names_and_expressions_add_up() -> None:
    sim = Expressions()
    sim.join("a", "t", subscribed_topic_regex="u")
    sim.resolve(u={"u"})
    sim.pass_ms(INTERVAL_MS)
    assert sim.told(sim.heartbeat("a", 2)) == (3, {"t": [0, 1, 2], "u": [0, 1, 2, 3]})


def test_a_member_with_an_expression_that_is_resolved_raises_the_epoch_at_once() -> None:
    sim = Expressions()
    sim.stable()
    sim.subscribe("b", ".*")
    assert sim.state()[1] == 3
    assert sim.asked() == []


def test_a_member_with_an_expression_that_is_known_has_nothing_looked_up() -> None:
    sim = Expressions()
    sim.stable()
    sim.pass_ms(MIN_INTERVAL_MS + 1)
    sim.subscribe("b", ".*")
    assert sim.asked() == []


def test_a_full_request_with_an_expression_is_answered_with_the_assignment() -> None:
    sim = Expressions()
    sim.stable()
    owned = {"t": [0, 1, 2], "u": [0, 1, 2, 3]}
    full = sim.heartbeat("a", 2, subscribed_topic_regex=".*", owned=owned, timeout_ms=60_000)
    assert sim.told(full) == (2, owned)
    assert sim.told(sim.heartbeat("a", 2, subscribed_topic_regex=".*", owned=owned)) == (2, None)


def test_another_expression_waits_until_ten_seconds_after_the_last_look_up() -> None:
    sim = Expressions()
    sim.stable()
    sim.subscribe("b", "t")
    sim.pass_ms(MIN_INTERVAL_MS)
    sim.heartbeat("a", 2)
    assert sim.asked() == []
    sim.pass_ms(1)
    sim.heartbeat("a", 2)
    assert sim.asked() == [frozenset({".*", "t"})]


def test_a_group_that_waits_for_an_answer_asks_no_second_time() -> None:
    sim = Expressions()
    sim.subscribe("a", ".*")
    sim.subscribe("b", "t")
    sim.heartbeat("a", 1)
    assert sim.asked() == [frozenset({".*"})]


def test_a_topic_that_is_made_is_found() -> None:
    sim = Expressions()
    sim.stable()
    sim.topics.topics["v"] = (1, 0)
    sim.pass_ms(MIN_INTERVAL_MS + 1)
    sim.heartbeat("a", 2)
    sim.resolve(any={"t", "u", "v"})
    assert sim.told(sim.heartbeat("a", 2)) == (3, {"t": [0, 1, 2], "u": [0, 1, 2, 3], "v": [0]})


def test_a_topic_that_is_made_and_does_not_match_changes_nothing() -> None:
    sim = Expressions()
    sim.stable()
    sim.topics.topics["v"] = (1, 0)
    sim.pass_ms(MIN_INTERVAL_MS + 1)
    sim.heartbeat("a", 2)
    sim.resolve(any={"t", "u"})
    assert sim.state() == ("Stable", 2, 2)
    sim.pass_ms(MIN_INTERVAL_MS + 1)
    sim.heartbeat("a", 2)
    assert sim.asked() == []


def test_rights_may_have_changed_after_the_interval_of_refreshes() -> None:
    sim = Expressions(group_consumer_session_timeout_ms=10**9)
    sim.stable()
    sim.pass_ms(REFRESH_MS)
    sim.heartbeat("a", 2)
    assert sim.asked() == []
    sim.pass_ms(1)
    sim.heartbeat("a", 2)
    sim.resolve(any={"t"})
    assert sim.told(sim.heartbeat("a", 2)) == (2, {"t": [0, 1, 2]})


def test_without_an_expression_nobody_asks() -> None:
    sim = Expressions()
    sim.join("a", "t", subscribed_topic_regex="")
    sim.pass_ms(MIN_INTERVAL_MS + 1)
    sim.heartbeat("a", 2)
    assert sim.asked() == []


def test_what_an_expression_stood_for_goes_with_the_last_member_that_drops_it() -> None:
    sim = Expressions()
    sim.stable()
    sim.pass_ms(INTERVAL_MS)
    told = sim.told(sim.heartbeat("a", 2, names=("t",), subscribed_topic_regex=""))
    assert sim.kinds(-1)[:3] == [MemberMetadata, ExpressionTopics, GroupEpoch]
    assert told == (2, {"t": [0, 1, 2]})
    assert not sim.shard().groups["g"].is_subscribed_to("u")


def test_an_expression_that_another_member_has_stays() -> None:
    sim = Expressions()
    sim.stable()
    sim.subscribe("b", ".*")
    sim.heartbeat("a", -1)
    assert sim.kinds(-1) == [MemberCurrent, MemberTarget, MemberMetadata, GroupEpoch]
    assert sim.shard().groups["g"].is_subscribed_to("u")


def test_the_last_member_takes_its_expression_with_it() -> None:
    sim = Expressions()
    sim.stable()
    sim.heartbeat("a", -1)
    assert sim.kinds(-1)[:5] == [MemberCurrent, MemberTarget, MemberMetadata, ExpressionTopics, GroupEpoch]
    assert not sim.shard().groups["g"].is_subscribed_to("t")


def test_a_result_for_an_expression_that_is_gone_by_now_does_not_count() -> None:
    sim = Expressions()
    sim.subscribe("a", ".*")
    sim.heartbeat("a", 1, names=("t",), subscribed_topic_regex="")
    written = len(sim.updates())
    sim.resolve(any={"t", "u"})
    assert len(sim.updates()) == written


def test_a_result_for_a_group_that_is_gone_does_not_count() -> None:
    sim = Expressions()
    sim.subscribe("a", ".*")
    (lookup,) = sim.lookups
    sim.coordinator = Expressions().coordinator
    sim.apply(sim.coordinator.expressions_resolved(lookup, {".*": frozenset({"t"})}))
    assert len(sim.updates()) == 1


def test_a_result_for_a_group_that_is_classic_by_now_does_not_count() -> None:
    sim = Expressions()
    sim.subscribe("a", ".*")
    sim.heartbeat("a", -1)
    classic = Peer(sim, "c")
    classic.take(classic.join())
    written = len(sim.updates())
    sim.resolve(any={"t", "u"})
    assert (len(sim.updates()), list(sim.group.members)) == (written, [classic.member_id])


def test_a_result_that_cannot_be_written_is_asked_for_again() -> None:
    sim = Expressions()
    sim.subscribe("a", ".*")
    sim.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    sim.resolve(any={"t"})
    assert sim.told(sim.heartbeat("a", 1)) == (1, None)
    sim.resolve(any={"t"})
    assert sim.told(sim.heartbeat("a", 1)) == (2, {"t": [0, 1, 2]})


def test_after_a_restart_the_group_knows_its_topics_and_looks_once_whether_there_are_others() -> None:
    sim = Expressions()
    sim.stable()
    sim.restart()
    assert sim.told(sim.heartbeat("a", 2)) == (2, None)
    assert sim.asked() == []
    sim.pass_ms(MIN_INTERVAL_MS + 1)
    sim.heartbeat("a", 2)
    sim.resolve(any={"t", "u"})
    assert sim.state() == ("Stable", 2, 2)


def test_what_is_no_expression_is_refused_and_changes_nothing() -> None:
    sim = Expressions()

    def refuse(expression: str) -> None:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"not {expression}")

    sim.coordinator._require_expression = refuse
    call = sim.subscribe("a", "(")
    assert (call.error, call.reply.error_message) == (ErrorCode.INVALID_REGULAR_EXPRESSION, "not (")
    assert sim.updates() == []


@pytest.mark.parametrize("topics", [{"t"}, {"t", "u"}])
def test_a_topic_that_is_deleted_and_made_again_raises_the_epoch(topics: set[str]) -> None:
    sim = Expressions()
    sim.subscribe("a", ".*")
    sim.resolve(any=topics)
    sim.heartbeat("a", 1)
    sim.topics.topics["t"] = (3, 1)
    sim.pass_ms(INTERVAL_MS)
    sim.heartbeat("a", 2)
    assert sim.state()[1] == 3
    assert sim.topics.topic_id("t") == topic_id("t", 1)
