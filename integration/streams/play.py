"""A scene as it is played on a broker: requests of many members on one connection, and everything that was answered."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kshim_protocol.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from kshim_protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from kshim_protocol.schema import Request

CLIENT_ID = "streams-scene"
_GROUP_RESOURCE = 32
_SETTLE_S = 0.3
"""What a Kafka node takes to hear from its controller of new topics or settings."""


class Asked(NamedTuple):
    """One request and its answer."""

    at_ms: int
    request: Request[Any]
    version: int
    response: Any


class Play:
    """One scene. Its group is `g`, its topics are as they are called, all with `prefix` in front."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._client = Client(host, int(port), client_id=CLIENT_ID, timeout_s=30)
        self._began_s = time.monotonic()
        self.prefix = prefix
        self.group_id = self.name("g")
        self.asked: list[Asked] = []

    def name(self, word: str) -> str:
        """A name of this scene."""
        return f"{self.prefix}-{word}"

    def ask(self, request: Request[Any], version: int) -> Any:
        """Send a request; it and its answer belong to the scene."""
        at_ms = round((time.monotonic() - self._began_s) * 1_000)
        response = self._client.ask(request, version)
        self.asked.append(Asked(at_ms, request, version, response))
        return response

    def wait(self, ms: int) -> None:
        """Let time pass."""
        time.sleep(ms / 1_000)

    def close(self) -> None:
        """It is over."""
        self._client.close()

    # What scenes need besides heartbeats

    def topic(self, word: str, partitions: int) -> str:
        """A new topic."""
        name = self.name(word)
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=())
        (made,) = self.ask(CreateTopicsRequest(topics=(topic,)), 7).topics
        assert made.error_code == ErrorCode.NONE, made
        time.sleep(_SETTLE_S)
        return name

    def configure(self, **configs: object) -> None:
        """Settings of the group, with `_` for dots."""
        resource = AlterConfigsResource(
            resource_type=_GROUP_RESOURCE,
            resource_name=self.group_id,
            configs=tuple(
                AlterableConfig(name=f"streams.{key.replace('_', '.')}", config_operation=0, value=str(value))
                for key, value in configs.items()
            ),
        )
        (told,) = self.ask(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1).responses
        assert told.error_code == ErrorCode.NONE, told
        time.sleep(_SETTLE_S)

    def at_once(self, **configs: object) -> None:
        """The group computes a target whenever it can."""
        self.configure(initial_rebalance_delay_ms=0, assignment_interval_ms=0, **configs)

    def describe(self, *, version: int = 1) -> DescribedGroup:
        """The group."""
        request = StreamsGroupDescribeRequest(group_ids=(self.group_id,), include_authorized_operations=False)
        (group,) = self.ask(request, version).groups
        assert isinstance(group, DescribedGroup)
        return group

    def member(self, member_id: str, **fields: Any) -> Member:
        """A member that has not joined."""
        return Member(self, member_id, **fields)


class Member:
    """A member that does as it is told: it owns what it was assigned last, and joins with `topology`."""

    def __init__(
        self,
        play: Play,
        member_id: str,
        *,
        process_id: str | None = None,
        topology: Topology | None = None,
        instance_id: str | None = None,
        endpoint: tuple[str, int] | None = None,
        tags: dict[str, str] | None = None,
        rack_id: str | None = None,
        version: int = 1,
    ) -> None:
        self.play = play
        self.member_id = member_id
        self.process_id = process_id or f"process-{member_id}"
        self.topology = topology
        self.instance_id = instance_id
        self.endpoint = endpoint
        self.tags = tags or {}
        self.rack_id = rack_id
        self.version = version
        self.epoch = 0
        self.endpoint_epoch = -1
        self.tasks: dict[str, tuple[TaskIds, ...]] = {"active": (), "standby": (), "warmup": ()}

    def join(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """Everything that a member says first."""
        self.epoch = 0
        self.tasks = {"active": (), "standby": (), "warmup": ()}
        said: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "topology": self.topology,
            "active_tasks": (),
            "standby_tasks": (),
            "warmup_tasks": (),
            "process_id": self.process_id,
            "rack_id": self.rack_id,
            "user_endpoint": None if self.endpoint is None else Endpoint(host=self.endpoint[0], port=self.endpoint[1]),
            "client_tags": tuple(KeyValue(key=key, value=value) for key, value in self.tags.items()),
        }
        return self.beat(0, **{**said, **fields})

    def beat(self, epoch: int | None = None, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """A heartbeat, in its own epoch unless told."""
        request = StreamsGroupHeartbeatRequest(
            group_id=self.play.group_id,
            member_id=self.member_id,
            endpoint_information_epoch=self.endpoint_epoch,
            **{
                "member_epoch": self.epoch if epoch is None else epoch,
                "instance_id": self.instance_id,
                **fields,
            },
        )
        response: StreamsGroupHeartbeatResponse = self.play.ask(request, self.version)
        if response.error_code == ErrorCode.NONE and response.member_epoch >= 0:
            self.epoch = response.member_epoch
            for role, tasks in (
                ("active", response.active_tasks),
                ("standby", response.standby_tasks),
                ("warmup", response.warmup_tasks),
            ):
                if tasks is not None:
                    self.tasks[role] = tasks
            self.endpoint_epoch = response.endpoint_information_epoch
        return response

    def report(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """A heartbeat that says what the member owns."""
        owned = {f"{role}_tasks": tasks for role, tasks in self.tasks.items()}
        return self.beat(**{**owned, **fields})

    def leave(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """For good."""
        return self.beat(-1, **fields)

    def leave_for_now(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """A static member."""
        return self.beat(-2, **fields)


# Topologies


def topic_info(name: str, partitions: int = 0, **configs: str) -> TopicInfo:
    """An internal topic."""
    settings = tuple(KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items())
    return TopicInfo(name=name, partitions=partitions, replication_factor=0, topic_configs=settings)


def part(
    subtopology_id: str,
    *sources: str,
    changelogs: tuple[TopicInfo, ...] = (),
    sinks: tuple[str, ...] = (),
    repartitions: tuple[TopicInfo, ...] = (),
    together: tuple[CopartitionGroup, ...] = (),
    regex: tuple[str, ...] = (),
) -> Subtopology:
    """A subtopology."""
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sources,
        source_topic_regex=regex,
        state_changelog_topics=changelogs,
        repartition_sink_topics=sinks,
        repartition_source_topics=repartitions,
        copartition_groups=together,
    )


def together(*sources: int, repartitions: tuple[int, ...] = ()) -> CopartitionGroup:
    """Topics with equally many partitions, as places in the lists of their subtopology."""
    return CopartitionGroup(source_topics=sources, source_topic_regex=(), repartition_source_topics=repartitions)


def tasks(**partitions: tuple[int, ...]) -> tuple[TaskIds, ...]:
    """`tasks(s0=(0, 1))`: tasks of subtopology 0."""
    return tuple(TaskIds(subtopology_id=key[1:], partitions=indexes) for key, indexes in partitions.items())


def task_offset(subtopology_id: str, partition: int, offset: int) -> TaskOffset:
    """How far a task is."""
    return TaskOffset(subtopology_id=subtopology_id, partition=partition, offset=offset)


def encoded(asked: Asked) -> dict[str, Any]:
    """A request and its answer as they stand in a golden file."""
    return {
        "at_ms": asked.at_ms,
        "key": type(asked.request).info.api_key,
        "version": asked.version,
        "request": codec(type(asked.request), asked.version).build(asked.request).hex(),
        "response": codec(type(asked.response), asked.version).build(asked.response).hex(),
    }
