"""Altering the configuration of resources, each by itself: what AlterConfigs and IncrementalAlterConfigs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kshim.broker.alter_configs.brokers import broker_configs, check_broker, check_loggers, logger_configs
from kshim.broker.alter_configs.client_metrics import check_client_metrics
from kshim.broker.alter_configs.groups import check_group
from kshim.broker.alter_configs.kinds import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kshim.broker.alter_configs.topics import check_topic, keep_topic, topic_configs, topic_named
from kshim.broker.request import answered
from kshim.config.entries import broker_key
from kshim.config.keys import TOPIC_KEYS
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.config.dynamic import Owner
    from kshim.config.keys import Key
    from kshim.coordinator.step import Step, Ticket

Configs = Mapping[str, str]


class Kind(NamedTuple):
    """One kind of what has a configuration. All of these raise KafkaError, for a name that cannot be too.

    `configs(node, name)` is what is set now, `check(node, name, before, after)` whether it may become `after`.
    """

    configs: Callable[[Node, str], Configs]
    check: Callable[[Node, str, Configs, Configs], None]
    keep: Callable[[Node, str, Configs], None] | None
    """Stores `after`, and lets it hold. Raises LogError."""
    key: Callable[[str], Key | None] = lambda name: None
    """One of its keys, None for a name that is none. Without keys no list is added to or taken from, as in Kafka."""
    check_exists: Callable[[Node, str], object] = lambda node, name: None
    """Whether there is such a one; asked after the rest was found right."""


def _dynamic(owner: Owner, without_name: str) -> Callable[[Node, str], Configs]:
    def configs(node: Node, name: str) -> Configs:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, without_name)
        return node.cluster.dynamic_configs.of(owner, name)

    return configs


def _keep(owner: Owner) -> Callable[[Node, str, Configs], None]:
    return lambda node, name, after: node.cluster.dynamic_configs.replace(owner, name, after)


_NAME_OF_SUBSCRIPTION = "the name of a client metrics subscription is required"
_KINDS: Final[Mapping[int, Kind]] = {
    TOPIC: Kind(topic_configs, check_topic, keep_topic, TOPIC_KEYS.get, topic_named),
    BROKER: Kind(broker_configs, check_broker, _keep("brokers"), broker_key),
    BROKER_LOGGER: Kind(logger_configs, check_loggers, None),
    CLIENT_METRICS: Kind(
        _dynamic("clientMetrics", _NAME_OF_SUBSCRIPTION), check_client_metrics, _keep("clientMetrics")
    ),
    GROUP: Kind(_dynamic("groups", "Default group resources are not allowed."), check_group, _keep("groups")),
}

Configure = Callable[[Any, Callable[[str], "Key | None"], Configs], Configs]
"""`configure(row, key_of, before)` is the configuration that a row asks for. Raises KafkaError."""


def alter(node: Node, request: Any, ticket: Ticket, configure: Configure) -> Step:
    """Alter each resource of the request wholly or not at all; one named twice is not altered."""
    counts = Counter((row.resource_type, row.resource_name) for row in request.resources)
    results: list[Any] = []
    for row in request.resources:
        code, message = ErrorCode.NONE, None
        try:
            if counts[row.resource_type, row.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _alter(node, row, configure, validate_only=request.validate_only)
        except KafkaError as error:
            code, message = error.code, error.message
        except LogError as error:
            node.cluster.report(error, request)
            code, message = ErrorCode.KAFKA_STORAGE_ERROR, "the change could not be stored"
        # The row that an error would have has room for success, too.
        results += type(request)(resources=(row,), validate_only=False).error_response(code, 0, message).responses
    return answered(ticket, type(request.error_response(ErrorCode.NONE, 0))(responses=tuple(results)))


def _alter(node: Node, row: Any, configure: Configure, *, validate_only: bool) -> None:
    """Raises KafkaError, LogError."""
    kind, name = _KINDS.get(row.resource_type), row.resource_name
    if kind is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {row.resource_type} is not supported")
    before = kind.configs(node, name)
    after = configure(row, kind.key, before)
    kind.check(node, name, before, after)
    kind.check_exists(node, name)
    if kind.keep is not None and not validate_only and after != before:
        kind.keep(node, name, after)
