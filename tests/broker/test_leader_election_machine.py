"""Nodes stop and start, partitions move, leaders are elected, the process restarts: in any order, by hypothesis.

Nothing that was acknowledged is lost or doubled, every partition has one live leader if any node is live, epochs only
grow, the log says of each record the epoch it was written in, and members of groups stay members.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.elect_leaders import ElectLeadersRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest
from kshim_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kshim_protocol.messages.sync_group import SyncGroupRequest
from kshim_protocol.partitioner import partition_for
from kshim_protocol.records.batch import parse_batch_header
from kshim_protocol.records.record import iter_records
from tests.broker.data_plane import a_batch, produce
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in

NODES, PARTITIONS, SHARDS = 3, 2, 2
GROUPS = ("g0", "g1", "g2")
PRODUCER_ID = 9

nodes = st.integers(1, NODES)
partitions = st.integers(0, PARTITIONS - 1)


class Moving(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._acknowledged: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self._epochs_seen: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]  # by offset, as acknowledged
        self._sent = 0
        self._sequences = [0] * PARTITIONS
        self._members: dict[str, str] = {}
        self._node = self._started()

    def _started(self) -> NodeUnderTest:
        config = {"offsets.topic.num.partitions": str(SHARDS), "group.initial.rebalance.delay.ms": "0"}
        node = a_node(config, storage=files_in(Path(self._folder.name)), node_count=NODES)
        node.run_background_tasks()
        return node

    @initialize()
    def make_topics(self) -> None:
        self._node.topic("orders", PARTITIONS)
        self._node.cluster.groups.topic()

    @property
    def _live(self) -> list[int]:
        return self._node.cluster.leadership.live_ids

    def _leader(self, topic: str, index: int) -> Client:
        return self._node.client(node_id=self._node.cluster.leader_of(topic, index))

    @rule(node_id=nodes)
    def stop(self, node_id: int) -> None:
        self._node.cluster.leader_election.stop_node(node_id)

    @rule(node_id=nodes)
    def start(self, node_id: int) -> None:
        self._node.cluster.leader_election.start_node(node_id)

    @rule(node_id=nodes, index=partitions, topic=st.sampled_from(["orders", OFFSETS_TOPIC]))
    def move(self, node_id: int, index: int, topic: str) -> None:
        if node_id in self._live:
            self._node.cluster.leader_election.move(topic, index, node_id)
            assert self._node.cluster.leader_of(topic, index) == node_id
        else:
            with pytest.raises(ValueError, match="stopped"):
                self._node.cluster.leader_election.move(topic, index, node_id)

    @precondition(lambda self: self._live)
    @rule()
    def elect_preferred_leaders(self) -> None:
        self._node.client(node_id=self._live[0]).ask(ElectLeadersRequest(topic_partitions=None))
        for topic in self._node.cluster.topics:
            for partition in topic.partitions:
                if partition.leader.preferred_id in self._live:
                    assert partition.leader.leader_id == partition.leader.preferred_id

    @precondition(lambda self: self._live)
    @rule(index=partitions, node_id=nodes)
    def produce_at_any_node(self, index: int, node_id: int) -> None:
        """Whoever is not live answers nothing; whoever does not lead refuses; the producer's numbers stay in step."""
        if node_id not in self._live:
            return
        value = str(self._sent).encode()
        self._sent += 1
        batch = a_batch(value, producer_id=PRODUCER_ID + index, producer_epoch=0, base_sequence=self._sequences[index])
        answer = produce(self._node.client(node_id=node_id), "orders", batch, first_partition=index)
        if self._node.cluster.leader_of("orders", index) != node_id:
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            return
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, len(self._acknowledged[index]))
        found = self._node.cluster.topics.partition("orders", index)
        assert found is not None
        self._epochs_seen[index][answer.base_offset] = found.leader.leader_epoch
        self._acknowledged[index].append(value)
        self._sequences[index] += 1

    @precondition(lambda self: self._live)
    @rule(index=partitions)
    def repeat_the_last_batch(self, index: int) -> None:
        if not self._sequences[index]:
            return
        sequence = self._sequences[index] - 1
        value = self._acknowledged[index][-1]
        batch = a_batch(value, producer_id=PRODUCER_ID + index, producer_epoch=0, base_sequence=sequence)
        answer = produce(self._leader("orders", index), "orders", batch, first_partition=index)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, len(self._acknowledged[index]) - 1)

    @precondition(lambda self: self._live)
    @rule(group_id=st.sampled_from(GROUPS))
    def join_alone(self, group_id: str) -> None:
        if group_id in self._members:
            return
        self._node.run_background_tasks()
        client = self._leader(OFFSETS_TOPIC, partition_for(group_id, SHARDS))
        member_id = client.ask(_join(group_id, ""), 5).member_id
        assert client.ask(_join(group_id, member_id), 5).error_code == ErrorCode.NONE
        synced = client.ask(
            SyncGroupRequest(group_id=group_id, generation_id=1, member_id=member_id, assignments=()), 3
        )
        assert synced.error_code == ErrorCode.NONE
        self._members[group_id] = member_id

    @precondition(lambda self: self._live)
    @rule(group_id=st.sampled_from(GROUPS))
    def beat(self, group_id: str) -> None:
        """In its first generation, wherever the coordinator is by now; nowhere else."""
        if group_id not in self._members:
            return
        self._node.run_background_tasks()
        request = HeartbeatRequest(group_id=group_id, generation_id=1, member_id=self._members[group_id])
        coordinator = self._node.cluster.leader_of(OFFSETS_TOPIC, partition_for(group_id, SHARDS))
        for node_id in self._live:
            expected = ErrorCode.NONE if node_id == coordinator else ErrorCode.NOT_COORDINATOR
            assert self._node.client(node_id=node_id).ask(request, 3).error_code == expected

    @rule()
    def restart(self) -> None:
        before = {topic.name: [each.leader for each in topic.partitions] for topic in self._node.cluster.topics}
        self._node.close()
        self._node = self._started()
        after = {topic.name: [each.leader for each in topic.partitions] for topic in self._node.cluster.topics}
        assert after == before

    @invariant()
    def every_partition_has_a_live_leader_if_any_node_is_live(self) -> None:
        for topic in self._node.cluster.topics:
            for partition in topic.partitions:
                assert not self._live or partition.leader.leader_id in self._live

    @invariant()
    def each_acknowledged_record_is_there_once_in_its_epoch(self) -> None:
        topic = self._node.cluster.topics.named("orders")
        if topic is None:
            return
        for partition, values, epochs in zip(topic.partitions, self._acknowledged, self._epochs_seen, strict=True):
            batches = list(partition.log.batches())
            assert [record.value for batch in batches for record in iter_records(batch)] == values
            stamped = {header.base_offset: header.partition_leader_epoch for header in map(parse_batch_header, batches)}
            assert stamped == epochs
            assert {offset: partition.epoch_at(offset) for offset in epochs} == epochs

    @precondition(lambda self: self._live)
    @invariant()
    def the_leader_knows_where_each_epoch_ends(self) -> None:
        for index, epochs in enumerate(self._epochs_seen):
            for epoch in set(epochs.values()):
                wanted = OffsetForLeaderPartition(partition=index, current_leader_epoch=-1, leader_epoch=epoch)
                topics = (OffsetForLeaderTopic(topic="orders", partitions=(wanted,)),)
                request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
                answer = self._leader("orders", index).ask(request).topics[0].partitions[0]
                last = max(offset for offset, written in epochs.items() if written == epoch)
                assert (answer.leader_epoch, answer.end_offset) == (epoch, last + 1)

    def teardown(self) -> None:
        self._node.close()
        self._folder.cleanup()


def test_groups_go_on_at_the_node_that_was_stopped_last_and_starts_first() -> None:
    state = Moving()
    try:
        state.make_topics()
        state.join_alone("g0")
        for node_id in (1, 2, 3):
            state.stop(node_id)
        state.start(3)
        state.beat("g0")
    finally:
        state.teardown()


def _join(group_id: str, member_id: str) -> JoinGroupRequest:
    return GroupMember(group_id, member_id).join(
        9, [("range", b"meta")], session_timeout_ms=10_000, rebalance_timeout_ms=10_000
    )


TestMoving = Moving.TestCase
TestMoving.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
