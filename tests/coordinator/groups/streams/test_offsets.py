"""Offsets of a streams group: which member may commit and fetch them, and with which epoch. Errors are those of a live Kafka 4.4."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kshim_protocol.messages.streams_group_heartbeat import Topology
from tests.coordinator.groups.offsets.test_offset_delete import errors_of, send_delete
from tests.coordinator.groups.offsets.test_txn_offset_commit import commit as commit_in_transaction
from tests.coordinator.groups.streams.world import World, stateless
from tests.coordinator.harness import topic_id

Partitions = tuple[tuple[str, int], ...]

FIRST, LAST, OTHER = ("t", 0), ("t", 2), ("u", 0)
BY_NAME, BY_ID = 9, 10


def at_once() -> World:
    """A target is computed whenever it can be."""
    return World(initial_rebalance_delay_ms=0, assignment_interval_ms=0)


def shared() -> World:
    """Members a and b in epoch 3: a has had tasks 0 and 1 since epoch 2, b has tasks 2 and 3 since epoch 3."""
    world = at_once()
    world.join("a")
    world.join("b")
    world.beat("a")
    world.report("a")
    assert world.beat("b") == "3 0:23"
    assert world.epochs == {"a": 3, "b": 3}
    return world


def commit(
    world: World, member_id: str, epoch: int, *partitions: tuple[str, int], version: int = BY_NAME
) -> list[ErrorCode]:
    """OffsetCommit; the error of each partition."""
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=name if version < BY_ID else "",
                topic_id=topic_id(name) if version >= BY_ID else bytes(16),
                partitions=(
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata=""),
                ),
            )
            for name, index in partitions
        ),
    )
    reply = world.ask(request, version)
    return [ErrorCode(partition.error_code) for topic in reply.topics for partition in topic.partitions]


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@pytest.mark.parametrize(
    ("member_id", "epoch", "partitions", "error"),
    [
        ("a", 3, (FIRST,), "NONE"),
        ("a", 3, (LAST, OTHER), "NONE"),  # in its own epoch a member commits for any partition
        ("a", 2, (FIRST, ("t", 1)), "NONE"),  # its own tasks without a break since that epoch
        ("a", 2, (FIRST, LAST), "STALE_MEMBER_EPOCH"),
        ("a", 2, (OTHER,), "STALE_MEMBER_EPOCH"),
        ("a", 1, (FIRST,), "STALE_MEMBER_EPOCH"),
        ("a", -1, (FIRST,), "STALE_MEMBER_EPOCH"),
        ("a", 4, (FIRST,), "STALE_MEMBER_EPOCH"),
        ("b", 2, (LAST,), "STALE_MEMBER_EPOCH"),
        ("b", 3, (LAST,), "NONE"),
        ("c", 3, (FIRST,), "UNKNOWN_MEMBER_ID"),
        ("", -1, (FIRST,), "UNKNOWN_MEMBER_ID"),
    ],
)
def test_a_member_commits_in_its_epoch_or_in_an_older_one_for_tasks_it_has_had_since(
    version: int, member_id: str, epoch: int, partitions: Partitions, error: str
) -> None:
    assert commit(shared(), member_id, epoch, *partitions, version=version) == [ErrorCode[error]] * len(partitions)


def test_a_task_that_is_to_be_given_up_is_still_the_members() -> None:
    world = shared()
    world.join("c")
    world.join("d")
    world.beat("a")
    current = world.streams_group.members["a"].current
    ((given_up, since),) = current.pending_revocation.active.items()
    assert (current.epoch, given_up, since) == (3, ("0", 1), 2)
    assert commit(world, "a", 2, ("t", 1)) == [ErrorCode.NONE]
    world.report("a")
    assert commit(world, "a", 2, ("t", 1)) == [ErrorCode.STALE_MEMBER_EPOCH]


def test_of_several_subtopologies_that_read_a_topic_the_last_of_a_hash_map_decides() -> None:
    parts = zip(("10", "9"), stateless("t", "t").subtopologies or (), strict=True)
    topology = Topology(
        epoch=0, subtopologies=tuple(replace(part, subtopology_id=subtopology_id) for subtopology_id, part in parts)
    )
    world = World({"t": 3}, topology=topology, initial_rebalance_delay_ms=0, assignment_interval_ms=0)
    world.join("a")
    world.join("b")
    world.beat("a")
    world.report("a")
    kept = world.owned["a"]["active"]
    since = {(each.subtopology_id, index) for each in kept for index in each.partitions}
    for index in range(3):
        expected = ErrorCode.NONE if ("10", index) in since else ErrorCode.STALE_MEMBER_EPOCH
        assert commit(world, "a", 2, ("t", index)) == [expected], index


@pytest.mark.parametrize("epoch", [2, 3])
def test_a_version_that_cannot_say_an_epoch_is_refused(epoch: int) -> None:
    assert commit(shared(), "a", epoch, FIRST, version=8) == [ErrorCode.UNSUPPORTED_VERSION]


def test_a_group_without_members_takes_offsets_from_anybody_without_an_epoch() -> None:
    world = at_once()
    world.join("a")
    world.leave("a")
    for version in (2, 8, BY_NAME, BY_ID):
        assert commit(world, "", -1, FIRST, version=version) == [ErrorCode.NONE]
        assert commit(world, "admin", -1, FIRST, version=version) == [ErrorCode.NONE]
        for epoch in (0, 1, 3):
            assert commit(world, "a", epoch, FIRST, version=version) == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize(
    ("member_id", "epoch", "instance_id", "error"),
    [
        ("", -1, None, "NONE"),  # a producer that does not say for which member
        ("", 0, None, "UNKNOWN_MEMBER_ID"),
        ("", 1, None, "UNKNOWN_MEMBER_ID"),
        ("", -2, None, "UNKNOWN_MEMBER_ID"),
        ("", -1, "i", "UNKNOWN_MEMBER_ID"),
        ("a", 3, None, "NONE"),
        ("a", 2, None, "NONE"),
        ("a", 1, None, "STALE_MEMBER_EPOCH"),
        ("a", -1, None, "STALE_MEMBER_EPOCH"),
        ("a", 4, None, "STALE_MEMBER_EPOCH"),
        ("c", 3, None, "UNKNOWN_MEMBER_ID"),
        ("c", -1, None, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_a_transaction_is_held_to_member_and_epoch_where_it_names_them(
    version: int, member_id: str, epoch: int, instance_id: str | None, error: str
) -> None:
    told = commit_in_transaction(
        shared(), {FIRST: 5}, member_id=member_id, generation_id=epoch, instance_id=instance_id, version=version
    )
    assert told == {FIRST: ErrorCode[error]}


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, "NONE"),
        (None, 0, "UNKNOWN_SERVER_ERROR"),
        (None, 3, "UNKNOWN_SERVER_ERROR"),
        ("a", 3, "NONE"),
        ("a", 2, "STALE_MEMBER_EPOCH"),
        ("a", 4, "STALE_MEMBER_EPOCH"),
        ("c", 3, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_a_member_that_names_itself_fetches_in_its_epoch_only(member_id: str | None, epoch: int, error: str) -> None:
    group = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
    [fetched] = shared().ask(OffsetFetchRequest(groups=(group,)), BY_NAME).groups
    assert fetched.error_code == ErrorCode[error]


def test_offsets_of_topics_that_tasks_read_stay_as_long_as_there_are_members() -> None:
    world = at_once()
    world.join("a")
    commit(world, "a", 2, FIRST, OTHER)
    assert errors_of(send_delete(world, FIRST, OTHER)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    world.leave("a")
    assert errors_of(send_delete(world, FIRST)) == [ErrorCode.NONE]
