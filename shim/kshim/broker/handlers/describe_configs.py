"""DescribeConfigs: the configuration of topics and of this broker, with the source of each value."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from kshim.broker.config_entries import CONFIG_TYPES, ConfigEntry, broker_entries, topic_entries
from kshim.broker.router import answered, handles
from kshim.broker.topic_rules import check_name
from kshim.coordinator.step import RequestContext, Step, Ticket
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

__all__ = ["describe_configs"]

TOPIC, BROKER = 2, 4
WITHOUT_EFFECT = "Accepted as Kafka accepts it; it has no effect here."


@handles(DescribeConfigsRequest)
def describe_configs(node: Node, request: DescribeConfigsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Describe topics and this broker, entries sorted by name; other kinds of resource get INVALID_REQUEST.

    Nothing can be altered while the broker runs, so its entries are all read-only; Kafka marks only its static ones.
    An empty broker name asks for cluster-wide values, of which there are none. One error never hides other results
    (Kafka refuses all resources when one has an unknown type).
    """
    return answered(
        ticket, DescribeConfigsResponse(results=tuple(_result(node, request, item) for item in request.resources))
    )


def _result(node: Node, request: DescribeConfigsRequest, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    try:
        entries = _entries(node, resource)
    except KafkaError as error:
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=error.message or "",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_described(request, entry, is_read_only=resource.resource_type == BROKER) for entry in entries),
    )


def _entries(node: Node, resource: DescribeConfigsResource) -> Iterable[ConfigEntry]:
    """Raises KafkaError."""
    names: Collection[str] | None = frozenset(resource.configuration_keys or ()) or None
    if resource.resource_type == TOPIC:
        check_name(resource.resource_name)
        topic = node.cluster.topics.named(resource.resource_name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(node.cluster.config, topic.configs, names)
    if resource.resource_type == BROKER:
        if not resource.resource_name:
            return ()
        if resource.resource_name != str(node.node_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"this is broker {node.node_id}, not {resource.resource_name!r}"
            )
        return broker_entries(node.cluster.config, _computed(node), names)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} have no configuration here"
    )


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
        is_sensitive=key.type == "password",
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in synonyms
        ),
        config_type=CONFIG_TYPES[key.type],
        documentation=(key.meaning or WITHOUT_EFFECT) if request.include_documentation else None,
    )
