"""Coordinators write no batch that is larger than their topic's max.message.bytes; each request then has its own answer.

The same on both brokers, which is what Kafka 4.4 does: CoordinatorRuntime, TransactionStateManager.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from uuid import uuid4

import pytest

from integration.support.broker import Broker
from integration.transactions.producer import Producer, Talk
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import Committed, GroupMember, offset_delete
from kshim_protocol.internal.records import build_offset_commit_key, build_offset_commit_value
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kshim_protocol.messages.join_group import JoinGroupResponse
from kshim_protocol.messages.leave_group import LeaveGroupResponse
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.sync_group import SyncGroupResponse
from kshim_protocol.records.batch import build_key_value_batch

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
DEFAULT_MAX_BYTES = 1_048_588
"""Of max.message.bytes."""
TOO_LARGE = 1_100_000
"""Bytes."""
PARTITIONS = 320
NUMBERS = count()
WAIT_S = 30


class Peer:
    """A broker, asked about one group and a topic of many partitions."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.host, self.port = host, int(port)
        self.client = Client(host, self.port, client_id="c", timeout_s=WAIT_S)
        name = f"limits-{next(NUMBERS)}-{uuid4().hex[:6]}"
        self.topic = self.group_id = name
        new = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=())
        (made,) = self.client.ask(CreateTopicsRequest(topics=(new,)), 5).topics
        assert made.error_code == ErrorCode.NONE
        self.wait_for(name, PARTITIONS)
        self.wait_for_coordinator()

    def wait_for(self, topic: str, partition_count: int) -> None:
        """Wait for a topic: Kafka answers CreateTopics before every part of it knows the topic."""
        deadline = time.monotonic() + WAIT_S
        request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
        while len(self.client.ask(request, 12).topics[0].partitions) < partition_count:
            assert time.monotonic() < deadline, "the topic does not appear"
            time.sleep(0.05)

    def wait_for_coordinator(self) -> None:
        """Wait for the group's coordinator: a broker creates the topic of offsets when one is first asked for."""
        deadline = time.monotonic() + WAIT_S
        request = FindCoordinatorRequest(key=self.group_id, key_type=0)
        while self.client.ask(request, 3).error_code != ErrorCode.NONE:
            assert time.monotonic() < deadline, "the group has no coordinator"
            time.sleep(0.05)

    def join(self, member_id: str = "", instance_id: str | None = None, metadata: bytes = b"m") -> JoinGroupResponse:
        request = GroupMember(self.group_id, member_id, group_instance_id=instance_id).join(
            9, [("range", metadata)], session_timeout_ms=60_000
        )
        answer: JoinGroupResponse = self.client.ask(request, 9)
        return answer

    def member(self, instance_id: str | None = None, metadata: bytes = b"m") -> JoinGroupResponse:
        """A member on its own, in CompletingRebalance."""
        joined = self.join("", instance_id, metadata)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joined = self.join(joined.member_id, instance_id, metadata)
        assert joined.error_code == ErrorCode.NONE
        return joined

    def sync(self, joined: JoinGroupResponse, assignment: bytes, instance_id: str | None = None) -> SyncGroupResponse:
        member = GroupMember(self.group_id, joined.member_id, joined.generation_id, instance_id)
        request = member.sync(5, [(joined.member_id, assignment)])
        answer: SyncGroupResponse = self.client.ask(request, 5)
        return answer

    def heartbeat(self, joined: JoinGroupResponse) -> ErrorCode:
        request = GroupMember(self.group_id, joined.member_id, joined.generation_id).heartbeat(4)
        return ErrorCode(self.client.ask(request, 4).error_code)

    def leave(self, joined: JoinGroupResponse) -> LeaveGroupResponse:
        request = GroupMember(self.group_id, joined.member_id).leave(5)
        answer: LeaveGroupResponse = self.client.ask(request, 5)
        return answer

    def state(self) -> str:
        """The group's, Dead when there is none."""
        state: str = self.client.ask(DescribeGroupsRequest(groups=(self.group_id,)), 5).groups[0].group_state
        return state

    def commit(self, *values: tuple[int, int]) -> list[ErrorCode]:
        """Offsets for (partition, length of the metadata)."""
        offsets = [Committed(index, 1, "x" * length) for index, length in values]
        answer = self.client.ask(GroupMember(self.group_id).commit(8, [(self.topic, offsets)]), 8)
        found = {part.partition_index: ErrorCode(part.error_code) for part in answer.topics[0].partitions}
        return [found[index] for index, _ in values]

    def delete_offsets(self, *indexes: int) -> ErrorCode:
        answer = self.client.ask(offset_delete(self.group_id, [(self.topic, indexes)]), 0)
        return ErrorCode(answer.error_code)

    def delete_group(self) -> ErrorCode:
        (result,) = self.client.ask(DeleteGroupsRequest(groups_names=(self.group_id,)), 2).results
        return ErrorCode(result.error_code)

    @contextmanager
    def limit(self, topic: str, max_message_bytes: int) -> Iterator[None]:
        """Have a topic take no larger batches than that for a while."""
        self._alter(topic, str(max_message_bytes))
        try:
            yield
        finally:
            self._alter(topic, None)

    def _alter(self, topic: str, value: str | None) -> None:
        """Kafka describes a new value a moment before it acts on it, but acts on changes in their order."""
        nearly = DEFAULT_MAX_BYTES - 1 if value is None else int(value) + 1
        self._alter_until_described(topic, str(nearly))
        self._alter_until_described(topic, value)

    def _alter_until_described(self, topic: str, value: str | None) -> None:
        key = "max.message.bytes"
        change = AlterableConfig(name=key, config_operation=1 if value is None else 0, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=(change,))
        self.client.ask(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1)
        wanted = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=(key,))
        deadline = time.monotonic() + WAIT_S
        while True:
            (found,) = self.client.ask(DescribeConfigsRequest(resources=(wanted,)), 4).results[0].configs
            if found.value == value or (value is None and found.value == str(DEFAULT_MAX_BYTES)):
                return
            assert time.monotonic() < deadline, f"{found} is not {value}"
            time.sleep(0.05)


@pytest.fixture
def peer(broker: Broker) -> Iterator[Peer]:
    peer = Peer(broker.bootstrap)
    yield peer
    peer.client.close()


def test_assignments_that_are_too_large_are_refused_and_the_group_joins_again(peer: Peer) -> None:
    joined = peer.member()
    refused = peer.sync(joined, b"a" * TOO_LARGE)
    assert (refused.error_code, refused.assignment) == (ErrorCode.UNKNOWN_SERVER_ERROR, b"")
    assert peer.state() == "PreparingRebalance"
    assert peer.heartbeat(joined) == ErrorCode.REBALANCE_IN_PROGRESS
    again = peer.join(joined.member_id)
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 2)
    assert peer.sync(again, b"a" * 1_000).assignment == b"a" * 1_000
    assert peer.state() == "Stable"


def test_a_static_member_that_is_too_large_does_not_take_the_old_ones_place(peer: Peer) -> None:
    old = peer.member("i", b"m" * 600_000)
    assert peer.sync(old, b"a", "i").error_code == ErrorCode.NONE
    refused = peer.join("", "i", b"m" * TOO_LARGE)
    assert refused == JoinGroupResponse(
        error_code=ErrorCode.UNKNOWN_SERVER_ERROR,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=old.member_id,
        member_id="",
        members=(),
    )
    assert peer.heartbeat(old) == ErrorCode.NONE
    assert peer.state() == "Stable"


def test_a_commit_is_one_batch_and_stored_whole_or_not_at_all(peer: Peer) -> None:
    answered = peer.commit(*((index, 4_096) for index in range(300)), (300, 5_000), (PARTITIONS, 1))
    assert answered == [ErrorCode.UNKNOWN_SERVER_ERROR] * 301 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert peer.state() == "Dead"
    answered = peer.commit(*((index, 4_096) for index in range(200)), (300, 5_000))
    assert answered == [ErrorCode.NONE] * 200 + [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert peer.state() == "Empty"


def test_what_the_group_coordinator_answers_when_its_topic_takes_no_batch(peer: Peer) -> None:
    assert peer.commit((0, 0), (1, 0)) == [ErrorCode.NONE, ErrorCode.NONE]
    with peer.limit(OFFSETS_TOPIC, 75):
        assert peer.delete_offsets(0, 1) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert peer.delete_group() == ErrorCode.UNKNOWN_SERVER_ERROR
        assert peer.commit((0, 0)) == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert peer.state() == "Empty"
    assert peer.delete_group() == ErrorCode.NONE
    with peer.limit(OFFSETS_TOPIC, 75):
        issued = peer.join()
        assert issued.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert peer.state() == "Dead"
        assert peer.join(issued.member_id).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        static = peer.join("", "i")
        assert (static.error_code, static.generation_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
        assert peer.state() == "Dead"
    joined = peer.member()
    assert peer.sync(joined, b"a").error_code == ErrorCode.NONE
    with peer.limit(OFFSETS_TOPIC, 75):
        assert peer.leave(joined) == LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, members=())
        assert peer.state() == "Empty"


def test_the_limit_is_that_of_the_whole_batch_to_the_byte(peer: Peer) -> None:
    peer.group_id = f"to-the-byte-{peer.group_id[-6:]}"
    with peer.limit(OFFSETS_TOPIC, 250):
        sizes = [length for length in range(150) if peer.commit((0, length)) == [ErrorCode.NONE]]
        assert sizes == list(range(len(sizes)))
    value = build_offset_commit_value(
        offset=1, leader_epoch=-1, metadata="x" * sizes[-1], commit_timestamp_ms=1, topic_id=b"t" * 16
    )
    batch = build_key_value_batch([(build_offset_commit_key(peer.group_id, peer.topic, 0), value)], 1)
    assert len(batch) == 250


@pytest.fixture
def producer(peer: Peer) -> Iterator[Producer]:
    """A transactional producer, and a topic of its own."""
    talk = Talk(peer.host, peer.port, f"{peer.topic}-t")
    peer.wait_for(talk.topic, 2)
    name = f"{peer.topic}-id"
    talk.wait_for_transactions(name)
    _, producer_id, epoch = talk.init(name)
    yield Producer(talk, name, producer_id, epoch)
    talk.client.close()


def test_what_the_transaction_coordinator_answers_when_its_topic_takes_no_batch(peer: Peer, producer: Producer) -> None:
    talk, name = producer.talk, producer.transactional_id
    assert producer.add(0) == f"{talk.topic}-0:NONE"
    with peer.limit(TRANSACTIONS_TOPIC, 100):
        assert producer.add(1) == f"{talk.topic}-1:UNKNOWN_SERVER_ERROR"
        assert producer.add(0) == f"{talk.topic}-0:NONE"  # nothing to write
        assert producer.add_group("g") == "UNKNOWN_SERVER_ERROR"
        assert producer.end(committed=True) == "UNKNOWN_SERVER_ERROR"
        assert talk.inited(name) == "UNKNOWN_SERVER_ERROR"
        assert talk.state(name).startswith("Ongoing epoch=0")
    assert producer.end(committed=True) == "NONE"
    assert talk.settled(name).startswith("CompleteCommit epoch=0")
    with peer.limit(TRANSACTIONS_TOPIC, 100):
        assert talk.inited(name) == talk.inited(f"{name}-2") == "UNKNOWN_SERVER_ERROR"
    assert talk.state(name).startswith("CompleteCommit epoch=0")


def test_offsets_of_a_transaction_that_are_too_large_are_refused(peer: Peer, producer: Producer) -> None:
    assert producer.add_group(peer.group_id) == "NONE"
    places = ((peer.topic, index, 1) for index in range(300))
    answered = producer.commit(peer.group_id, *places, metadata="x" * 4_096)
    assert {words.rpartition(":")[2] for words in answered.split()} == {"UNKNOWN_SERVER_ERROR"}
    assert producer.commit(peer.group_id, (peer.topic, 0, 1)) == f"{peer.topic}-0:NONE"
