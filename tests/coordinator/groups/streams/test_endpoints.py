"""Where the partitions of a streams application can be asked for, for interactive queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatResponse,
    TopicPartition,
    Topology,
)
from tests.coordinator.groups.streams.world import World, stateful, stateless

Places = list[tuple[str, dict[str, list[int]], dict[str, list[int]]]]

HERE, THERE = Endpoint(host="here", port=8_080), Endpoint(host="there", port=9_090)


def places(reply: StreamsGroupHeartbeatResponse) -> Places | None:
    """Endpoint, active and standby partitions by topic."""
    if reply.partitions_by_user_endpoint is None:
        return None
    return [
        (
            f"{each.user_endpoint.host}:{each.user_endpoint.port}",
            by_topic(each.active_partitions),
            by_topic(each.standby_partitions),
        )
        for each in reply.partitions_by_user_endpoint
    ]


def by_topic(rows: Iterable[TopicPartition]) -> dict[str, list[int]]:
    return {row.topic: list(row.partitions) for row in rows}


def at_once(topics: dict[str, int] | None = None, **settings: Any) -> World:
    """A target is computed whenever it can be."""
    return World(topics, initial_rebalance_delay_ms=0, assignment_interval_ms=0, **settings)


def test_who_asks_first_hears_of_all_partitions_that_exist() -> None:
    world = at_once({"t": 4, "u": 2}, topology=stateless("t", "u"))
    world.join("a", user_endpoint=HERE)
    reply = world.heartbeat("a", 2).reply
    assert places(reply) == [("here:8080", {"t": [0, 1, 2, 3], "u": [0, 1]}, {})]
    assert reply.endpoint_information_epoch == 0  # what its first member says a new group forgets, as in Kafka


def test_who_knows_of_all_endpoints_is_told_again_when_one_is_another() -> None:
    world = at_once()
    world.join("a", user_endpoint=HERE)
    assert world.heartbeat("a", 2, user_endpoint=HERE).reply.endpoint_information_epoch == 0
    reply = world.heartbeat("a", 2, user_endpoint=THERE).reply
    assert reply.endpoint_information_epoch == 1
    assert places(reply) == [("there:9090", {"t": [0, 1, 2, 3]}, {})]


def test_a_task_reads_only_the_topics_that_have_its_partition() -> None:
    (part,) = stateless("t").subtopologies
    topology = Topology(epoch=0, subtopologies=(replace(part, source_topics=("t", "u")),))
    world = at_once({"t": 4, "u": 2}, topology=topology)
    world.join("a", user_endpoint=HERE)
    assert world.owned["a"]["active"][0].partitions == (0, 1, 2, 3)
    assert places(world.heartbeat("a", 2).reply) == [("here:8080", {"t": [0, 1, 2, 3], "u": [0, 1]}, {})]


def test_the_one_that_asks_stands_last_and_members_without_an_endpoint_are_left_out() -> None:
    world = at_once()
    world.join("a", user_endpoint=HERE)
    world.join("b", user_endpoint=THERE)
    world.join("c")
    world.beat("a")
    assert places(world.heartbeat("a", 2).reply) == [("there:9090", {}, {}), ("here:8080", {"t": [0, 1]}, {})]
    assert places(world.heartbeat("b", 3).reply) == [("here:8080", {"t": [0, 1]}, {}), ("there:9090", {}, {})]


def test_standbys_are_told_apart_from_what_runs() -> None:
    world = at_once({"t": 2, "store": 2}, topology=stateful("t"), standby_replicas=1)
    world.join("a", user_endpoint=HERE)
    world.join("b", user_endpoint=THERE)
    for member_id in ("a", "a", "b"):
        world.report(member_id)
    reply = world.heartbeat("a", world.epochs["a"]).reply
    assert places(reply) == [("there:9090", {"t": [1]}, {"t": [0]}), ("here:8080", {"t": [0]}, {"t": [1]})]


@pytest.mark.parametrize("endpoint", [None, HERE])
def test_an_endpoint_without_topics_is_an_error_as_in_kafka(endpoint: Endpoint | None) -> None:
    world = at_once({"other": 1})
    told = world.join("a", user_endpoint=endpoint)
    assert told.split()[0] == ("2" if endpoint is None else ErrorCode.UNKNOWN_SERVER_ERROR.name)
