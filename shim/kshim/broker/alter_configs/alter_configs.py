"""Altering the configuration of resources, each by itself: what AlterConfigs and IncrementalAlterConfigs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from kshim.broker.alter_configs.brokers import BrokerResource
from kshim.broker.alter_configs.changes import Resource
from kshim.broker.alter_configs.client_metrics import ClientMetricsResource
from kshim.broker.alter_configs.groups import GroupResource
from kshim.broker.alter_configs.kinds import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kshim.broker.alter_configs.loggers import LoggerResource
from kshim.broker.alter_configs.topics import TopicResource
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim_protocol.schema import Request


_RESOURCES: Final[Mapping[int, Resource]] = {
    TOPIC: TopicResource(),
    BROKER: BrokerResource(),
    BROKER_LOGGER: LoggerResource(),
    CLIENT_METRICS: ClientMetricsResource(),
    GROUP: GroupResource(),
}


class Row(Protocol):
    """One resource of a request."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


R = TypeVar("R", bound=Row)


def alter(
    node: Node,
    request: Request[object],
    rows: Sequence[R],
    configure: Callable[[R, Resource, Mapping[str, str]], Mapping[str, str]],
    *,
    validate_only: bool,
) -> list[KafkaError | None]:
    """Alter each resource, or only say whether it could be altered. The outcome of each row, None for success.

    `configure(row, resource, before)` makes the configuration that is asked for of the one before; it may raise
    KafkaError. A resource named twice is not altered at all.
    """
    counts = Counter((row.resource_type, row.resource_name) for row in rows)
    outcomes: list[KafkaError | None] = []
    for row in rows:
        try:
            if counts[row.resource_type, row.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the request names this resource more than once")
            _alter(node, row, configure, validate_only=validate_only)
        except KafkaError as error:
            outcomes.append(error)
        except LogError as error:
            node.cluster.report(error, request)
            outcomes.append(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the change could not be stored"))
        else:
            outcomes.append(None)
    return outcomes


def _alter(
    node: Node,
    row: R,
    configure: Callable[[R, Resource, Mapping[str, str]], Mapping[str, str]],
    *,
    validate_only: bool,
) -> None:
    """Raises KafkaError, LogError."""
    resource, name = _RESOURCES.get(row.resource_type), row.resource_name
    if resource is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {row.resource_type} is not supported")
    before = resource.configs(node, name)
    after = configure(row, resource, before)
    resource.check(node, name, before, after)
    resource.check_exists(node, name)
    if not validate_only and after != before:
        resource.keep(node, name, after)
