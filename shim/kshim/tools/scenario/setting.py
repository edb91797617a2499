"""What a scenario needs of a broker before its first step: a coordinator, versions, configuration, topics."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count

from kshim.tools.client import PLAINTEXT, BrokerGone, Client
from kshim.tools.client_security import Security
from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.model import Scenario
from kshim.tools.scenario.requests import Unsupported
from kshim.tools.scenario.streams_groups import internal_topics
from kshim_protocol.apis import API_TABLE
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError
from kshim_protocol.group_requests import find_coordinator
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest
from kshim_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from kshim_protocol.messages.read_share_group_state_summary import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from kshim_protocol.partitioner import partition_for

Address = tuple[str, int]
"""Host and port."""

METADATA, FIND_COORDINATOR, DESCRIBE_GROUPS, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS = 3, 10, 15, 19, 20, 32
API_VERSIONS, READ_STATE_SUMMARY = 18, 87
GROUP_COORDINATOR, SHARE_COORDINATOR = 0, 2
FIRST_WITH_KEYS = 4
"""First version of FindCoordinator that asks about several."""
USUAL_OFFSETS_PARTITIONS = 50
_WHO = ApiVersionsRequest(client_software_name="kshim", client_software_version="conform")
BROKER_RESOURCE = 4
_GROUP_VERSION, _SHARE_VERSION, _STREAMS_VERSION = "group.version", "share.version", "streams.version"
FEATURES = {
    **dict.fromkeys(("consumer-heartbeat", "consumer-describe"), _GROUP_VERSION),
    **dict.fromkeys(("share-heartbeat", "share-describe", "share-fetch", "share-acknowledge"), _SHARE_VERSION),
    **dict.fromkeys(("share-offsets", "share-alter-offsets", "share-delete-offsets"), _SHARE_VERSION),
    **dict.fromkeys(("streams-heartbeat", "streams-describe"), _STREAMS_VERSION),
}
"""What verbs need that a broker may lack although it knows their APIs."""
_MEANING = {
    _GROUP_VERSION: "the new group protocol",
    _SHARE_VERSION: "share groups",
    _STREAMS_VERSION: "streams groups",
}
MAX_SIZE = "group.max.size"
ROOM = 10
"""Members that a scenario may have without asking for room."""
TRIES = 150
PAUSE_S = 0.1
COORDINATOR_ERRORS = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


class Setting:
    """One cluster, made ready for one run. Everything raises Unsupported for what the brokers cannot give."""

    def __init__(
        self,
        address: Address,
        cast: Cast,
        assume: Mapping[str, str],
        caps: Mapping[int, int],
        security: Security = PLAINTEXT,
    ) -> None:
        """Connects to `address`. `caps`: newest version to speak of an API, by key. Raises BrokerGone."""
        self.security = security
        self.admin = Client(*address, client_id="conform", security=security)
        self.cast = cast
        self.assume = assume
        self.caps = caps
        self.nodes: dict[Address, Client] = {address: self.admin}
        self.homes: dict[str, Address] = {}
        self.leaders: dict[str, Address] = {}
        self.made: set[str] = set()
        self.node_id = -1

    def close(self) -> None:
        """Delete the topics that were made, if the broker lets us, and close all connections."""
        with suppress(BrokerGone, TimeoutError, ProtocolError, OSError):
            if self.made and (version := self._version(DELETE_TOPICS, 4)) is not None:
                self.admin.ask(DeleteTopicsRequest(topic_names=tuple(self.made), timeout_ms=10_000), version)
        for client in self.nodes.values():
            client.close()

    def prepare(self, scenario: Scenario) -> None:
        """Ask for versions, find the coordinator, check the configuration, make topics."""
        served = self.admin.ask(ApiVersionsRequest(), 0).api_keys
        self.cast.max_versions = {
            api.api_key: min(api.max_version, self.caps.get(api.api_key, api.max_version)) for api in served
        }
        needed = {FEATURES[step.verb] for step in scenario.steps if step.verb in FEATURES}
        features = self._features() if needed else frozenset()
        for feature in sorted(needed - features):
            raise Unsupported(f"the broker does not serve {_MEANING[feature]} (feature {feature})")
        self.home(self.cast.unique_group)
        self._check_config(scenario.config)
        self.made |= internal_topics(scenario.topology, self.cast)
        if scenario.topics:
            self.create_topics(scenario.topics)
            if needed and _GROUP_VERSION in features:
                self._wait_until_assignable(scenario.topics)
            if _SHARE_VERSION in needed:
                self._wait_for_share_coordinator(scenario.topics)

    def _wait_until_assignable(self, topics: Mapping[str, int]) -> None:
        """Wait until the coordinator knows the topics, too, which in Kafka hears of them later than clients do.

        A group of the same partition of the offsets topic has to get them, if that has as many partitions as usual.
        """
        own = partition_for(self.cast.unique_group, USUAL_OFFSETS_PARTITIONS)
        probe = next(
            name
            for number in count()
            if partition_for(name := f"{self.cast.unique_group}-probe-{number}", USUAL_OFFSETS_PARTITIONS) == own
        )
        client, epoch = self.at(self.home(probe)), 0
        wanted, seen = sum(topics.values()), 0
        for _ in range(TRIES):
            request = ConsumerGroupHeartbeatRequest(
                group_id=probe,
                member_id="probe",
                member_epoch=epoch,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=tuple(map(self.cast.topic, topics)),
                topic_partitions=(),
            )
            answer = client.ask(request, 1)
            epoch = answer.member_epoch
            if answer.assignment is not None:
                seen = sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)
            if seen >= wanted:
                leave = ConsumerGroupHeartbeatRequest(group_id=probe, member_id="probe", member_epoch=-1)
                client.ask(leave, 1)
                client.ask(DeleteGroupsRequest(groups_names=(probe,)), 0)
                return
            time.sleep(PAUSE_S)
        raise Unsupported(f"the coordinator assigns no partitions of {', '.join(topics)}")

    def _wait_for_share_coordinator(self, topics: Mapping[str, int]) -> None:
        """Wait until the states of share partitions can be written: Kafka makes their topic when it is first asked."""
        group_id = self.cast.unique_group
        version = self._version(READ_STATE_SUMMARY, 0)
        for name, partitions in topics.items():
            topic_id = self.cast.topic_id(self.cast.topic(name))
            for index in range(partitions):
                key = f"{group_id}:{urlsafe_b64encode(topic_id).decode().rstrip('=')}:{index}"
                address = self._find_coordinator(key, SHARE_COORDINATOR)
                if version is not None:
                    self._wait_for_state(address, group_id, topic_id, index)

    def _wait_for_state(self, address: Address, group_id: str, topic_id: bytes, index: int) -> None:
        partition = PartitionData(partition=index, leader_epoch=0)
        request = ReadShareGroupStateSummaryRequest(
            group_id=group_id, topics=(ReadStateSummaryData(topic_id=topic_id, partitions=(partition,)),)
        )
        for _ in range(TRIES):
            (topic,) = self.at(address).ask(request, 0).results
            if topic.partitions[0].error_code not in COORDINATOR_ERRORS:
                return
            time.sleep(PAUSE_S)
        raise Unsupported("the share coordinator does not load its shards")

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Make topics and wait until the broker shows them; one that cannot create them may do so when asked."""
        version = self._version(CREATE_TOPICS, 5)
        if version is not None:
            request = CreateTopicsRequest(
                topics=tuple(
                    CreatableTopic(
                        name=self.cast.topic(name),
                        num_partitions=count,
                        replication_factor=1,
                        assignments=(),
                        configs=(),
                    )
                    for name, count in topics.items()
                ),
                timeout_ms=10_000,
            )
            self.made |= {self.cast.topic(name) for name in topics}
            for made in self.admin.ask(request, version).topics:
                if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    raise Unsupported(f"cannot make topic {made.name}: {ErrorCode(made.error_code).name}")
        for _ in range(TRIES):
            shown = {topic.name: topic for topic in self._metadata(topics)}
            if all(len(shown[self.cast.topic(name)].partitions) >= count for name, count in topics.items()):
                self.cast.topic_ids |= {name: topic.topic_id for name, topic in shown.items() if name}
                return
            time.sleep(PAUSE_S)
        raise Unsupported(f"the topics {', '.join(topics)} do not appear with enough partitions")

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics and wait until the broker shows them no longer."""
        version = self._version(DELETE_TOPICS, 4)
        if version is None:
            raise Unsupported("the broker does not serve DeleteTopics")
        wanted = tuple(names)
        real = tuple(self.cast.topic(name) for name in wanted)
        self.admin.ask(DeleteTopicsRequest(topic_names=real, timeout_ms=10_000), version)
        for _ in range(TRIES):
            if not any(topic.partitions for topic in self._metadata(wanted, create=False)):
                return
            time.sleep(PAUSE_S)
        raise Unsupported(f"the topics {', '.join(wanted)} do not go away")

    def _version(self, api_key: int, newest: int) -> int | None:
        """The version to speak, None when the broker does not serve the API."""
        assert self.cast.max_versions is not None
        served = self.cast.max_versions.get(api_key)
        return None if served is None else min(served, newest, API_TABLE[api_key].max_version)

    def _metadata(self, names: Iterable[str], *, create: bool = True) -> tuple[MetadataResponseTopic, ...]:
        version = self._version(METADATA, 12)
        assert version is not None
        wanted = tuple(MetadataRequestTopic(name=self.cast.topic(name)) for name in names)
        topics: tuple[MetadataResponseTopic, ...] = self.admin.ask(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=create), version
        ).topics
        return topics

    def home(self, group_id: str) -> Address:
        """Where the coordinator of a group listens; looked up once, and then it serves."""
        if group_id not in self.homes:
            self.homes[group_id] = self._find_coordinator(group_id)
        return self.homes[group_id]

    def at(self, address: Address) -> Client:
        """The connection that belongs to no actor, to the broker at `address`."""
        if address not in self.nodes:
            self.nodes[address] = Client(*address, client_id="conform", security=self.security)
        return self.nodes[address]

    def leader(self, partitions: Sequence[str]) -> Address:
        """Where the leader of the first of these listens that has one. Raises Unsupported."""
        for name in partitions:
            if name not in self.leaders:
                self._find_leaders(name.rpartition("-")[0])
            if name in self.leaders:
                return self.leaders[name]
        raise Unsupported(f"{', '.join(partitions)}: no leader")

    def _find_leaders(self, topic: str) -> None:
        version = self._version(METADATA, 12)
        assert version is not None
        wanted = (MetadataRequestTopic(name=self.cast.topic(topic)),)
        answer = self.admin.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), version)
        nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self.leaders |= {
            f"{topic}-{one.partition_index}": nodes[one.leader_id]
            for one in answer.topics[0].partitions
            if one.leader_id in nodes
        }

    def _find_coordinator(self, key: str, key_type: int = GROUP_COORDINATOR) -> Address:
        version = self._version(FIND_COORDINATOR, 2 if key_type == GROUP_COORDINATOR else 6)
        if version is None:
            raise Unsupported("the broker does not serve FindCoordinator")
        error: int = ErrorCode.NONE
        for _ in range(TRIES):
            answer = self.admin.ask(find_coordinator(version, [key], key_type), version)
            found = answer.coordinators[0] if version >= FIRST_WITH_KEYS else answer
            error = found.error_code
            if error == ErrorCode.NONE:
                address = (found.host, found.port)
                if key_type != GROUP_COORDINATOR:
                    return address
                if self._version(DESCRIBE_GROUPS, 0) is not None:
                    # Kafka names the node before it has loaded the group's partition of the offsets topic.
                    described = self.at(address).ask(DescribeGroupsRequest(groups=(key,)), 0)
                    error = described.groups[0].error_code
                if error not in COORDINATOR_ERRORS:
                    self.node_id = found.node_id
                    return address
            elif error not in COORDINATOR_ERRORS:
                break
            time.sleep(PAUSE_S)
        raise Unsupported(f"no coordinator: {ErrorCode(error).name}")

    def _features(self) -> frozenset[str]:
        """Those that are on: brokers may know APIs without serving them."""
        if self._version(API_VERSIONS, 3) != 3:
            return frozenset()
        answer = self.admin.ask(_WHO, 3)
        return frozenset(each.name for each in answer.finalized_features if each.max_version_level)

    def _check_config(self, wanted: Mapping[str, str]) -> None:
        has = {**self._told((*wanted, MAX_SIZE)), **self.assume}
        missing = {key: value for key, value in wanted.items() if has.get(key) != value}
        for key, value in missing.items():
            seen = f"has {has[key]}" if key in has else "does not report it (use --assume)"
            raise Unsupported(
                f"needs {key}={value}; the broker {seen}", tuple(f"{key}={value}" for key, value in missing.items())
            )
        if MAX_SIZE not in wanted and int(has.get(MAX_SIZE) or ROOM) < ROOM:
            raise Unsupported(
                f"needs room for its members; the broker has {MAX_SIZE}={has[MAX_SIZE]}", (f"{MAX_SIZE}={ROOM}",)
            )

    def _told(self, keys: Iterable[str]) -> dict[str, str | None]:
        """What DescribeConfigs says; nothing where the broker does not serve it."""
        version = self._version(DESCRIBE_CONFIGS, 4)
        if version is None:
            return {}
        resource = DescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=str(self.node_id), configuration_keys=tuple(keys)
        )
        node = self.at(self.home(self.cast.unique_group))
        answer = node.ask(DescribeConfigsRequest(resources=(resource,)), version)
        return {config.name: config.value for result in answer.results for config in result.configs}
