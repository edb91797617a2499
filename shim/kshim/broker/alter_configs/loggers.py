"""Loggers of a broker, of which there are none that could be named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kshim.broker.alter_configs.brokers import check_broker_id
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.config.keys import Key


class LoggerResource:
    """A `Resource`."""

    def configs(self, node: Node, name: str) -> Mapping[str, str]:
        """See `Resource.configs`."""
        check_broker_id(node, name)
        return {}

    def key(self, name: str) -> Key | None:
        """None."""
        return None

    def check(self, node: Node, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """There is no logger."""
        for logger in after:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown logger {logger!r}")

    def check_exists(self, node: Node, name: str) -> None:
        """It was found already."""

    def keep(self, node: Node, name: str, after: Mapping[str, str]) -> None:
        """Nothing to keep."""
