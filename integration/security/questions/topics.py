"""Topics, their partitions and configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from integration.security.questions.things import GROUPS, MISSING, TOPICS, Rows
from kshim_protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kshim_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kshim_protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kshim_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


def metadata(ids: Mapping[str, bytes]) -> Rows:
    named = tuple(MetadataRequestTopic(name=name) for name in (*TOPICS, MISSING))
    quiet: dict[str, Any] = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    yield "Metadata of all", MetadataRequest(topics=None, **quiet), 12
    yield "Metadata of all with cluster", MetadataRequest(topics=None, include_cluster_authorized_operations=True), 9
    yield "Metadata of all", MetadataRequest(topics=()), 0
    yield "Metadata by name", MetadataRequest(topics=named, **quiet), 12
    yield "Metadata by name", MetadataRequest(topics=named, allow_auto_topic_creation=False), 4
    by_id = tuple(MetadataRequestTopic(name=None, topic_id=one) for one in (*ids.values(), b"unknown-topic-id"))
    yield "Metadata by id", MetadataRequest(topics=by_id, **quiet), 12


def describing_topics(ids: Mapping[str, bytes]) -> Rows:
    yield "DescribeTopicPartitions of all", DescribeTopicPartitionsRequest(topics=()), 0
    yield (
        "DescribeTopicPartitions by name",
        DescribeTopicPartitionsRequest(topics=tuple(TopicRequest(name=name) for name in (*TOPICS, MISSING))),
        0,
    )
    yield (
        "DescribeTopicPartitions from a cursor",
        DescribeTopicPartitionsRequest(topics=(), cursor=Cursor(topic_name="p", partition_index=0)),
        0,
    )


def changing_topics(ids: Mapping[str, bytes]) -> Rows:
    yield (
        "CreateTopics",
        CreateTopicsRequest(
            topics=tuple(
                CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
                for name in (TOPICS[0], "orders-new", "new")
            ),
            validate_only=True,
        ),
        7,
    )
    yield (
        "CreatePartitions",
        CreatePartitionsRequest(
            topics=tuple(CreatePartitionsTopic(name=name, count=3, assignments=None) for name in (*TOPICS, MISSING)),
            timeout_ms=1_000,
            validate_only=True,
        ),
        3,
    )
    missing = tuple(DeleteTopicState(name=name) for name in (MISSING, "orders-missing"))
    unknown = DeleteTopicState(name=None, topic_id=b"unknown-topic-id")
    yield "DeleteTopics", DeleteTopicsRequest(topics=(*missing, unknown), timeout_ms=1_000), 6
    yield "DeleteTopics", DeleteTopicsRequest(topic_names=(MISSING, "orders-missing"), timeout_ms=1_000), 4


def configurations(ids: Mapping[str, bytes]) -> Rows:
    resources = ((2, "orders"), (2, "payments"), (2, MISSING), (4, "1"), (32, GROUPS[0]))
    yield (
        "DescribeConfigs",
        DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=("none",))
                for kind, name in resources
                if kind != 32
            )
        ),
        4,
    )
    yield (
        "IncrementalAlterConfigs",
        IncrementalAlterConfigsRequest(
            resources=tuple(
                AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=(AlterableConfig(name="retention.ms", config_operation=0, value="x"),),
                )
                for kind, name in resources
                if kind == 2
            ),
            validate_only=True,
        ),
        1,
    )
