"""Members of one group whose settings differ, each with the client library it is made with."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kafka import KafkaConsumer
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from integration.java.client import JavaMember
from integration.kafka_python.client import KafkaPythonMember
from integration.librdkafka.client import LibrdkafkaMember
from integration.support.client import Member
from integration.support.jvm import Jvm

HEARTBEAT_INTERVAL_MS = 50
"""Far below the clients' default of 3 s: members hear of a rebalance by heartbeat."""

_JAVA_ASSIGNORS = {
    name: f"org.apache.kafka.clients.consumer.{simple_name}"
    for name, simple_name in {
        "range": "RangeAssignor",
        "roundrobin": "RoundRobinAssignor",
        "cooperative-sticky": "CooperativeStickyAssignor",
    }.items()
}
_KAFKA_PYTHON_ASSIGNORS: dict[str, type[AbstractPartitionAssignor]] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
_STRING_DESERIALIZER = "org.apache.kafka.common.serialization.StringDeserializer"


class Settings(NamedTuple):
    """What a member of a rolling upgrade is started with."""

    assignors: tuple[str, ...]
    """Names as they stand in JoinGroup, in the order of preference."""
    instance: str | None = None
    """`group.instance.id` of a static member."""
    client_id: str | None = None
    """None: the client's own default."""


class RollingMember(Member, Protocol):
    """A member that tells one rebalance from the next."""

    @property
    def gives_up_before_joining(self) -> bool:
        """Whether `assignment` is without the partitions that a rebalance may take away while that goes on."""
        ...

    def generation(self) -> int:
        """A number that grows with each rebalance that the member has been through."""
        ...


class Joins(Protocol):
    """How a client library joins a group."""

    def __call__(self, bootstrap: str, group_id: str, topic: str, settings: Settings) -> RollingMember:
        """A consumer subscribed to `topic`, from its beginning where the group has committed nothing."""
        ...


class _JavaRollingMember(JavaMember):
    gives_up_before_joining = True

    def generation(self) -> int:
        """The generation id."""
        return int(self.consumer.groupMetadata().generationId())


class _KafkaPythonRollingMember(KafkaPythonMember):
    gives_up_before_joining = False  # they stay until the next assignment is there

    def generation(self) -> int:
        """The generation id."""
        return int(self._consumer.group_metadata().generation_id)


def java(jvm: Jvm) -> Joins:
    """The Java client, on `jvm`."""

    def join(bootstrap: str, group_id: str, topic: str, settings: Settings) -> RollingMember:
        properties = {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
            "partition.assignment.strategy": ",".join(_JAVA_ASSIGNORS[name] for name in settings.assignors),
            "key.deserializer": _STRING_DESERIALIZER,
            "value.deserializer": _STRING_DESERIALIZER,
            **_given({"group.instance.id": settings.instance, "client.id": settings.client_id}),
        }
        consumer = jvm.classes.org.apache.kafka.clients.consumer.KafkaConsumer(properties)
        consumer.subscribe([topic])
        return _JavaRollingMember(jvm, consumer)

    return join


def kafka_python(bootstrap: str, group_id: str, topic: str, settings: Settings) -> RollingMember:
    """kafka-python."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group_id,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        partition_assignment_strategy=[_KAFKA_PYTHON_ASSIGNORS[name] for name in settings.assignors],
        **_given({"group_instance_id": settings.instance, "client_id": settings.client_id}),
    )
    return _KafkaPythonRollingMember(consumer)


def librdkafka(bootstrap: str, group_id: str, topic: str, settings: Settings) -> RollingMember:
    """librdkafka, through confluent-kafka."""
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": group_id,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        "partition.assignment.strategy": ",".join(settings.assignors),
        **_given({"group.instance.id": settings.instance, "client.id": settings.client_id}),
    }
    return LibrdkafkaMember(properties, [topic])


def _given(settings: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if value is not None}
