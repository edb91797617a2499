"""Kafka and a node of ours with the same topics, asked the same; their answers as far as they are comparable."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from integration.support.broker import Deadline
from kshim.tools.client import Client as WireClient
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.schema import ZERO_UUID, Request, Struct
from tests.broker.harness import NodeUnderTest

TOPIC_NUMBERS = count()
NOWHERE = b"\x09" * 16
TEXTS_AND_ADDRESSES = frozenset({"error_message", "documentation", "host", "port", "cluster_id"})
CLUSTER_WIDE_KEY = "min.insync.replicas"
"""Kafka keeps it in the cluster's configuration (source 3), which there is none of here."""


class Both:
    """Kafka and a node of ours, with the same topics: `topic` names one with three partitions, `ids` their ids."""

    def __init__(self, kafka: WireClient, node: NodeUnderTest) -> None:
        self.kafka = kafka
        self.node = node.client()
        self.ids: tuple[dict[bytes, str], dict[bytes, str]] = ({}, {})
        self.prefix = f"admin-like-kafka-{next(TOPIC_NUMBERS)}"
        self.topic = f"{self.prefix}.three"
        self.other = f"{self.prefix}.one"
        self._create(self.topic, 3, {"retention.ms": "5000", "cleanup.policy": "compact, delete"})
        self._create(self.other, 1, {})

    def ask(self, request: Request[Any], version: int) -> Any:
        """The answer of both, which is the same but for what is left out."""
        return self.compare(request, request, version)

    def compare(self, of_kafka: Request[Any], of_node: Request[Any], version: int) -> Any:
        theirs = facts(self.kafka.ask(of_kafka, version), self.ids[0])
        ours = facts(self.node.ask(of_node, version), self.ids[1])
        assert ours == theirs
        return ours

    def id_of(self, name: str) -> tuple[bytes, bytes]:
        """Id of a topic in Kafka and here."""
        theirs, ours = ({name: id_ for id_, name in ids.items()} for ids in self.ids)
        return theirs[name], ours[name]

    def _create(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        request = CreateTopicsRequest(topics=(a_topic(name, partitions, configs=configs),))
        for peer, ids in ((self.kafka, self.ids[0]), (self.node, self.ids[1])):
            (created,) = peer.ask(request, 7).topics
            assert created.error_code == ErrorCode.NONE, created
            ids[created.topic_id] = name
        asked = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        deadline = Deadline(30)
        while any(topic.error_code for topic in self.kafka.ask(asked, 12).topics):
            deadline.check(f"{name} appears in Kafka")


def facts(value: Any, ids: dict[bytes, str]) -> Any:
    """An answer as plain values: ids of topics as names, lists in one order."""
    if isinstance(value, Struct):
        rows = [row.name for row in value.info.rows if row.name not in TEXTS_AND_ADDRESSES]
        if getattr(value, "name", None) == CLUSTER_WIDE_KEY:
            return CLUSTER_WIDE_KEY
        return {name: facts(getattr(value, name), ids) for name in rows}
    if isinstance(value, tuple):
        return sorted((facts(item, ids) for item in value), key=repr)
    if isinstance(value, bytes):
        return ids.get(value, value) if value in (ZERO_UUID, NOWHERE) or value in ids else "new"
    return int(value) if isinstance(value, int) else value


def a_topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assigned: tuple[tuple[int, tuple[int, ...]], ...] = (),
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=tuple(CreatableReplicaAssignment(partition_index=at, broker_ids=ids) for at, ids in assigned),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
    )
