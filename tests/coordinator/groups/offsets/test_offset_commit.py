"""OffsetCommit: topics, the group's say, values, the records."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.step import RequestContext
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.offset_commit import OffsetCommitKey
from kshim_protocol.internal.records import split_position
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.harness import Call, topic_id
from tests.coordinator.peers import a_group, commit_errors, fetched
from tests.coordinator.rules import covers

ORDERS = ("orders", 0)


def of_orders(*indexes: int) -> OffsetCommitRequestTopic:
    """Offset 1 in partitions of orders."""
    return OffsetCommitRequestTopic(
        name="orders",
        partitions=tuple(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="")
            for index in indexes
        ),
    )


@covers("commit.unknown-topic", "commit.result-order")
def test_topics_and_partitions_that_do_not_exist_fail_alone() -> None:
    sim = a_group().stable("a")
    errors = sim["a"].commit({ORDERS: 1, ("orders", 4): 1, ("orders", -1): 1, ("unheard-of", 0): 1})
    assert errors == {
        ORDERS: ErrorCode.NONE,
        ("orders", 4): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("orders", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("unheard-of", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [record.key.partition for record in sim.records() if isinstance(record.key, OffsetCommitKey)] == [0]


def test_what_does_not_exist_keeps_nothing_behind_it_from_being_stored() -> None:
    sim = a_group()
    sim.peer("a").commit({("orders", 4): 1, ORDERS: 2, ("unheard-of", 0): 3, ("audit", 1): 4})
    assert {key: row.committed_offset for key, row in fetched(sim).items()} == {ORDERS: 2, ("audit", 1): 4}


@covers("commit.unknown-topic-id")
def test_by_id_a_topic_that_does_not_exist_has_an_error_of_its_own() -> None:
    sim = a_group()
    topics = [topic_id("orders"), topic_id("orders", life=1)]
    request = OffsetCommitRequest(
        group_id="g",
        member_id="",
        topics=tuple(
            OffsetCommitRequestTopic(
                topic_id=id_,
                partitions=tuple(
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata=None)
                    for index in (0, 9)
                ),
            )
            for id_ in topics
        ),
    )
    reply = sim.ask(request, 10)
    assert [topic.topic_id for topic in reply.topics] == topics
    errors = [[partition.error_code for partition in topic.partitions] for topic in reply.topics]
    assert errors == [
        [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID],
    ]
    assert fetched(sim)[ORDERS].committed_offset == 7


@covers("commit.nothing-valid")
def test_without_a_partition_that_exists_the_group_is_not_looked_at() -> None:
    sim = a_group()
    peer = sim.peer("a")
    peer.generation_id = 5
    assert peer.commit({("unheard-of", 0): 1}) == {("unheard-of", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert peer.commit({}) == {}
    assert sim.find_group() is None


# The group


@covers("commit.unknown-group.generation-below-v9", "commit.unknown-group.generation-v9")
@pytest.mark.parametrize(
    ("version", "error"),
    [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_generation_of_an_unknown_group_is_refused(version: int, error: ErrorCode) -> None:
    sim = a_group()
    peer = sim.peer("a")
    peer.generation_id = 0
    assert peer.commit({ORDERS: 1, ("orders", 1): 1}, version=version) == {ORDERS: error, ("orders", 1): error}
    assert sim.find_group() is None


@covers("commit.unknown-group.simple", "check.offset-commit.empty-group-id")
@pytest.mark.parametrize("group_id", ["g", ""])
def test_without_a_generation_an_unknown_group_comes_to_be_with_nothing_but_its_offsets(group_id: str) -> None:
    sim = a_group()
    assert sim.peer("a", group_id=group_id).commit({ORDERS: 42}) == {ORDERS: ErrorCode.NONE}
    group = sim.find_group(group_id)
    assert group is not None
    assert (group.state, group.protocol_type, group.generation_id) == (GroupState.EMPTY, None, 0)
    [record] = sim.records(group_id)
    assert isinstance(record.key, OffsetCommitKey)
    assert fetched(sim, ORDERS, group_id=group_id)[ORDERS].committed_offset == 42


@covers("commit.empty.no-generation")
@pytest.mark.parametrize("member_id", ["", "whoever"])
def test_an_empty_group_takes_offsets_from_anybody_without_a_generation(member_id: str) -> None:
    sim = a_group().empty()
    peer = sim.peer("admin")
    peer.member_id = member_id
    assert peer.commit({ORDERS: 1}) == {ORDERS: ErrorCode.NONE}


@covers("commit.empty.generation")
def test_an_empty_group_refuses_its_former_members() -> None:
    sim = a_group().empty()
    assert sim["gone"].commit({ORDERS: 1}) == {ORDERS: ErrorCode.UNKNOWN_MEMBER_ID}


@covers("commit.not-empty.nobody", "commit.unknown-member", "commit.fenced-instance", "commit.other-generation")
def test_only_members_of_the_generation_commit() -> None:
    sim = a_group().stable("a", "b", static=["b"])
    outsider = sim.peer("x")
    assert outsider.commit({ORDERS: 1}) == {ORDERS: ErrorCode.UNKNOWN_MEMBER_ID}
    outsider.member_id = outsider.send_join().reply.member_id
    outsider.generation_id = 2
    assert outsider.commit({ORDERS: 1}) == {ORDERS: ErrorCode.UNKNOWN_MEMBER_ID}
    outsider.member_id, outsider.instance_id = sim["a"].member_id, "b-instance"
    assert outsider.commit({ORDERS: 1}) == {ORDERS: ErrorCode.FENCED_INSTANCE_ID}
    for generation_id in (-1, 1, 3):
        sim["a"].generation_id = generation_id
        assert sim["a"].commit({ORDERS: 1}) == {ORDERS: ErrorCode.ILLEGAL_GENERATION}
    assert fetched(sim) == {}


@covers("commit.completing")
def test_in_completing_rebalance_nothing_is_committed() -> None:
    sim = a_group().completing("a", "b")
    assert sim["a"].commit({ORDERS: 1}) == {ORDERS: ErrorCode.REBALANCE_IN_PROGRESS}


@covers("commit.preparing", "commit.stable", "session.commit")
@pytest.mark.parametrize("state", ["preparing", "stable"])
def test_in_the_other_states_a_members_commit_counts_and_keeps_it_alive(state: str) -> None:
    sim = getattr(a_group(), state)("a", "b")
    sim.pass_ms(4_000)
    assert sim["b"].commit({ORDERS: 1}) == {ORDERS: ErrorCode.NONE}
    assert sim.deadline_ms("session", "g", sim["b"].member_id) == 10_000


def test_a_refused_commit_does_not_keep_a_member_alive() -> None:
    sim = a_group().stable("a", "b")
    sim.pass_ms(4_000)
    sim["b"].generation_id = 1
    sim["b"].commit({ORDERS: 1})
    assert sim.deadline_ms("session", "g", sim["b"].member_id) == 6_000


# Values and records


@covers("commit.metadata-too-large", "commit.metadata-counts-utf16")
@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 4_096, ErrorCode.NONE),
        ("x" * 4_097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("日" * 4_096, ErrorCode.NONE),
        ("日" * 4_097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("😀" * 2_048, ErrorCode.NONE),
        ("😀" * 2_049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
    ids=["ascii", "ascii+1", "3 bytes", "3 bytes+1", "surrogates", "surrogates+1"],
)
def test_the_limit_on_metadata_counts_utf16_units(metadata: str, error: ErrorCode) -> None:
    sim = a_group()
    assert sim.peer("a").commit({ORDERS: 1}, metadata=metadata) == {ORDERS: error}
    assert (ORDERS in fetched(sim)) == (error is ErrorCode.NONE)


@covers("commit.metadata-too-large")
def test_too_much_metadata_fails_for_its_partition_only() -> None:
    sim = a_group()
    rows = [(0, "fine"), (1, "x" * 4_097)]
    request = OffsetCommitRequest(
        group_id="g",
        member_id="",
        topics=(
            OffsetCommitRequestTopic(
                name="orders",
                partitions=tuple(
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=metadata)
                    for index, metadata in rows
                ),
            ),
        ),
    )
    errors = commit_errors(sim.ask(request, 8))
    assert errors == {ORDERS: ErrorCode.NONE, ("orders", 1): ErrorCode.OFFSET_METADATA_TOO_LARGE}


@covers("commit.metadata-too-large")
def test_a_partition_named_twice_is_judged_by_each_value() -> None:
    sim = a_group()
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
        for offset, metadata in ((1, "x" * 5_000), (2, ""))
    )
    request = OffsetCommitRequest(
        group_id="g", member_id="", topics=(OffsetCommitRequestTopic(name="orders", partitions=partitions),)
    )
    (topic,) = sim.ask(request, 9).topics
    assert [row.error_code for row in topic.partitions] == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert fetched(sim)[ORDERS].committed_offset == 2


def test_the_longest_text_that_travels_can_be_committed() -> None:
    sim = a_group(offset_metadata_max_bytes=100_000)
    longest = 32_767
    assert sim.peer("a", group_id="g" * longest).commit({ORDERS: 1}, metadata="m" * longest) == {ORDERS: ErrorCode.NONE}
    sim.restart()
    assert fetched(sim, group_id="g" * longest)[ORDERS].metadata == "m" * longest


@covers("commit.metadata-null", "commit.negative-offset")
def test_null_metadata_becomes_empty_and_any_offset_will_do() -> None:
    sim = a_group()
    assert sim.peer("a").commit({ORDERS: -7}, metadata=None) == {ORDERS: ErrorCode.NONE}
    assert (fetched(sim)[ORDERS].committed_offset, fetched(sim)[ORDERS].metadata) == (-7, "")
    assert sim.records()[0].value.metadata == ""


@covers("commit.one-batch", "commit.stable")
def test_a_request_is_one_batch_stamped_with_its_time() -> None:
    sim = a_group().stable("a")
    sim.pass_ms(123)
    sim["a"].send_commit({ORDERS: 5, ("orders", 3): 6, ("audit", 1): 7}, metadata="m", leader_epoch=3)
    records = [record for record in sim.records() if isinstance(record.key, OffsetCommitKey)]
    assert {record.batch_number for record in records} == {2}
    assert [(record.key.topic, record.key.partition, record.value.offset) for record in records] == [
        ("orders", 0, 5),
        ("orders", 3, 6),
        ("audit", 1, 7),
    ]
    for record in records:
        assert (record.value.metadata, record.value.leader_epoch) == ("m", 3)
        assert record.value.commit_timestamp == record.timestamp_ms == sim.wall_ms
        assert record.value.topic_id == topic_id(record.key.topic)
        assert record.value.expire_timestamp == -1


@covers("expiry.explicit")
def test_a_retention_of_its_own_is_written_and_costs_the_leader_epoch() -> None:
    sim = a_group()
    sim.peer("a").send_commit({ORDERS: 5}, retention_ms=60_000, version=4)
    value = sim.records()[0].value
    assert value.expire_timestamp == sim.wall_ms + 60_000
    offset = sim.shard().offsets.get("g", *ORDERS)
    assert offset is not None
    assert split_position(offset.position) == (5, -1, "")
    assert (offset.commit.expire_timestamp_ms, offset.commit.topic_id) == (sim.wall_ms + 60_000, bytes(16))


@covers("expiry.explicit")
@pytest.mark.parametrize("retention_ms", [-2, 0])
def test_only_a_retention_of_minus_one_leaves_it_to_the_broker(retention_ms: int) -> None:
    sim = a_group()
    sim.peer("a").send_commit({ORDERS: 5}, retention_ms=retention_ms, version=4)
    assert sim.records()[0].value.expire_timestamp == sim.wall_ms + retention_ms


def test_the_longest_retention_ends_with_the_last_time_there_is() -> None:
    sim = a_group()
    sim.peer("a").send_commit({ORDERS: 5}, retention_ms=(1 << 63) - 1, version=4)
    assert sim.records()[0].value.expire_timestamp == (1 << 63) - 1


def test_what_a_group_writes_is_no_sign_of_a_producer() -> None:
    sim = a_group()
    request = OffsetCommitRequest(group_id="g", member_id="", topics=(of_orders(0),))
    context = RequestContext(9, "client", "/127.0.0.1", sim.now)
    step = sim.coordinator.offset_commit(request, context, Call(request, 9))
    assert [append.now_ms for append in step.appends] == [-1]


def test_a_commit_that_cannot_be_written_changes_nothing() -> None:
    sim = a_group().stable("a")
    sim["a"].commit({ORDERS: 5})
    sim.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    errors = sim["a"].commit({ORDERS: 6, ("unheard-of", 0): 1})
    assert errors == {ORDERS: ErrorCode.NOT_COORDINATOR, ("unheard-of", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert fetched(sim)[ORDERS].committed_offset == 5


def test_a_group_that_would_begin_with_a_commit_that_cannot_be_written_does_not_exist() -> None:
    sim = a_group()
    sim.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert sim.peer("a").commit({ORDERS: 6}) == {ORDERS: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert sim.find_group() is None
