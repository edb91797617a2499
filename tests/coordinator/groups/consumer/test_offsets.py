"""Offsets of a group of the new protocol: which member may commit and fetch them, and with which epoch (KIP-848)."""

from __future__ import annotations

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.coordinator.groups.consumer.test_heartbeat import INTERVAL_MS, World
from tests.coordinator.groups.offsets.test_txn_offset_commit import commit as commit_in_transaction
from tests.coordinator.peers import commit_errors

Partitions = tuple[tuple[str, int], ...]

FIRST, LAST, OTHER = ("t", 0), ("t", 2), ("u", 0)
BY_NAME, BY_ID = 9, 10


def shared() -> World:
    """Members a and b in epoch 3: a has had partitions 0 and 1 of t since epoch 2, b has partition 2 since epoch 3."""
    world = World()
    world.join("a", "t")
    world.join("b", "t")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 2)
    world.heartbeat("a", 2, owned={"t": [0, 1]})
    assert world.told(world.heartbeat("b", 2, owned={})) == (3, {"t": [2]})
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
                topic_id=world.id_of(name) if version >= BY_ID else bytes(16),
                partitions=(
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata=""),
                ),
            )
            for name, index in partitions
        ),
    )
    reply = world.ask(request, version)
    if version < BY_ID:
        return list(commit_errors(reply).values())
    return [ErrorCode(partition.error_code) for topic in reply.topics for partition in topic.partitions]


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@pytest.mark.parametrize(
    ("member_id", "epoch", "partitions", "error"),
    [
        ("a", 3, (FIRST,), "NONE"),
        ("a", 3, (LAST, OTHER), "NONE"),  # in its own epoch a member commits for any partition
        ("a", 2, (FIRST, ("t", 1)), "NONE"),  # its own without a break since that epoch
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
def test_a_member_commits_in_its_epoch_or_in_an_older_one_for_what_it_has_had_since(
    version: int, member_id: str, epoch: int, partitions: Partitions, error: str
) -> None:
    assert commit(shared(), member_id, epoch, *partitions, version=version) == [ErrorCode[error]] * len(partitions)


def test_partitions_that_do_not_exist_say_nothing_about_the_epoch() -> None:
    errors = commit(shared(), "a", 2, FIRST, ("u", 99))
    assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("epoch", [2, 3])
def test_a_version_that_cannot_say_an_epoch_is_refused(epoch: int) -> None:
    assert commit(shared(), "a", epoch, FIRST, version=8) == [ErrorCode.UNSUPPORTED_VERSION]


def test_a_group_without_members_takes_offsets_from_anybody_without_an_epoch() -> None:
    world = World()
    world.join("a", "t")
    world.heartbeat("a", -1)
    for version in (2, 8, BY_NAME, BY_ID):
        assert commit(world, "", -1, FIRST, version=version) == [ErrorCode.NONE]
        assert commit(world, "admin", -1, FIRST, version=version) == [ErrorCode.NONE]
        assert commit(world, "a", 0, FIRST, version=version) == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    ("member_id", "epoch", "instance_id", "error"),
    [
        ("", -1, None, "NONE"),  # a producer that does not say for which member
        ("", 0, None, "UNKNOWN_MEMBER_ID"),
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
