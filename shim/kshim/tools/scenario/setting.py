"""What a scenario needs of a broker before its first step: a coordinator, versions, configuration, topics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import count

from kshim.tools.client import PLAINTEXT, BrokerGone, Client
from kshim.tools.client_security import Security
from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.model import Scenario
from kshim.tools.scenario.requests import Unsupported
from kshim_protocol.apis import API_TABLE
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest
from kshim_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from kshim_protocol.partitioner import partition_for

Address = tuple[str, int]
"""Host and port."""

METADATA, FIND_COORDINATOR, DESCRIBE_GROUPS, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS = 3, 10, 15, 19, 20, 32
API_VERSIONS = 18
USUAL_OFFSETS_PARTITIONS = 50
_WHO = ApiVersionsRequest(client_software_name="kshim", client_software_version="conform")
BROKER_RESOURCE = 4
NEW_PROTOCOL = frozenset({"consumer-heartbeat", "consumer-describe", "configure"})
"""Verbs that need the feature group.version."""
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
        has_epochs = any(step.verb in NEW_PROTOCOL for step in scenario.steps)
        if has_epochs:
            self._check_group_version()
        self.home(self.cast.unique_group)
        self._check_config(scenario.config)
        if scenario.topics:
            self.create_topics(scenario.topics)
            if has_epochs:
                self._wait_until_assignable(scenario.topics)

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

    def _find_coordinator(self, group_id: str) -> Address:
        version = self._version(FIND_COORDINATOR, 2)
        if version is None:
            raise Unsupported("the broker does not serve FindCoordinator")
        error: int = ErrorCode.NONE
        for _ in range(TRIES):
            found = self.admin.ask(FindCoordinatorRequest(key=group_id, key_type=0), version)
            error = found.error_code
            if error == ErrorCode.NONE:
                address = (found.host, found.port)
                if self._version(DESCRIBE_GROUPS, 0) is not None:
                    # Kafka names the node before it has loaded the group's partition of the offsets topic.
                    described = self.at(address).ask(DescribeGroupsRequest(groups=(group_id,)), 0)
                    error = described.groups[0].error_code
                if error not in COORDINATOR_ERRORS:
                    self.node_id = found.node_id
                    return address
            elif error not in COORDINATOR_ERRORS:
                break
            time.sleep(PAUSE_S)
        raise Unsupported(f"no coordinator: {ErrorCode(error).name}")

    def _check_group_version(self) -> None:
        """Brokers may know the APIs of the new group protocol without serving it."""
        version = self._version(API_VERSIONS, 3)
        answer = None if version != 3 else self.admin.ask(_WHO, 3)
        features = {} if answer is None else {each.name: each.max_version_level for each in answer.finalized_features}
        if not features.get("group.version"):
            raise Unsupported("the broker does not serve the new group protocol (feature group.version)")

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
