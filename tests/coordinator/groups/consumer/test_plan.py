"""What one input changes in a group, and that nothing changes before it is written."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.consumer.group import ConsumerGroup, Draft
from kshim.coordinator.groups.consumer.plan import Plan, assignor_to, preferred_assignor
from kshim.coordinator.groups.consumer.state import ConsumerGroupState, MemberState
from kshim.coordinator.groups.consumer.updates import (
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    TargetEpoch,
)
from kshim_protocol.errors import ErrorCode, KafkaError
from tests.coordinator.groups.consumer.members import TRIGGER, GroupSim, facts, wants

T = (1).to_bytes(16)


def p(*indexes: int) -> frozenset[tuple[bytes, int]]:
    return frozenset((T, index) for index in indexes)


def test_the_first_member_of_a_group_gets_epoch_2_and_everything() -> None:
    sim = GroupSim(t=3)
    assert sim.join("a", wants("t")) == (2, p(0, 1, 2))
    assert sim.group.state is ConsumerGroupState.STABLE


def test_a_join_is_written_in_kafkas_order() -> None:
    sim = GroupSim(t=1)
    plan = Plan(sim.group)
    plan.put_member("a", wants("t"), TRIGGER)
    plan.compute_target(sim.topics, sim.now_ms, 1_000)
    plan.reconcile("a", (), sim.topics)
    assert [type(update) for update in plan.updates] == [
        MemberMetadata,
        GroupEpoch,
        MemberTarget,
        TargetEpoch,
        MemberCurrent,
    ]
    assert plan.trigger is TRIGGER


def test_two_members_share_after_the_next_target_as_on_a_live_kafka() -> None:
    sim = GroupSim(t=3)
    sim.join("a", wants("t"))
    assert sim.join("b", wants("t")) == (2, p())
    states = [sim.group.state]
    assert sim.heartbeat("a", 2, owned=None) == (2, p(0, 1, 2))
    sim.pass_interval()
    assert sim.heartbeat("a", 2, owned=None) == (2, p(0, 1))
    states.append(sim.group.state)
    assert sim.heartbeat("b", 2, owned=()) == (3, p())
    assert sim.heartbeat("a", 2, owned=p(0, 1)) == (3, p(0, 1))
    assert sim.heartbeat("b", 3, owned=()) == (3, p(2))
    states.append(sim.group.state)
    assert [str(state) for state in states] == ["Assigning", "Reconciling", "Stable"]


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    sim = GroupSim(t=3)
    sim.join("a", wants("t"))
    written = len(sim.log)
    sim.heartbeat("a", 2, owned=p(0, 1, 2), metadata=wants("t"))
    assert len(sim.log) == written


def test_a_longer_timeout_is_written_without_a_new_epoch() -> None:
    sim = GroupSim(t=1)
    sim.join("a", wants("t"))
    sim.heartbeat("a", 2, owned=None, metadata=wants("t", timeout_ms=9_000))
    assert sim.group.members["a"].metadata.rebalance_timeout_ms == 9_000
    assert sim.group.group_epoch == 2


def test_another_subscription_raises_the_epoch() -> None:
    sim = GroupSim(t=1, u=1)
    sim.join("a", wants("t"))
    sim.heartbeat("a", 2, owned=None, metadata=wants("u"))
    assert sim.group.group_epoch == 3


def test_an_epoch_rises_once_a_plan_and_keeps_its_first_cause() -> None:
    plan = Plan(ConsumerGroup("g"))
    plan.raise_epoch(TRIGGER)
    plan.raise_epoch(TRIGGER)
    assert plan.group.group_epoch == 2


def test_a_plan_shows_each_member_with_its_own_wish() -> None:
    sim = GroupSim(t=1, u=1)
    sim.join("a", wants("t"))
    sim.join("b", wants("t"))
    plan = Plan(sim.group)
    plan.put_member("a", wants("u"), TRIGGER)
    assert plan.member("a").metadata == wants("u")
    assert plan.member("b").metadata == wants("t")


def test_a_wish_says_what_the_member_subscribed_to_before_and_that_of_a_new_one_nothing() -> None:
    sim = GroupSim(t=1, u=1)
    sim.join("a", wants("t"))
    plan = Plan(sim.group)
    plan.put_member("a", wants("u"), TRIGGER)
    plan.put_member("b", wants("t"), TRIGGER)
    assert {member_id: wish.before for member_id, wish in plan.wishes.items()} == {"a": ("t",), "b": None}


def test_the_hash_of_a_new_epoch_counts_what_a_plan_has_shown_already() -> None:
    sim = GroupSim(t=1, u=1)
    sim.join("a", wants("t"))
    hashed: list[frozenset[str]] = []

    def hash_of_topics(names: frozenset[str]) -> int:
        hashed.append(names)
        return 0

    plan = Plan(sim.group, hash_of_topics)
    plan.add(MemberMetadata("b", wants("u")))
    assert plan.group.members.keys() == {"a", "b"}
    plan.raise_epoch(TRIGGER)
    assert hashed == [frozenset({"t", "u"})]


def test_what_is_not_written_changes_nothing() -> None:
    sim = GroupSim(t=3)
    sim.join("a", wants("t"))
    before = facts(sim.group)
    sim.fails_next = True
    with pytest.raises(KafkaError) as raised:
        sim.join("b", wants("t"))
    assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    sim.fails_next = True
    sim.remove("a")
    assert facts(sim.group) == before


def test_a_member_that_leaves_frees_its_partitions() -> None:
    sim = GroupSim(t=2)
    sim.join("a", wants("t"))
    sim.join("b", wants("t"))
    sim.remove("a")
    sim.pass_interval()
    assert sim.heartbeat("b", 2, owned=()) == (4, p(0, 1))


def test_a_group_whose_members_left_is_empty_and_its_epochs_go_on() -> None:
    sim = GroupSim(t=2)
    sim.join("a", wants("t"))
    sim.remove("a")
    assert sim.group.state is ConsumerGroupState.EMPTY
    assert (sim.group.group_epoch, sim.group.target_epoch) == (3, 3)
    assert not sim.group.holders
    assert not sim.group.targets


def test_a_static_member_comes_back_to_what_it_had_without_a_new_epoch() -> None:
    sim = GroupSim(t=2)
    sim.join("a", wants("t", instance_id="i"))
    sim.change(lambda plan: plan.leave_for_now("a", TRIGGER))
    assert sim.group.members["a"].current.epoch == -2
    assert sim.join("a2", wants("t", instance_id="i")) == (2, p(0, 1))
    assert sim.group.group_epoch == 2
    assert sim.group.static_members == {"i": "a2"}
    assert set(sim.group.holders.values()) == {"a2"}
    assert facts(sim.replayed()) == facts(sim.group)


def test_a_static_member_that_comes_back_with_another_wish_raises_the_epoch() -> None:
    sim = GroupSim(t=2, u=2)
    sim.join("a", wants("t", instance_id="i"))
    sim.change(lambda plan: plan.leave_for_now("a", TRIGGER))
    sim.join("a2", wants("u", instance_id="i"))
    assert sim.group.group_epoch == 3


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    sim = GroupSim(t=2)
    assert preferred_assignor(sim.group, "uniform") == "uniform"
    assert preferred_assignor(sim.group, "range") == "range"
    sim.join("a", wants("t", assignor="range"))
    sim.join("b", wants("t"))
    assert preferred_assignor(sim.group, "uniform") == "range"
    sim.join("c", wants("t", assignor="uniform"))
    assert preferred_assignor(sim.group, "range") == "uniform"


def test_a_member_that_asks_for_another_assignor_no_longer_counts_for_the_one_before() -> None:
    sim = GroupSim(t=2)
    for member, assignor in (("a", "uniform"), ("b", "uniform"), ("c", "range")):
        sim.join(member, wants("t", assignor=assignor))
    assert assignor_to(sim.group, "uniform", sim.group.members["a"], "range") == "range"
    assert assignor_to(sim.group, "uniform", sim.group.members["c"], "uniform") == "uniform"
    assert assignor_to(sim.group, "uniform", None, "range") == "uniform"


def test_a_topic_that_does_not_exist_brings_no_partitions() -> None:
    sim = GroupSim(t=1)
    assert sim.join("a", wants("missing")) == (2, p())
    assert sim.group.members["a"].current.state is MemberState.STABLE


def test_compaction_may_leave_what_a_member_owns_before_what_it_wants() -> None:
    sim = GroupSim(t=1)
    sim.join("a", wants("t"))
    sim.heartbeat("a", 2, owned=None, metadata=wants("t", timeout_ms=9_000))
    compacted = sim.compacted()
    assert [key[1] for key, _ in compacted] == [3, 7, 6, 8, 5]
    assert facts(sim.replayed(compacted)) == facts(sim.group)


def test_tombstones_of_a_member_that_is_not_known_change_nothing() -> None:
    group = ConsumerGroup("g")
    for update in (MemberCurrent("a", None), MemberTarget("a", None), MemberMetadata("a", None)):
        group.apply(update)
    assert facts(group) == facts(ConsumerGroup("g"))


def test_the_tombstone_of_a_current_assignment_leaves_the_member_without_partitions() -> None:
    sim = GroupSim(t=1)
    sim.join("a", wants("t"))
    sim.group.apply(MemberCurrent("a", None))
    assert sim.group.members["a"].current.epoch == -1
    assert not sim.group.holders


# Drafts


def test_a_draft_shows_its_changes_and_leaves_its_base_alone() -> None:
    base = {"a": 1, "b": 2}
    draft = Draft(base)
    draft["a"] = 10
    draft["c"] = 3
    del draft["b"]
    assert (dict(draft), len(draft), base) == ({"a": 10, "c": 3}, 2, {"a": 1, "b": 2})
    draft["b"] = 4
    del draft["c"]
    assert "c" not in draft
    assert (dict(draft), len(draft)) == ({"a": 10, "b": 4}, 2)
    with pytest.raises(KeyError):
        del draft["c"]
    del draft["a"]
    with pytest.raises(KeyError):
        draft["a"]
