"""Logs behind a broker, by Fetch: all that consumers may see, transactions of any outcome and their markers included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any

from kshim.tools.client import PLAINTEXT, BrokerGone, Client
from kshim.tools.client_security import Security
from kshim.tools.logs import NoTopic, SourceError
from kshim.tools.logs.ids import uuid_text
from kshim_protocol.apis import API_TABLE
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.records.batch import iter_batches, parse_batch_header
from kshim_protocol.records.scan import Batch, Damage, checked
from kshim_protocol.schema import ZERO_UUID, Request

EARLIEST = -2
LATEST = -1

_NEWEST_BY_NAME = {
    "Fetch": 12, "Metadata": 12, "ListOffsets": 7, "DescribeConfigs": 4, "ListGroups": 5, "DescribeGroups": 5, "FindCoordinator": 3,
    "ConsumerGroupDescribe": 1,
}  # fmt: skip
"""The newest version of each API that is asked for: Fetch takes topics by name up to 12."""

_PARTITION_MAX_BYTES = 1 << 20
_MAX_EMPTY_ANSWERS = 20
_TOPIC_RESOURCE = 2
_DYNAMIC_TOPIC_CONFIG = 1


class BrokerLogs:
    """The partitions of a cluster, each read from its leader. Raises SourceError when `host:port` is no broker."""

    def __init__(
        self, host: str, port: int, *, client_id: str, timeout_s: float = 30.0, security: Security = PLAINTEXT
    ) -> None:
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._security = security
        self._name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._clients: dict[tuple[str, int], Client] = {}
        self._bootstrap = (host, port)
        self._versions: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
        self._leaders: dict[tuple[str, int], tuple[str, int]] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._cluster_id: str | None = self._ask(
            self._bootstrap, MetadataRequest(topics=(), allow_auto_topic_creation=False)
        ).cluster_id

    def __str__(self) -> str:
        return self._name

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, in order. Raises SourceError when there is no such topic."""
        wanted = MetadataRequestTopic(name=topic)
        answer = self._ask(self._bootstrap, MetadataRequest(topics=(wanted,), allow_auto_topic_creation=False))
        nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        (found,) = answer.topics
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NoTopic(f"{self} has no topic {topic}")
        self._require(found.error_code, f"the topic {topic}")
        self._topic_ids[topic] = found.topic_id
        for partition in found.partitions:
            if partition.leader_id not in nodes:
                raise SourceError(f"{topic}-{partition.partition_index} has no leader")
            self._leaders[topic, partition.partition_index] = nodes[partition.leader_id]
        return sorted(partition.partition_index for partition in found.partitions)

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic whose partitions were asked for; None when the broker knows none."""
        found = self._topic_ids.get(topic, ZERO_UUID)
        return None if found == ZERO_UUID else uuid_text(found)

    def cluster_id(self) -> str | None:
        """The cluster's id; None if the broker is too old to report it."""
        return self._cluster_id

    def configs(self, topic: str) -> dict[str, str]:
        """What was set for this topic itself. Raises SourceError."""
        resource = DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
        (result,) = self._ask(self._bootstrap, DescribeConfigsRequest(resources=(resource,))).results
        self._require(result.error_code, f"the configuration of {topic}")
        return {
            entry.name: entry.value
            for entry in result.configs
            if entry.config_source == _DYNAMIC_TOPIC_CONFIG and entry.value is not None
        }

    def read(self, topic: str, partition: int, start: int = 0) -> Iterator[Batch | Damage]:
        """What the log holds now that reaches `start` or beyond, in offset order; not what comes while it is read.

        Raises SourceError.
        """
        begin, end = self.offsets(topic, partition)
        position = max(start, begin)
        empty_answers = 0
        while position < end:
            answer = self._fetch(topic, partition, position)
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and answer.log_start_offset > position:
                position = answer.log_start_offset  # what stood there was deleted meanwhile
                continue
            self._require(answer.error_code, f"{topic}-{partition} at offset {position}")
            before = position
            for data in self._whole(answer.records or b"", topic, partition):
                header = parse_batch_header(data)
                if header.base_offset >= end:
                    return
                if header.last_offset >= position:
                    position = header.last_offset + 1
                    yield checked(data, f"{topic}-{partition} of {self}")
            empty_answers = empty_answers + 1 if position == before else 0
            if empty_answers == _MAX_EMPTY_ANSWERS:
                raise SourceError(f"{self} returned no records of {topic}-{partition} from offset {position} to {end}")

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """(start, end) of a log as consumers see it. Raises SourceError."""
        return self._offset(topic, partition, EARLIEST), self._offset(topic, partition, LATEST)

    def ends(self, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Where logs end, as far as the cluster says it now: one request to each leader. Raises SourceError: it has gone."""
        self._find_leaders({each[0] for each in partitions if each not in self._leaders})
        wanted: dict[tuple[str, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for topic, partition in partitions:
            if (topic, partition) in self._leaders:
                wanted[self._leaders[topic, partition]][topic].append(partition)
        found: dict[tuple[str, int], int] = {}
        for leader, topics in wanted.items():
            rows = tuple(
                ListOffsetsTopic(
                    name=topic,
                    partitions=tuple(ListOffsetsPartition(partition_index=each, timestamp=LATEST) for each in mine),
                )
                for topic, mine in topics.items()
            )
            try:
                answer = self._ask(leader, ListOffsetsRequest(replica_id=-1, topics=rows))
            except SourceError:
                answer = None
            for row in () if answer is None else answer.topics:
                for each in row.partitions:
                    if each.error_code == ErrorCode.NONE:
                        found[row.name, each.partition_index] = each.offset
            for topic, mine in topics.items():
                for partition in mine:
                    if (topic, partition) not in found:
                        del self._leaders[topic, partition]  # it has moved, or is no more: ask next time
        return found

    def _find_leaders(self, topics: Collection[str]) -> None:
        if not topics:
            return
        wanted = tuple(MetadataRequestTopic(name=topic) for topic in sorted(topics))
        answer = self._ask(self._bootstrap, MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.leader_id in nodes:
                    self._leaders[topic.name, partition.partition_index] = nodes[partition.leader_id]

    def serves(self, node: tuple[str, int], request: type[Request[Any]]) -> bool:
        """Whether a broker that was asked before has an API."""
        return request.info.api_key in self._versions.get(node, {})

    def end_offset(self, topic: str, partition: int) -> int:
        """Where a log ends that holds nothing. Raises SourceError."""
        return self._offset(topic, partition, LATEST)

    def nodes(self) -> list[tuple[str, int]]:
        """Where the brokers of the cluster listen. Raises SourceError."""
        answer = self._ask(self._bootstrap, MetadataRequest(topics=(), allow_auto_topic_creation=False))
        return [(broker.host, broker.port) for broker in answer.brokers]

    def ask(self, node: tuple[str, int] | None, request: Request[Any]) -> Any:
        """The answer of a broker, of any one if it is None. Raises SourceError, also if it does not speak any version of that."""
        return self._ask(node or self._bootstrap, request)

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def _whole(self, records: bytes, topic: str, partition: int) -> Iterator[bytes]:
        try:
            yield from iter_batches(records)
        except ProtocolError as error:
            raise SourceError(f"{topic}-{partition} of {self}: {error.reason}") from None

    def _fetch(self, topic: str, partition: int, position: int) -> Any:
        wanted = FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=_PARTITION_MAX_BYTES)
        answer = self._ask(
            self._leaders[topic, partition],
            FetchRequest(max_wait_ms=100, min_bytes=1, topics=(FetchTopic(topic=topic, partitions=(wanted,)),)),
        )
        self._require(answer.error_code, f"{topic}-{partition}")
        return answer.responses[0].partitions[0]

    def _offset(self, topic: str, partition: int, marker: int) -> int:
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=marker)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(wanted,)),))
        answer = self._ask(self._leaders[topic, partition], request).topics[0].partitions[0]
        self._require(answer.error_code, f"{topic}-{partition}")
        offset: int = answer.offset
        return offset

    def _require(self, error_code: int, what: str) -> None:
        if error_code != ErrorCode.NONE:
            known = error_code in ErrorCode._value2member_map_
            name = ErrorCode(error_code).name if known else f"error {error_code}"
            raise SourceError(f"{self} refused {what}: {name}")

    def _ask(self, node: tuple[str, int], request: Request[Any]) -> Any:
        try:
            client = self._client(node)
            return client.ask(request, self._version(node, request.info.api_key))
        except (BrokerGone, ProtocolError, TimeoutError) as error:
            if node in self._clients:
                self._clients.pop(node).close()  # the next request makes another one
            address, reason = f"{node[0]}:{node[1]}", str(error)
            raise SourceError(reason if address in reason else f"{address}: {reason}") from None

    def _client(self, node: tuple[str, int]) -> Client:
        client = self._clients.get(node)
        if client is None:
            client = Client(*node, client_id=self._client_id, timeout_s=self._timeout_s, security=self._security)
            self._clients[node] = client
            answer = client.ask(ApiVersionsRequest(), 0)
            self._require(answer.error_code, "its API versions")
            self._versions[node] = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        return client

    def _version(self, node: tuple[str, int], api_key: int | None) -> int:
        assert api_key is not None
        api = API_TABLE[api_key]
        first, last = self._versions[node].get(api_key, (0, -1))
        version = min(last, _NEWEST_BY_NAME[api.name])
        if version < max(first, api.min_version):
            raise SourceError(f"{node[0]}:{node[1]} has no version of {api.name} that kshim supports")
        return version
