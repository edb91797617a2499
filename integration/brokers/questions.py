"""What to ask three brokers over the wire, of kshim or of Kafka, and how to write down what they answer.

Every question is one that a wrong node, a stopped node or a moved partition can be asked. Ports and ids of topics are
replaced by names, so that the answers of both can be compared line by line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from kshim.tools.client import BrokerGone, Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kshim_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kshim_protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest
from kshim_protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.join_group import JoinGroupRequest
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kshim_protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kshim_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.messages.sync_group import SyncGroupRequest
from kshim_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kshim_protocol.partitioner import partition_for
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record
from kshim_protocol.schema import ZERO_UUID

SHARDS = 6
TOPIC = "spread"
_PATIENCE_S = 30.0


class Brokers:
    """Connections to three brokers; `ports[n]` is that of node n + 1."""

    def __init__(self, ports: list[int]) -> None:
        self._clients = [Client("127.0.0.1", port, client_id="questions", timeout_s=_PATIENCE_S) for port in ports]

    def ask(self, node_id: int, request: Any, version: int) -> Any:
        """One answer of one node."""
        return self._clients[node_id - 1].ask(request, version)

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.close()

    def until(self, node_id: int, request: Any, version: int, is_right: Callable[[Any], bool]) -> Any:
        """The first answer that is right: Kafka's nodes learn of changes one after the other."""
        deadline = time.monotonic() + _PATIENCE_S
        while not is_right(answer := self.ask(node_id, request, version)):
            if time.monotonic() > deadline:
                raise BrokerGone(f"still {answer!r}")
            time.sleep(0.1)
        return answer


def name(code: int) -> str:
    """The name of an error."""
    return ErrorCode(code).name


def make_topic(brokers: Brokers) -> bytes:
    """`TOPIC`, its id is returned: node n leads partition n - 1."""
    brokers.ask(
        1,
        CreateTopicsRequest(
            topics=(
                CreatableTopic(
                    name=TOPIC,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=tuple(
                        CreatableReplicaAssignment(partition_index=index, broker_ids=(index + 1,)) for index in range(3)
                    ),
                    configs=(),
                ),
            ),
            timeout_ms=30_000,
        ),
        7,
    )
    for node_id in (1, 2, 3):
        answer = brokers.until(node_id, _metadata(), 12, lambda answer: _leaders(answer) == [1, 2, 3])
    topic_id: bytes = answer.topics[0].topic_id
    return topic_id


def _metadata() -> MetadataRequest:
    return MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),), allow_auto_topic_creation=False)


def _leaders(answer: Any) -> list[int]:
    found = answer.topics[0]
    return [partition.leader_id for partition in found.partitions] if found.error_code == 0 else []


def batch(*values: bytes, **options: Any) -> bytes:
    """Records without a time."""
    return build_batch([Record(None, value, timestamp_ms=1) for value in values], **options)


def produce(*, acks: int = 1, index: int = 0, topic: str = TOPIC) -> ProduceRequest:
    """One record."""
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=index, records=batch(b"v")),))
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=(data,))


def fetch(
    *, epoch: int = -1, last: int = -1, offset: int = 0, index: int = 0, topic_id: bytes = ZERO_UUID
) -> FetchRequest:
    """By name or by id, without a wait."""
    wanted = FetchPartition(
        partition=index,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=(FetchTopic(topic=TOPIC if topic_id == ZERO_UUID else "", topic_id=topic_id, partitions=(wanted,)),),
    )


def list_offsets(*, epoch: int = -1, timestamp: int = -1, index: int = 0) -> ListOffsetsRequest:
    """One partition."""
    wanted = ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=(ListOffsetsTopic(name=TOPIC, partitions=(wanted,)),), timeout_ms=0
    )


def epoch_end(asked: int, *, epoch: int = -1, index: int = 0) -> OffsetForLeaderEpochRequest:
    """One partition."""
    wanted = OffsetForLeaderPartition(partition=index, current_leader_epoch=epoch, leader_epoch=asked)
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=(OffsetForLeaderTopic(topic=TOPIC, partitions=(wanted,)),))


def answers_about_records(brokers: Brokers) -> Iterator[str]:
    """Produce, Fetch and what else goes to leaders only, asked of leader and others, with epochs old and new."""
    topic_id = make_topic(brokers)
    for node_id in (1, 2):
        for version in (9, 10, 12):
            reply = brokers.ask(node_id, produce(), version)
            found = reply.responses[0].partition_responses[0]
            yield (
                f"produce v{version} at {node_id}: {name(found.error_code)} {found.base_offset} {found.error_message} "
                f"leader {found.current_leader.leader_id} endpoints {[each.node_id for each in reply.node_endpoints]}"
            )
        for version in (4, 12):
            found = brokers.ask(node_id, fetch(), version).responses[0].partitions[0]
            yield (
                f"fetch v{version} at {node_id}: {name(found.error_code)} {found.high_watermark} "
                f"{found.log_start_offset} {found.last_stable_offset} {len(found.records or b'') > 0} "
                f"leader {found.current_leader.leader_id}"
            )
        for version in (13, 16, 18):
            reply = brokers.ask(node_id, fetch(topic_id=topic_id), version)
            found = reply.responses[0].partitions[0]
            yield (
                f"fetch v{version} at {node_id}: {name(found.error_code)} leader {found.current_leader.leader_id} "
                f"{found.current_leader.leader_epoch} endpoints {[each.node_id for each in reply.node_endpoints]}"
            )
        for known in (0, 7):
            reply = brokers.ask(node_id, fetch(epoch=known), 12)
            yield f"fetch at {node_id} knowing epoch {known}: {name(reply.responses[0].partitions[0].error_code)}"
            found = brokers.ask(node_id, list_offsets(epoch=known), 7).topics[0].partitions[0]
            yield (
                f"list offsets at {node_id} knowing epoch {known}: {name(found.error_code)} {found.offset} "
                f"{found.leader_epoch}"
            )
            found = brokers.ask(node_id, epoch_end(0, epoch=known), 4).topics[0].partitions[0]
            yield (
                f"end of epoch 0 at {node_id} knowing {known}: {name(found.error_code)} {found.leader_epoch} "
                f"{found.end_offset}"
            )
        yield from _about_deleting(brokers, node_id)
    yield from _about_moved_records(brokers)


def _about_deleting(brokers: Brokers, node_id: int) -> Iterator[str]:
    wanted = DeleteRecordsTopic(name=TOPIC, partitions=(DeleteRecordsPartition(partition_index=2, offset=0),))
    reply = brokers.ask(node_id + 1, DeleteRecordsRequest(topics=(wanted,), timeout_ms=1_000), 2)
    found = reply.topics[0].partitions[0]
    yield f"delete records at {node_id + 1} of 3: {name(found.error_code)} {found.low_watermark}"
    asked = DescribeProducersRequest(topics=(TopicRequest(name=TOPIC, partition_indexes=(2,)),))
    found = brokers.ask(node_id + 1, asked, 0).topics[0].partitions[0]
    yield f"describe producers at {node_id + 1} of 3: {name(found.error_code)} {found.active_producers}"


def move(brokers: Brokers, index: int, to: int) -> None:
    """Reassign a partition and wait until all three know."""
    brokers.ask(1, reassign(index, (to,)), 0)

    def has_moved(answer: Any) -> bool:
        partition = next(each for each in answer.topics[0].partitions if each.partition_index == index)
        return bool(partition.leader_id == to and partition.replica_nodes == (to,))

    for node_id in (1, 2, 3):
        brokers.until(node_id, _metadata(), 12, has_moved)


def _about_moved_records(brokers: Brokers) -> Iterator[str]:
    """After a move: what the new leader knows of the epochs before. Kafka needs several for one reassignment."""
    found = brokers.ask(1, produce(), 9)
    old_end = found.responses[0].partition_responses[0].base_offset + 1
    move(brokers, 0, 3)
    brokers.until(3, list_offsets(), 7, lambda answer: answer.topics[0].partitions[0].error_code == 0)
    brokers.ask(3, produce(), 9)
    yield f"old leader: {name(brokers.ask(1, list_offsets(), 7).topics[0].partitions[0].error_code)}"
    found = brokers.ask(3, list_offsets(), 7).topics[0].partitions[0]
    epoch = found.leader_epoch
    yield f"end after a move and one record: {found.offset - old_end} more, in a later epoch: {epoch > 0}"
    found = brokers.ask(3, list_offsets(timestamp=-2), 7).topics[0].partitions[0]
    yield f"start after a move: {found.offset} in epoch {found.leader_epoch}"
    found = brokers.ask(3, epoch_end(0), 4).topics[0].partitions[0]
    yield f"end of the first epoch: {name(found.error_code)} {found.leader_epoch} {found.end_offset - old_end} more"
    for asked, what in ((epoch, "this"), (epoch + 1, "the next"), (-1, "none")):
        found = brokers.ask(3, epoch_end(asked), 4).topics[0].partitions[0]
        yield (
            f"end of {what} epoch: {name(found.error_code)} {'same' if found.leader_epoch == asked else 'other'} "
            f"{found.end_offset - old_end if found.end_offset >= 0 else -1}"
        )
    for known, what in ((epoch, "this"), (epoch - 1, "the last"), (epoch + 1, "the next")):
        reply = brokers.ask(3, fetch(epoch=known), 12).responses[0].partitions[0]
        yield f"fetch knowing {what} epoch: {name(reply.error_code)}"
    reply = brokers.ask(3, fetch(last=0, offset=old_end + 1), 12).responses[0].partitions[0]
    diverging = reply.diverging_epoch
    yield f"fetch behind the first epoch's end: {name(reply.error_code)} {diverging.epoch} {diverging.end_offset - old_end}"


def group_of(node_id: int, leaders: list[int]) -> str:
    """A group id that node coordinates."""
    return next(f"g{i}" for i in range(1_000) if leaders[partition_for(f"g{i}", SHARDS)] == node_id)


def shard_leaders(brokers: Brokers, key_type: int) -> list[int]:
    """Who leads the partitions of the topic of groups (0) or transactions (1), which is made if need be."""
    request = FindCoordinatorRequest(key="any", key_type=key_type)
    brokers.until(1, request, 3, lambda answer: answer.error_code == 0)
    topic_name = ("__consumer_offsets", "__transaction_state")[key_type]
    topic = MetadataRequest(topics=(MetadataRequestTopic(name=topic_name),), allow_auto_topic_creation=False)

    def is_complete(answer: Any) -> bool:
        return len(answer.topics[0].partitions) == SHARDS and all(
            each.leader_id > 0 for each in answer.topics[0].partitions
        )

    answers = [brokers.until(node_id, topic, 12, is_complete) for node_id in (1, 2, 3)]
    found = answers[0].topics[0].partitions
    return [each.leader_id for each in sorted(found, key=lambda each: each.partition_index)]


def join(group_id: str, member_id: str = "") -> JoinGroupRequest:
    """A member of the plainest kind."""
    return GroupMember(group_id, member_id).join(
        9,
        [("range", bytes(10))],
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
    )


def answers_about_groups(brokers: Brokers) -> Iterator[str]:
    """Group requests to a node that does not coordinate the group, in every version; some name several groups."""
    leaders = shard_leaders(brokers, 0)
    ours, theirs = group_of(1, leaders), group_of(2, leaders)
    brokers.until(1, OffsetFetchRequest(group_id=ours, topics=()), 7, lambda answer: answer.error_code == 0)
    for request, versions in (
        (join(theirs), range(10)),
        (SyncGroupRequest(group_id=theirs, generation_id=1, member_id="m", assignments=()), range(5)),
        (HeartbeatRequest(group_id=theirs, generation_id=1, member_id="m"), range(5)),
        (LeaveGroupRequest(group_id=theirs, member_id="m"), range(3)),
        (LeaveGroupRequest(group_id=theirs, members=(MemberIdentity(member_id="m"),)), range(3, 6)),
        (_commit(theirs), range(2, 10)),
        (_delete(theirs), range(1)),
        (_old_fetch(theirs), range(1, 8)),
    ):
        for version in versions:
            answer = brokers.ask(1, request, version)
            text = repr(answer).replace(theirs, "THEIRS").replace(ours, "OURS")
            yield f"{type(request).__name__} v{version}: {text}"
    yield from _about_several(brokers, theirs, ours)
    yield f"ListGroups: {brokers.ask(1, ListGroupsRequest(), 4).error_code}"


def _about_several(brokers: Brokers, theirs: str, ours: str) -> Iterator[str]:
    """Kafka answers them partition by partition, so in no order that means something."""
    for version in range(8, 10):
        answer = brokers.ask(1, _fetch_of(theirs, ours), version)
        yield from _sorted(f"OffsetFetch v{version}", answer.groups, theirs, ours)
    for version in range(7):
        answer = brokers.ask(1, DescribeGroupsRequest(groups=(theirs, ours)), version)
        yield from _sorted(f"DescribeGroups v{version}", answer.groups, theirs, ours)
    for version in range(3):
        answer = brokers.ask(1, DeleteGroupsRequest(groups_names=(theirs, ours)), version)
        yield from _sorted(f"DeleteGroups v{version}", answer.results, theirs, ours)


def _sorted(what: str, found: tuple[Any, ...], theirs: str, ours: str) -> list[str]:
    return sorted(f"{what}: {each!r}".replace(theirs, "THEIRS").replace(ours, "OURS") for each in found)


def _commit(group_id: str) -> OffsetCommitRequest:
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=i, committed_offset=1, committed_metadata="") for i in (0, 1)
    )
    return OffsetCommitRequest(
        group_id=group_id, member_id="", topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=partitions),)
    )


def _delete(group_id: str) -> OffsetDeleteRequest:
    partitions = (OffsetDeleteRequestPartition(partition_index=0),)
    return OffsetDeleteRequest(group_id=group_id, topics=(OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions),))


def _old_fetch(group_id: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        group_id=group_id, topics=(OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0, 1)),)
    )


def _fetch_of(*group_ids: str) -> OffsetFetchRequest:
    topics = (OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,)),)
    return OffsetFetchRequest(
        groups=tuple(OffsetFetchRequestGroup(group_id=group_id, topics=topics) for group_id in group_ids)
    )


def reassign(index: int, replicas: tuple[int, ...] | None, topic: str = TOPIC) -> AlterPartitionReassignmentsRequest:
    """One partition."""
    wanted = ReassignableTopic(
        name=topic, partitions=(ReassignablePartition(partition_index=index, replicas=replicas),)
    )
    return AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=(wanted,))


def answers_about_elections(brokers: Brokers) -> Iterator[str]:
    """Elections and reassignments that need nothing done, or cannot be done."""
    for version in (0, 2):
        for election_type in (0, 1) if version else (0,):
            for topic, index in ((TOPIC, 1), (TOPIC, 9), ("nothing", 0)):
                places = (TopicPartitions(topic=topic, partitions=(index,)),)
                request = ElectLeadersRequest(election_type=election_type, topic_partitions=places, timeout_ms=10_000)
                reply = brokers.ask(1, request, version)
                results = [
                    (each.topic, result.partition_id, name(result.error_code))
                    for each in reply.replica_election_results
                    for result in each.partition_result
                ]
                yield f"elect {election_type} v{version} of {topic}-{index}: {name(reply.error_code)} {results}"
    reply = brokers.ask(1, ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000), 2)
    elected = tuple(sorted(reply.replica_election_results, key=lambda each: each.topic))  # in Kafka in any order
    yield f"elect all: {name(reply.error_code)} {elected}"
    for topic, index, replicas in (
        (TOPIC, 1, ()),
        (TOPIC, 1, (2, 2)),
        (TOPIC, 1, (9,)),
        (TOPIC, 1, (-1,)),
        (TOPIC, 1, None),
        (TOPIC, 9, (1,)),
        ("nothing", 0, (1,)),
        (TOPIC, 1, (2,)),
    ):
        reply = brokers.ask(1, reassign(index, replicas, topic), 0)
        result = reply.responses[0].partitions[0]
        has_text = result.error_message is not None
        yield f"reassign {topic}-{index} to {replicas}: {name(reply.error_code)} {name(result.error_code)} {has_text}"
    refused = reassign(1, (1, 2))
    refused.allow_replication_factor_change = False  # type: ignore[misc]
    result = brokers.ask(1, refused, 1).responses[0].partitions[0]
    yield f"reassign with another factor: {name(result.error_code)}"
    yield f"reassignments: {brokers.ask(1, ListPartitionReassignmentsRequest(topics=None), 0)}"


def answers_about_transactions(brokers: Brokers) -> Iterator[str]:
    """Transactional requests to a node that does not coordinate the id, in every version for clients."""
    leaders = shard_leaders(brokers, 1)
    theirs = group_of(2, leaders)
    groups = group_of(2, shard_leaders(brokers, 0))
    producer: dict[str, Any] = {"transactional_id": theirs, "producer_id": 1, "producer_epoch": 0}
    topic = AddPartitionsToTxnTopic(name=TOPIC, partitions=(0, 1))
    offsets = TxnOffsetCommitRequestTopic(
        name=TOPIC,
        partitions=(TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=""),),
    )
    requests: list[tuple[Any, range]] = [
        (InitProducerIdRequest(transactional_id=theirs, transaction_timeout_ms=10_000), range(6)),
        (
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=theirs,
                v3_and_below_producer_id=1,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=(topic,),
            ),
            range(4),
        ),
        (AddOffsetsToTxnRequest(**producer, group_id=groups), range(5)),
        (EndTxnRequest(**producer, committed=True), range(5)),
        (TxnOffsetCommitRequest(**producer, group_id=groups, topics=(offsets,)), range(5)),
        (DescribeTransactionsRequest(transactional_ids=(theirs,)), range(1)),
    ]
    for request, versions in requests:
        for version in versions:
            answer = brokers.ask(1, request, version)
            yield f"{type(request).__name__} v{version}: {answer!r}".replace(theirs, "THEIRS")
