"""What a member says of itself and is told of the others: statuses, endpoints, static members, room in the group."""

from __future__ import annotations

from typing import Any

from kshim.coordinator.groups.streams.state import StreamsGroupState
from kshim_protocol.internal.streams_group import Endpoint as StoredEndpoint
from kshim_protocol.internal.streams_group import KeyValue as StoredTag
from kshim_protocol.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskOffset,
)
from tests.coordinator.groups.streams.world import World

ENDPOINT = Endpoint(host="here", port=80)


def at_once(**settings: Any) -> World:
    """A target is computed whenever it can be."""
    return World(initial_rebalance_delay_ms=0, assignment_interval_ms=0, **settings)


def knowing(world: World, member_id: str, endpoint_epoch: int) -> StreamsGroupHeartbeatResponse:
    """The answer to a member that knows the endpoints of an epoch."""
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=world.epochs[member_id],
        endpoint_information_epoch=endpoint_epoch,
    )
    return world.ask(request, 1)


def endpoints(answer: StreamsGroupHeartbeatResponse) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """The partitions of active tasks by endpoint."""
    return {
        f"{each.user_endpoint.host}:{each.user_endpoint.port}": [
            (place.topic, place.partitions) for place in each.active_partitions
        ]
        for each in answer.partitions_by_user_endpoint or ()
    }


# What a member is


def test_what_a_member_does_not_say_again_stays() -> None:
    world = at_once()
    world.join(
        "a",
        instance_id="i",
        rack_id="r",
        process_id="p",
        user_endpoint=ENDPOINT,
        client_tags=(KeyValue(key="zone", value="1"), KeyValue(key="cluster", value="2")),
    )
    before = world.streams_group.members["a"].metadata
    assert (before.instance_id, before.rack_id, before.process_id) == ("i", "r", "p")
    assert (before.rebalance_timeout_ms, before.topology_epoch) == (60_000, 0)
    assert before.user_endpoint == StoredEndpoint(host="here", port=80)
    assert before.client_tags == (StoredTag(key="cluster", value="2"), StoredTag(key="zone", value="1"))
    assert (before.client_id, before.client_host) == ("client", "/127.0.0.1")
    assert world.beat("a") == "2 -"
    assert world.streams_group.members["a"].metadata == before
    assert world.beat("a", instance_id="i") == "2 -"
    assert world.streams_group.members["a"].metadata == before


def test_a_member_that_joins_again_without_its_endpoint_has_none() -> None:
    world = at_once()
    world.join("a", rack_id="r", user_endpoint=ENDPOINT)
    assert world.join("a") == "3 0:0123"
    metadata = world.streams_group.members["a"].metadata
    assert metadata.user_endpoint is None
    assert metadata.rack_id == "r"


def test_how_far_tasks_are_is_remembered_as_it_was_told_last() -> None:
    world = at_once()
    first = TaskOffset(subtopology_id="0", partition=0, offset=5)
    end = TaskOffset(subtopology_id="0", partition=0, offset=9)
    world.join("a")
    world.beat("a", task_offsets=(first,))
    world.beat("a", task_end_offsets=(end,))
    world.beat("a")
    found = world.streams_group.memory.task_offsets["a"]
    assert (found.offsets, found.end_offsets) == ({("0", 0): 5}, {("0", 0): 9})
    assert world.beat("a", task_offsets=(first, first)).startswith("INVALID_REQUEST Task offsets contain a duplicate")


def test_a_member_with_all_its_tasks_makes_a_stable_group() -> None:
    world = at_once()
    world.join("a")
    assert world.streams_group.state is StreamsGroupState.STABLE
    assert world.described().group_state == "Stable"
    world.join("b")
    assert world.described().group_state == "Reconciling"
    world.beat("a")
    world.report("a")
    world.beat("b")
    assert world.described().group_state == "Stable"
    world.leave("a")
    world.leave("b")
    assert world.described().group_state == "Empty"


# Who may join and go on


def test_a_group_is_full_for_newcomers_only() -> None:
    world = at_once(max_size=1)
    world.join("a", instance_id="i")
    full = "GROUP_MAX_SIZE_REACHED The streams group has reached its maximum capacity of 1 members."
    assert world.join("b") == full
    assert world.join("b", instance_id="j") == full
    assert world.beat("a") == "2 -"
    world.leave("a", -2, instance_id="i")
    assert world.join("b", instance_id="i") == "3 0:0123"
    assert world.join("b", process_id="q").split()[0] == "4"
    world.leave("b")
    assert world.join("c").split()[0] == "6"


def test_only_who_joins_makes_a_group() -> None:
    world = at_once()
    world.epochs["a"] = 1
    assert world.beat("a") == "GROUP_ID_NOT_FOUND Streams group g not found."
    assert world.leave("a") == "GROUP_ID_NOT_FOUND Group g not found."
    assert world.shard().groups == {}


def test_strangers_cannot_go_on_or_leave() -> None:
    world = at_once()
    world.join("a")
    world.epochs["b"] = 2
    stranger = "UNKNOWN_MEMBER_ID Member b is not a member of group g."
    assert world.beat("b") == stranger
    assert world.leave("b") == stranger
    assert world.leave("b", -2, instance_id="i") == "UNKNOWN_MEMBER_ID Instance id i is unknown."


# Shutdown


def test_one_member_stops_all_until_the_group_is_empty_and_the_first_is_named() -> None:
    world = at_once()
    world.join("a")
    assert world.beat("a") == "2 -"
    assert world.beat("a", shutdown_application=True) == "2 - !4"
    assert world.join("b") == "3 nothing !4"
    assert world.beat("b", shutdown_application=True) == "3 - !4"
    details = [status.status_detail for status in world.heartbeat("b", 3).reply.status or ()]
    assert details == [
        "Streams group member a encountered a fatal error and requested a shutdown for the entire application."
    ]
    world.leave("a")
    assert world.beat("b").split()[-1] == "!4"
    world.leave("b")
    assert world.join("c") == "6 0:0123"


def test_one_that_leaves_may_stop_the_others() -> None:
    world = at_once()
    world.join("a")
    world.join("b")
    world.leave("b", shutdown_application=True)
    (status,) = world.heartbeat("a", 2).reply.status or ()
    assert status.status_detail.startswith("Streams group member b encountered")
    world.beat("a", shutdown_application=True)
    world.join("c")
    world.leave("c", shutdown_application=True)
    (status,) = world.heartbeat("a", world.epochs["a"]).reply.status or ()
    assert status.status_detail.startswith("Streams group member b encountered")


# Endpoints


def test_endpoints_are_told_to_who_knows_those_of_another_epoch() -> None:
    world = at_once()
    world.join("a", user_endpoint=ENDPOINT)
    known = knowing(world, "a", 0)
    assert (known.endpoint_information_epoch, known.partitions_by_user_endpoint) == (0, None)
    for epoch in (-1, 1):
        answer = knowing(world, "a", epoch)
        assert answer.endpoint_information_epoch == 0
        assert endpoints(answer) == {"here:80": [("t", (0, 1, 2, 3))]}


def test_the_endpoint_epoch_rises_with_other_endpoints_and_with_other_tasks_of_who_has_one() -> None:
    world = at_once()
    world.join("a", user_endpoint=ENDPOINT)
    # What a group remembers begins with its first record.
    assert [answer.endpoint_information_epoch for answer in (world.calls[-1].reply, knowing(world, "a", 0))] == [0, 0]
    world.join("b", process_id="b")
    assert world.beat("a") == "2 0:01"
    assert knowing(world, "a", 0).endpoint_information_epoch == 1
    world.report("a")
    world.beat("b")
    assert knowing(world, "b", 1).partitions_by_user_endpoint is None
    world.beat("b", user_endpoint=Endpoint(host="there", port=65_535))
    answer = knowing(world, "b", 1)
    assert answer.endpoint_information_epoch == 2
    assert endpoints(answer) == {"here:80": [("t", (0, 1))], "there:65535": [("t", (2, 3))]}
    world.beat("b", user_endpoint=Endpoint(host="there", port=65_535))
    assert knowing(world, "b", 2).partitions_by_user_endpoint is None
    world.restart()
    assert knowing(world, "b", 2).endpoint_information_epoch == 0
