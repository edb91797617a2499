"""What tests ask of a true Kafka beside their own clients: topics, records, groups. Blocking, over PLAINTEXT."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from kshim.harness.groups import GroupView, MemberView, Partitions, read_assignment, unassigned_of
from kshim.harness.record import Record
from kshim.harness.records import place_of, visible_records, wire_record
from kshim.tools.client import BrokerGone, Client
from kshim.tools.logs import SourceError
from kshim.tools.logs.broker import BrokerLogs
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.frame import ProtocolError
from kshim_protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.scan import Batch
from kshim_protocol.schema import Request

T = TypeVar("T")
Address = tuple[str, int]

PATIENCE_S: Final = 30.0
"""How long a cluster may take to do what it was asked for."""
_PAUSE_S: Final = 0.05
_CLIENT_ID: Final = "kshim-pytest"
_VERSIONS: Final[dict[type, int]] = {
    CreateTopicsRequest: 5,
    DeleteGroupsRequest: 2,
    DeleteTopicsRequest: 5,
    DescribeGroupsRequest: 5,
    FindCoordinatorRequest: 3,
    LeaveGroupRequest: 4,
    ListGroupsRequest: 4,
    MetadataRequest: 9,
    OffsetFetchRequest: 7,
    ProduceRequest: 8,
}
"""Those that every Kafka from 2.8 on answers."""
_LATER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)


class KafkaAdmin:
    """Connections to the brokers of a cluster. It may be used by any thread.

    Everything raises ConnectionError where no broker answers, and KafkaError as the broker answers.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        """Raises ValueError."""
        self._bootstrap = [_address(each) for each in bootstrap_servers.split(",")]
        self._clients: dict[Address, Client] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    # Topics and records

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Make a topic; returns once each of its partitions has a leader."""
        entries = tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items())
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=-1, assignments=(), configs=entries
        )
        (answer,) = self._ask(CreateTopicsRequest(topics=(topic,))).topics
        _require(answer.error_code, answer.error_message)
        until(lambda: len(self.leaders(name)) == partitions or None, PATIENCE_S, lambda: f"topic {name} has no leaders")

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics, those that there are; returns once they are gone."""
        if not names:
            return
        self._ask(DeleteTopicsRequest(topic_names=tuple(names), timeout_ms=int(PATIENCE_S * 1_000)))
        until(
            lambda: all(not self.leaders(name) for name in names) or None,
            PATIENCE_S,
            lambda: f"topics {', '.join(names)} are still there",
        )

    def leaders(self, topic: str) -> dict[int, Address]:
        """The leader of each partition that has one. Empty, when there is no such topic."""
        wanted = MetadataRequestTopic(name=topic)
        answer = self._ask(MetadataRequest(topics=(wanted,), allow_auto_topic_creation=False))
        nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        return {
            partition.partition_index: nodes[partition.leader_id]
            for partition in answer.topics[0].partitions
            if partition.leader_id in nodes
        }

    def produce(self, topic: str, records: Sequence[Record]) -> list[Record]:
        """Write records with acks=all; see `Kshim.produce`. Raises LookupError."""
        leaders = self._leaders(topic)
        now_ms = time.time_ns() // 1_000_000
        written = []
        for turn, record in enumerate(records):
            index = place_of(record, len(leaders), turn)
            if index not in leaders:
                raise LookupError(f"topic {topic} has the partitions 0 to {len(leaders) - 1}, and no {index}")
            stamped = wire_record(record, now_ms)
            data = PartitionProduceData(index=index, records=build_batch([stamped]))
            request = ProduceRequest(
                acks=-1,
                timeout_ms=int(PATIENCE_S * 1_000),
                topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
            )
            answer = self._retried(
                lambda request=request, index=index: (
                    self._ask(request, self._leaders(topic)[index])  # type: ignore[misc]
                    .responses[0]
                    .partition_responses[0]
                )
            )
            written.append(
                record._replace(partition=index, offset=answer.base_offset, timestamp_ms=stamped.timestamp_ms)
            )
        return written

    def records(self, topic: str, partition: int | None, isolation: str) -> list[Record]:
        """See `Kshim.records`. Raises LookupError."""
        with self._logs(topic) as logs:
            indexes = logs.partitions(topic)
            if partition is not None and partition not in indexes:
                raise LookupError(f"topic {topic} has the partitions 0 to {len(indexes) - 1}, and no {partition}")
            found: list[Record] = []
            for index in indexes if partition is None else [partition]:
                start, _ = logs.offsets(topic, index)
                batches = (batch.data for batch in logs.read(topic, index, start) if isinstance(batch, Batch))
                found.extend(visible_records(batches, index, start, isolation))
            return found

    def offsets_of(self, topic: str, partition: int) -> tuple[int, int]:
        """Start and end of a partition's log. Raises LookupError."""
        with self._logs(topic) as logs:
            logs.partitions(topic)
            return logs.offsets(topic, partition)

    # Groups

    def group_ids(self) -> list[str]:
        """Every group of every broker, sorted."""
        nodes = [(broker.host, broker.port) for broker in self._ask(MetadataRequest(topics=())).brokers]
        found: set[str] = set()
        for node in nodes:
            answer = self._ask(ListGroupsRequest(), node)
            _require(answer.error_code)
            found.update(group.group_id for group in answer.groups)
        return sorted(found)

    def group(self, group_id: str) -> GroupView:
        """A group as it is now; the generation, which Kafka does not say, is -1."""
        group = self._of_group(group_id, DescribeGroupsRequest(groups=(group_id,)), lambda answer: answer.groups[0])
        is_synced, is_consumer_group = group.group_state == "Stable", group.protocol_type == "consumer"
        unassigned: Partitions = ()
        if is_synced and is_consumer_group:
            unassigned = unassigned_of(
                [member.member_metadata for member in group.members],
                [member.member_assignment for member in group.members],
                lambda topic: len(self.leaders(topic)),
            )
        members = tuple(
            MemberView(
                member.member_id,
                member.client_id,
                member.client_host.removeprefix("/"),
                member.group_instance_id,
                (read_assignment(member.member_assignment) or ()) if is_consumer_group else (),
                is_leader=False,
                is_synced=is_synced,
                session_timeout_ms=-1,
            )
            for member in group.members
        )
        return GroupView(
            group_id,
            group.group_state,
            -1,
            group.protocol_data or None,
            members,
            is_synced=is_synced,
            unassigned=unassigned,
        )

    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """The committed offset of each partition."""
        answer = self._of_group(group_id, OffsetFetchRequest(group_id=group_id, topics=None), lambda answer: answer)
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in answer.topics
            for partition in topic.partitions
            if partition.committed_offset >= 0
        }

    def remove_member(self, group_id: str, member: MemberView) -> None:
        """Remove a member as an administrator does."""
        identity = MemberIdentity(
            member_id="" if member.instance_id else member.member_id, group_instance_id=member.instance_id
        )
        answer = self._of_group(
            group_id, LeaveGroupRequest(group_id=group_id, members=(identity,)), lambda answer: answer
        )
        _require(answer.members[0].error_code)

    def delete_group(self, group_id: str) -> None:
        """Delete a group, where that is possible: it has no members."""
        self._ask(DeleteGroupsRequest(groups_names=(group_id,)), self._coordinator(group_id))

    # How

    def _of_group(self, group_id: str, request: Request[Any], part: Callable[[Any], Any]) -> Any:
        return self._retried(lambda: part(self._ask(request, self._coordinator(group_id))))

    def _coordinator(self, group_id: str) -> Address:
        answer = self._retried(lambda: self._ask(FindCoordinatorRequest(key=group_id)))
        return answer.host, answer.port

    def _retried(self, ask: Callable[[], Any]) -> Any:
        """An answer without an error, as soon as there is one. Raises KafkaError."""
        deadline = time.monotonic() + PATIENCE_S
        while (answer := ask()).error_code in _LATER and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        _require(answer.error_code, getattr(answer, "error_message", None))
        return answer

    def _leaders(self, topic: str) -> dict[int, Address]:
        """Raises LookupError."""
        leaders = self.leaders(topic)
        if not leaders:
            raise LookupError(f"there is no topic {topic}: create it with create_topic")
        return leaders

    @contextmanager
    def _logs(self, topic: str) -> Iterator[BrokerLogs]:
        """Raises LookupError."""
        self._leaders(topic)
        try:
            logs = BrokerLogs(*self._bootstrap[0], client_id=_CLIENT_ID)
        except SourceError as error:
            raise ConnectionError(str(error)) from None
        try:
            yield logs
        finally:
            logs.close()

    def _ask(self, request: Request[Any], node: Address | None = None) -> Any:
        """Raises ConnectionError."""
        failures = []
        with self._lock:
            for address in [node] if node is not None else self._bootstrap:
                for _ in range(2):  # the broker closes connections that were idle for long
                    try:
                        return self._client(address).ask(request, _VERSIONS[type(request)])
                    except (BrokerGone, ProtocolError, TimeoutError) as error:
                        failures.append(f"{address[0]}:{address[1]}: {error}")
                        self._drop(address)
        raise ConnectionError("; ".join(dict.fromkeys(failures)))

    def _client(self, address: Address) -> Client:
        if address not in self._clients:
            self._clients[address] = Client(*address, client_id=_CLIENT_ID, timeout_s=PATIENCE_S)
        return self._clients[address]

    def _drop(self, address: Address) -> None:
        client = self._clients.pop(address, None)
        if client is not None:
            client.close()


def until(look: Callable[[], T | None], timeout_s: float, describe: Callable[[], str]) -> T:
    """What `look` returns as soon as that is not None. A true Kafka calls nobody, so it is asked again and again.

    Raises TimeoutError.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(describe())
        time.sleep(_PAUSE_S)


def _address(text: str) -> Address:
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{text!r} must be HOST:PORT")
    return host.strip("[]"), int(port)


def _require(error_code: int, message: str | None = None) -> None:
    """Raises KafkaError."""
    if error_code:
        raise KafkaError(ErrorCode(error_code), message)
