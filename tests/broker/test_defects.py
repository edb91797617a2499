"""An exception that nobody planned for: answered, reported, and its shard loaded again from the log."""

from __future__ import annotations

from typing import Any

import pytest

from kshim.coordinator.step import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kshim.coordinator.transactions.markers import MARKER_PAUSE_MS
from kshim.storage.memory_log import MemoryLog
from kshim.storage.stores import MemoryStorage
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.fetch import FetchResponse
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupResponse
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.data_plane import fetch_of
from tests.broker.harness import Client, NodeUnderTest, a_node
from tests.broker.transactional import TransactionalProducer, committed_offset

# "fine" and "broken" live in different partitions of the offsets topic.
FINE, BROKEN = "fine", "broken"


class TreacherousLog(MemoryLog):
    """A log whose append fails in a way the interface does not allow, as often as told."""

    failures = 0
    fails_in = 0
    """Which append fails, counted from 1; 0: none does."""
    reads_fail = False

    def append(self, batch: bytes) -> int:
        self.fails_in -= 1
        if self.failures or self.fails_in == 0:
            self.failures = max(0, self.failures - 1)
            raise AssertionError("a defect inside the step")
        return super().append(batch)

    def read(self, offset: int, max_bytes: int, *, at_least_one_batch: bool = True) -> bytes:
        if self.reads_fail:
            raise AssertionError("a defect inside a read")
        return super().read(offset, max_bytes, at_least_one_batch=at_least_one_batch)


class TreacherousStorage(MemoryStorage):
    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[tuple[str, int], TreacherousLog] = {}

    def open_log(self, topic: str, partition: int, *args: Any, **kwargs: Any) -> TreacherousLog:
        return self.logs.setdefault((topic, partition), TreacherousLog())


def join(client: Client, group_id: str, member_id: str = "") -> JoinGroupResponse:
    return client.ask(
        GroupMember(group_id, member_id).join(
            9, [("range", b"meta")], session_timeout_ms=10_000, rebalance_timeout_ms=20_000
        ),
        9,
    )


def a_member(client: Client, group_id: str) -> JoinGroupResponse:
    return join(client, group_id, join(client, group_id).member_id)


def sync(client: Client, group_id: str, joined: JoinGroupResponse) -> int:
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
    request = SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(assignment,),
    )
    return client.ask(request, 5).error_code


def heartbeat(client: Client, group_id: str, joined: JoinGroupResponse) -> int:
    request = HeartbeatRequest(group_id=group_id, generation_id=joined.generation_id, member_id=joined.member_id)
    return client.ask(request, 4).error_code


def state_of(client: Client, group_id: str) -> str:
    return client.ask(DescribeGroupsRequest(groups=(group_id,)), 5).groups[0].group_state


def break_log(node: NodeUnderTest, group_id: str, *, times: int = 1) -> None:
    storage = node.storage
    assert isinstance(storage, TreacherousStorage)
    storage.logs[OFFSETS_TOPIC, node.cluster.groups.coordinator.partition_for(group_id)].failures = times


@pytest.fixture
def node() -> NodeUnderTest:
    return a_node(storage=TreacherousStorage(), tolerates_defects=True)


def test_a_defect_inside_a_step_is_answered_and_its_shard_is_what_its_log_says(node: NodeUnderTest) -> None:
    client = node.client()
    first = a_member(client, BROKEN)
    assert sync(client, BROKEN, first) == ErrorCode.NONE
    second = join(client, BROKEN, first.member_id)  # the leader joins again: generation 2, not yet in the log
    assert second.generation_id == 2
    break_log(node, BROKEN)
    assert sync(client, BROKEN, second) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(node.defects) == 1
    assert client.ask(DescribeGroupsRequest(groups=(BROKEN,)), 5).groups[0].error_code == (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )
    node.warm_up()
    assert state_of(client, BROKEN) == "Stable"
    assert heartbeat(client, BROKEN, first) == ErrorCode.NONE
    assert heartbeat(client, BROKEN, second) == ErrorCode.ILLEGAL_GENERATION


def test_a_defect_leaves_other_shards_alone(node: NodeUnderTest) -> None:
    client, other = node.client(), node.client()
    fine = a_member(other, FINE)
    assert sync(other, FINE, fine) == ErrorCode.NONE
    broken = a_member(client, BROKEN)
    break_log(node, BROKEN)
    assert sync(client, BROKEN, broken) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert heartbeat(other, FINE, fine) == ErrorCode.NONE
    node.warm_up()
    assert heartbeat(other, FINE, fine) == ErrorCode.NONE


def test_a_defect_in_a_timer_is_reported_and_the_other_timers_go_on(node: NodeUnderTest) -> None:
    client = node.client()
    for group_id in (FINE, BROKEN):
        joined = a_member(client, group_id)
        assert sync(client, group_id, joined) == ErrorCode.NONE
    break_log(node, BROKEN)
    node.pass_ms(10_000)
    assert len(node.defects) == 1
    assert state_of(client, FINE) == "Empty"
    node.warm_up()
    assert state_of(client, BROKEN) == "Stable"
    node.pass_ms(10_000)
    assert state_of(client, BROKEN) == "Empty"


@pytest.mark.usefixtures("at_both_levels")
@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_marker_that_meets_a_defect_is_written_once_its_shard_is_loaded_again(
    node: NodeUnderTest, failures: int
) -> None:
    client = node.client()
    node.topic("orders")
    producer = TransactionalProducer(client)
    producer.commit_offset(BROKEN, "orders", 7)
    break_log(node, BROKEN, times=failures)
    assert producer.end(committed=True) == ErrorCode.NONE
    for failure in range(1, 1 + failures):  # the first follows EndTxn, the others the timer that tries again
        assert len(node.defects) == failure
        group = client.ask(DescribeGroupsRequest(groups=(BROKEN,)), 5).groups[0]
        assert group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        node.warm_up()
        assert committed_offset(client, BROKEN, "orders") == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        node.pass_ms(MARKER_PAUSE_MS)
    assert committed_offset(client, BROKEN, "orders") == (7, ErrorCode.NONE)
    producer.commit_offset(BROKEN, "orders", 8)
    assert producer.end(committed=True) == ErrorCode.NONE
    assert committed_offset(client, BROKEN, "orders") == (8, ErrorCode.NONE)
    assert len(node.defects) == failures


@pytest.mark.usefixtures("at_both_levels")
@pytest.mark.parametrize("is_retried", [False, True])
def test_a_defect_after_the_markers_reloads_the_shard_of_the_transaction(node: NodeUnderTest, is_retried: bool) -> None:
    client = node.client()
    node.topic("orders")
    producer = TransactionalProducer(client)
    producer.commit_offset(BROKEN, "orders", 7)
    if is_retried:
        break_log(node, BROKEN)
    storage = node.storage
    assert isinstance(storage, TreacherousStorage)
    home = node.cluster.transactions.coordinator.partition_for(producer.transactional_id)
    log = storage.logs[TRANSACTIONS_TOPIC, home]
    log.fails_in = 2  # the outcome is written, its Complete record is not
    assert producer.end(committed=True) == ErrorCode.NONE
    if is_retried:
        node.warm_up()
        node.pass_ms(MARKER_PAUSE_MS)
    assert producer.end(committed=True) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.warm_up()
    assert committed_offset(client, BROKEN, "orders") == (7, ErrorCode.NONE)
    producer.commit_offset(BROKEN, "orders", 8)
    assert producer.end(committed=True) == ErrorCode.NONE


def test_a_defect_long_after_a_topic_was_deleted_leaves_the_shards_alone(node: NodeUnderTest) -> None:
    client = node.client()
    node.topic("orders")
    fine = a_member(client, FINE)
    assert sync(client, FINE, fine) == ErrorCode.NONE
    client.ask(DeleteTopicsRequest(topic_names=("orders",), timeout_ms=0), 5)
    node.warm_up()
    node.cluster.defect(AssertionError("elsewhere"), None)
    assert state_of(client, FINE) == "Stable"


def test_a_defect_in_a_fetch_that_a_group_wakes_does_not_reload_the_shard_of_the_group(node: NodeUnderTest) -> None:
    client, reader = node.client(), node.client()
    fine = a_member(client, FINE)
    home = node.cluster.groups.coordinator.partition_for(FINE)
    log = node.log(OFFSETS_TOPIC, home)
    assert isinstance(log, TreacherousLog)
    reader.send(fetch_of((OFFSETS_TOPIC, home, log.end_offset), max_wait_ms=1000), 12)
    assert reader.is_waiting
    log.reads_fail = True
    assert sync(client, FINE, fine) == ErrorCode.NONE
    assert reader.take(FetchResponse).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(node.defects) == 1
    assert state_of(client, FINE) == "Stable"


def test_an_answer_made_before_the_defect_is_not_given_twice(node: NodeUnderTest) -> None:
    client = node.client()

    def refuse(event: object) -> None:
        raise AssertionError("whoever listens to events fails")

    node.cluster.on_event = refuse
    joined = a_member(client, FINE)
    assert sync(client, FINE, joined) == ErrorCode.NONE
    assert node.defects
    assert heartbeat(client, FINE, joined) == ErrorCode.NONE
