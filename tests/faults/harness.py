"""Rules on a node without sockets or clocks, and requests for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kshim.faults.document import rule_from_document
from kshim.faults.faults import Fault, Faults
from kshim.faults.injection import FaultInjector
from kshim_protocol.apis import api_named
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record
from tests.broker.harness import Client, NodeUnderTest


def faults_of(node: NodeUnderTest) -> Faults:
    """The faults of a node."""
    return FaultInjector(node.cluster, list(node.nodes.values()), lambda: node.now).faults


def arm(faults: Faults, on: str, do: object, when: object = "once", **match: object) -> Fault:
    """Put a rule in force that is given as data."""
    return faults.arm(rule_from_document({"on": on, "match": match, "do": do, "when": when}))


class RawClient(Client):
    """Keeps answers as the frames they are."""

    frames: list[bytes]

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        """See `Connection.reply`."""
        assert self.hung_up is None, "a reply after the end"
        self._asked.popleft()
        self.frames = [*getattr(self, "frames", []), b"".join((frame or b"", *rest))]


def a_heartbeat(
    group: str = "g", generation: int = 1, member: str = "m", instance: str | None = None
) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member, group_instance_id=instance)


def a_commit(group: str = "g", /, **topics: int) -> OffsetCommitRequest:
    """A simple commit of offset 5 in so many partitions of each topic."""
    rows = tuple(
        OffsetCommitRequestTopic(
            name=name,
            partitions=tuple(
                OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="")
                for index in range(count)
            ),
        )
        for name, count in topics.items()
    )
    return OffsetCommitRequest(group_id=group, member_id="", topics=rows)


def a_produce(acks: int = 1, **topics: int) -> ProduceRequest:
    """One record for each of so many partitions of each topic."""
    batch = build_batch([Record(None, b"v", timestamp_ms=1)])
    rows = tuple(
        TopicProduceData(
            name=name, partition_data=tuple(PartitionProduceData(index=index, records=batch) for index in range(count))
        )
        for name, count in topics.items()
    )
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=rows)


def a_fetch(max_wait_ms: int = 0, session: tuple[int, int] = (0, -1), **topics: int) -> FetchRequest:
    """A fetch from the beginning of so many partitions of each topic."""
    rows = tuple(
        FetchTopic(
            topic=name,
            partitions=tuple(
                FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(count)
            ),
        )
        for name, count in topics.items()
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, topics=rows, session_id=session[0], session_epoch=session[1]
    )


def a_join(member_id: str = "", group: str = "g") -> JoinGroupRequest:
    return GroupMember(group, member_id).join(
        9, [("range", b"meta")], session_timeout_ms=10_000, rebalance_timeout_ms=20_000
    )


def a_sync(member_id: str, generation: int = 1, group: str = "g") -> SyncGroupRequest:
    """The leader's own assignment."""
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(SyncGroupRequestAssignment(member_id=member_id, assignment=b"a"),),
    )


def joined(client: Client, group: str = "g") -> JoinGroupResponse:
    """The answer to a member that ends up in the group, alone."""
    return client.ask(a_join(client.ask(a_join(group=group), 9).member_id, group), 9)


def codes(answer: Any) -> list[Any]:
    """The names and codes of an answer, as ("orders", 0, 16), in order."""
    found = []
    topics: tuple[Any, ...] = getattr(answer, "topics", None) or answer.responses
    for topic in topics:
        partitions: tuple[Any, ...] = getattr(topic, "partitions", None) or topic.partition_responses
        name = getattr(topic, "name", None) or getattr(topic, "topic", None)
        for partition in partitions:
            index = getattr(partition, "partition_index", getattr(partition, "index", None))
            found.append((name, index, partition.error_code))
    return sorted(found)


def newest(api: str) -> int:
    """The newest version of an API."""
    return api_named(api).max_version
