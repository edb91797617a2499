"""DescribeConfigs: the configuration of topics, brokers and more, with the source of each value."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from kshim.broker.alter_configs.broker_keys import CLUSTER_WIDE_KEYS
from kshim.broker.alter_configs.brokers import check_broker_id
from kshim.broker.alter_configs.client_metrics import client_metrics_entries
from kshim.broker.alter_configs.groups import group_entries
from kshim.broker.alter_configs.kinds import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kshim.broker.request import answered, handles
from kshim.config.dynamic import CLUSTER_WIDE
from kshim.config.entries import (
    CONFIG_TYPES,
    ConfigEntry,
    broker_entries,
    cluster_wide_entries,
    topic_entries,
)
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.partitions.topic_validator import check_name
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


WITHOUT_EFFECT = "Accepted as Kafka accepts it; it has no effect here."


@handles(DescribeConfigsRequest)
def describe_configs(node: Node, request: DescribeConfigsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Describe topics, brokers, groups and client metrics, entries sorted by name.

    A group or a subscription need not exist. An empty broker name asks for what was set for all brokers. There are no
    loggers to describe. One error never hides other results (Kafka refuses all resources when one has an unknown type).
    """
    return answered(
        ticket, DescribeConfigsResponse(results=tuple(_result(node, request, item) for item in request.resources))
    )


def _result(node: Node, request: DescribeConfigsRequest, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    names = frozenset(resource.configuration_keys or ())
    try:
        entries = [entry for entry in _entries(node, resource) if not names or entry.name in names]
    except KafkaError as error:
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=error.message or "",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
    is_broker = resource.resource_type == BROKER
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            _described(request, entry, is_read_only=is_broker and entry.name not in CLUSTER_WIDE_KEYS)
            for entry in entries
        ),
    )


def _entries(node: Node, resource: DescribeConfigsResource) -> Iterable[ConfigEntry]:
    """Raises KafkaError."""
    config, dynamic = node.cluster.config, node.cluster.dynamic_configs
    kind, name = resource.resource_type, resource.resource_name
    names: Collection[str] | None = frozenset(resource.configuration_keys or ()) or None
    if kind == TOPIC:
        check_name(name)
        topic = node.cluster.topics.named(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(config, topic.configs, names)
    if kind == BROKER:
        if name == CLUSTER_WIDE:
            return cluster_wide_entries(config, names)
        check_broker_id(node, name)
        return broker_entries(config, _computed(node), names)
    if kind == BROKER_LOGGER:
        check_broker_id(node, name)
        return ()
    if kind in (GROUP, CLIENT_METRICS) and not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a resource name is required")
    if kind == GROUP:
        return group_entries(config, dynamic.of("groups", name))
    if kind == CLIENT_METRICS:
        return client_metrics_entries(dynamic.of("clientMetrics", name))
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {kind} is not supported")


def _computed(node: Node) -> dict[str, str]:
    config = node.cluster.config
    addresses = node.addresses or {"PLAINTEXT": (node.host, node.port)}
    address = ",".join(f"{name}://{_bracketed(host)}:{port}" for name, (host, port) in addresses.items())
    return {
        "node.id": str(node.node_id),
        "broker.id": str(node.node_id),
        "listeners": address,
        "advertised.listeners": address,
        **config.adjusted,
    }


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _described(
    request: DescribeConfigsRequest, entry: ConfigEntry, *, is_read_only: bool
) -> DescribeConfigsResourceResult:
    key = entry.key
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=key.name,
        value=entry.value,
        read_only=is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in synonyms
        ),
        config_type=CONFIG_TYPES[key.type],
        documentation=(key.meaning or WITHOUT_EFFECT) if request.include_documentation else None,
    )
