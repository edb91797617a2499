"""What makes a new epoch of a group, which topologies it takes, and what becomes of static members."""

from __future__ import annotations

from typing import Any

import pytest

from kshim.coordinator.groups.config import StreamsSettings
from kshim.coordinator.groups.streams.configured_topology import ConfiguredTopology, TopologyStatus, configure
from kshim.coordinator.groups.streams.group import StreamsGroup
from kshim.coordinator.groups.streams.plan import StreamsPlan, Validation, assignment_configs
from kshim.coordinator.groups.streams.topology import Subtopology, Topology
from kshim.coordinator.groups.streams.updates import GroupEpoch, GroupTopology
from kshim_protocol.internal.streams_group import LastAssignmentConfig, StreamsGroupMetadataValue
from kshim_protocol.messages import streams_group_heartbeat as wire
from tests.coordinator.groups.streams.world import DELAY_MS, INTERVAL_MS, SESSION_MS, World, stateful, stateless

HASH = 77
DEFAULTS = StreamsSettings()
TOPOLOGY = Topology(3, (Subtopology("0", ("t",)),))
READY = configure(TOPOLOGY, {"t": 2})
NOT_READY = ConfiguredTopology(3, None, (), TopologyStatus.MISSING_SOURCE_TOPICS)


def at_once(**settings: Any) -> World:
    """A target is computed whenever it can be."""
    return World(initial_rebalance_delay_ms=0, assignment_interval_ms=0, **settings)


def with_epoch(topology: wire.Topology, epoch: int) -> wire.Topology:
    return wire.Topology(epoch=epoch, subtopologies=topology.subtopologies)


# What makes a new epoch


def epoch_after(
    configured: ConfiguredTopology,
    *,
    validated_epoch: int,
    topics_hash: int = HASH,
    settings: StreamsSettings = DEFAULTS,
) -> StreamsGroupMetadataValue | None:
    """What a heartbeat writes that brings no news of the member; the group has epoch 8."""
    group = StreamsGroup("g")
    group.apply(GroupTopology(TOPOLOGY))
    configs = (LastAssignmentConfig(key="num.standby.replicas", value="0"),)
    before = StreamsGroupMetadataValue(
        epoch=8, metadata_hash=HASH, validated_topology_epoch=validated_epoch, last_assignment_configs=configs
    )
    group.apply(GroupEpoch(before))
    plan = StreamsPlan(group, settings)
    plan.raise_epoch_if_due(Validation(TOPOLOGY, configured, topics_hash))
    assert all(isinstance(update, GroupEpoch) for update in plan.updates)
    return plan.group.value if plan.updates else None


def test_nothing_new_makes_no_epoch() -> None:
    assert epoch_after(READY, validated_epoch=3) is None
    assert epoch_after(NOT_READY, validated_epoch=-1) is None


def test_a_topology_that_becomes_ready_or_is_so_no_longer_makes_an_epoch() -> None:
    became = epoch_after(READY, validated_epoch=-1)
    assert became is not None
    assert (became.epoch, became.metadata_hash, became.validated_topology_epoch) == (9, HASH, 3)
    was = epoch_after(NOT_READY, validated_epoch=3)
    assert was is not None
    assert (was.epoch, was.metadata_hash, was.validated_topology_epoch) == (9, HASH, -1)


@pytest.mark.parametrize("topics_hash", [HASH - 1, HASH + 1])
def test_other_topics_make_an_epoch(topics_hash: int) -> None:
    found = epoch_after(READY, validated_epoch=3, topics_hash=topics_hash)
    assert found is not None
    assert (found.epoch, found.metadata_hash) == (9, topics_hash)


def test_other_settings_make_an_epoch() -> None:
    found = epoch_after(READY, validated_epoch=3, settings=StreamsSettings(standby_replicas=1, rack_aware_tags="zone"))
    assert found is not None
    assert [(entry.key, entry.value) for entry in found.last_assignment_configs or ()] == [
        ("num.standby.replicas", "1"),
        ("rack.aware.assignment.tags", "zone"),
    ]


def test_settings_of_the_assignment_name_tags_only_where_there_are_some() -> None:
    assert assignment_configs(DEFAULTS) == {"num.standby.replicas": "0"}
    assert assignment_configs(StreamsSettings(standby_replicas=2, rack_aware_tags="zone,cluster")) == {
        "num.standby.replicas": "2",
        "rack.aware.assignment.tags": "zone,cluster",
    }


def test_a_setting_that_changes_while_a_group_runs_makes_an_epoch_with_the_next_heartbeat() -> None:
    world = at_once()
    world.join("a")
    assert world.beat("a") == "2 -"
    world.settings = world.settings._replace(standby_replicas=1)
    assert world.beat("a") == "3 -"
    assert world.streams_group.assignment_configs == {"num.standby.replicas": "1"}
    assert world.beat("a") == "3 -"


def test_topics_that_come_go_and_grow_make_an_epoch_each() -> None:
    world = at_once(topics={"u": 2})
    assert world.join("a") == "2 nothing !1"
    assert world.beat("a") == "2 - !1"
    world.topics.topics["t"] = 2, 0
    assert world.beat("a") == "3 0:01"
    world.topics.topics["t"] = 3, 0
    assert world.beat("a") == "4 0:012"
    world.topics.topics["another"] = 1, 0
    assert world.beat("a") == "4 -"
    del world.topics.topics["t"]
    assert world.beat("a") == "4 nothing !1"
    assert world.report("a") == "5 - !1"


@pytest.mark.parametrize(
    ("said", "epoch"),
    [
        ({"client_tags": (wire.KeyValue(key="zone", value="1"),)}, 3),
        ({"rack_id": "r"}, 3),
        ({"process_id": "another"}, 3),
        ({"rebalance_timeout_ms": 1_000}, 3),
        ({"user_endpoint": wire.Endpoint(host="h", port=1)}, 3),
        ({"rebalance_timeout_ms": 60_000, "process_id": "a"}, 2),
        ({"task_offsets": ()}, 2),
    ],
)
def test_whatever_a_dynamic_member_says_of_itself_makes_an_epoch(said: dict[str, Any], epoch: int) -> None:
    world = at_once()
    world.join("a")
    world.beat("a", **said)
    assert world.streams_group.group_epoch == epoch


@pytest.mark.parametrize(
    ("said", "epoch"),
    [
        ({"client_tags": (wire.KeyValue(key="zone", value="1"),)}, 3),
        ({"rack_id": "r"}, 3),
        ({"process_id": "another"}, 3),
        ({"rebalance_timeout_ms": 1_000}, 2),
        ({"user_endpoint": wire.Endpoint(host="h", port=1)}, 2),
    ],
)
def test_what_a_static_member_says_makes_an_epoch_where_an_assignor_looks_at_it(
    said: dict[str, Any], epoch: int
) -> None:
    world = at_once()
    world.join("a", instance_id="i")
    world.beat("a", instance_id="i", **said)
    assert world.streams_group.group_epoch == epoch


# Topologies


def test_the_first_topology_is_the_groups_and_another_one_of_that_epoch_or_a_later_one_is_refused() -> None:
    world = at_once()
    world.join("a", topology=with_epoch(stateless("t"), 1))
    refused = "INVALID_REQUEST Topology updates are not supported yet."
    for epoch in (1, 2):
        assert world.join("b", topology=with_epoch(stateless("u"), epoch)) == refused
        assert world.join("b", topology=with_epoch(stateful("t"), epoch)) == refused
    assert world.join("b", topology=with_epoch(stateless("t"), 2)) == refused
    assert list(world.streams_group.members) == ["a"]
    assert world.join("b", topology=with_epoch(stateless("t"), 1)) == "3 nothing"


def test_an_older_topology_does_no_harm_and_its_member_is_told_so() -> None:
    world = at_once()
    world.join("a", topology=with_epoch(stateless("t"), 1))
    assert world.join("b", topology=stateless("u")) == "3 nothing !0"
    topology = world.streams_group.topology
    assert topology is not None
    assert (topology.epoch, topology.topics()) == (1, frozenset({"t"}))


def test_the_order_of_the_parts_of_a_topology_does_not_matter() -> None:
    world = at_once(topology=stateless("t", "u"))
    world.join("a")
    turned = wire.Topology(epoch=0, subtopologies=world.topology.subtopologies[::-1])
    assert world.join("b", topology=turned) == "3 nothing"


def test_a_topology_has_no_part_twice_and_no_negative_epoch() -> None:
    world = at_once()
    twice = wire.Topology(epoch=0, subtopologies=stateless("t").subtopologies * 2)
    refused = "UNKNOWN_SERVER_ERROR None"
    negative = with_epoch(stateless("t"), -1)
    for topology in (twice, negative):
        assert world.join("a", topology=topology) == refused
    assert world.shard().groups == {}
    world.join("a")
    for topology in (twice, negative):
        assert world.join("b", topology=topology) == refused
    assert list(world.streams_group.members) == ["a"]


def test_the_topology_stays_while_the_group_is_empty() -> None:
    world = at_once()
    world.join("a")
    world.leave("a")
    assert world.join("b", topology=stateless("u")) == "INVALID_REQUEST Topology updates are not supported yet."
    assert world.join("b") == "4 0:0123"


# Static members


def test_a_static_member_that_is_back_under_a_new_id_has_its_tasks_at_once() -> None:
    world = at_once()
    world.join("a", instance_id="i", process_id="p")
    assert world.leave("a", -2, instance_id="i") == "-2 -"
    assert world.join("a2", instance_id="i", process_id="p") == "2 0:0123"
    group = world.streams_group
    assert list(group.members) == ["a2"]
    assert dict(group.static_members) == {"i": "a2"}
    assert group.group_epoch == 2
    assert dict(group.active) == {("0", index): "p" for index in range(4)}
    # In all epochs since it left it may commit what it read before.
    assert set(group.members["a2"].current.assigned.active.values()) == {0}


def test_a_static_member_that_is_back_in_another_process_makes_an_epoch() -> None:
    world = at_once()
    world.join("a", instance_id="i", process_id="p")
    world.leave("a", -2, instance_id="i")
    assert world.join("a2", instance_id="i", process_id="q") == "3 0:0123"
    assert dict(world.streams_group.active) == {("0", index): "q" for index in range(4)}


def test_the_tasks_of_a_static_member_wait_for_it_until_its_session_is_over() -> None:
    world = at_once()
    world.join("a", instance_id="i")
    world.leave("a", -2, instance_id="i")
    assert world.streams_group.members["a"].current.epoch == -2
    assert world.join("b") == "3 nothing"
    world.pass_ms(SESSION_MS - 1)
    assert world.beat("b") == "3 -"
    world.pass_ms(1)
    assert world.beat("b") == "4 0:0123"
    assert dict(world.streams_group.static_members) == {}


def test_who_is_told_to_give_up_tasks_and_leaves_for_now_has_given_them_up() -> None:
    world = at_once()
    world.join("a", instance_id="i")
    world.join("b")
    assert world.beat("a") == "2 0:01"
    world.leave("a", -2, instance_id="i")
    assert world.beat("b") == "3 0:23"
    assert world.join("a2", instance_id="i", process_id="a") == "3 0:01"


def test_an_instance_id_has_one_owner() -> None:
    world = at_once()
    world.join("a", instance_id="i")
    assert world.join("b", instance_id="i") == (
        "UNRELEASED_INSTANCE_ID Static member b with instance id i cannot join the group because the instance id is owned "
        "by a member."
    )
    world.leave("a", -2, instance_id="i")
    world.join("b", instance_id="i", process_id="a")
    assert world.beat("a", instance_id="i") == (
        "FENCED_INSTANCE_ID Static member a with instance id i was fenced by member b."
    )
    assert world.leave("a", -1, instance_id="i") == (
        "FENCED_INSTANCE_ID Static member a with instance id i was fenced by member b."
    )
    assert world.beat("b", instance_id="j") == "UNKNOWN_MEMBER_ID Instance id j is unknown."


# Targets


def test_who_joins_an_empty_group_gets_tasks_at_once_whatever_the_interval() -> None:
    world = World(initial_rebalance_delay_ms=0)
    world.join("a")
    world.leave("a")
    assert world.streams_group.target_ms == 0
    assert world.join("b") == "4 0:0123"
    assert world.streams_group.target_ms == world.wall_ms


def test_the_target_at_the_end_of_the_delay_has_the_time_of_the_calendar() -> None:
    world = World()
    world.join("a")
    world.beat("a")
    world.pass_ms(DELAY_MS)
    assert world.streams_group.target_ms == world.wall_ms
    world.pass_ms(INTERVAL_MS - 1)
    assert world.join("b") == "2 nothing !5"
    world.pass_ms(1)
    assert "!5" not in world.join("c")


def same_hash() -> World:
    """The group of `BB`, whose id has the same hash in Java as `Aa`; as long as there is no topic, it has no tasks."""
    world = at_once(topics={"u": 2})
    world.join("BB", process_id="p")
    return world


def test_of_members_whose_ids_have_one_hash_who_joins_comes_last() -> None:
    world = same_hash()
    world.topics.topics["t"] = 1, 0
    assert world.join("Aa", process_id="p") == "3 nothing"
    assert world.beat("BB") == "3 0:0"


@pytest.mark.parametrize(("first", "second"), [("Aa", "BB"), ("BB", "Aa")])
def test_of_members_whose_ids_have_one_hash_and_that_are_there_the_last_that_came_is_the_first(
    first: str, second: str
) -> None:
    world = same_hash()
    world.join("Aa", process_id="p")
    world.topics.topics["t"] = 1, 0
    world.beat(first)
    world.beat(second)
    assert world.owned["Aa"]["active"]
    assert not world.owned["BB"]["active"]
