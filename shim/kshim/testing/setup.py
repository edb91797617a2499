"""What brokers for tests are started from: checked once, and used for each start and reset."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from os import PathLike

from kshim.config.broker_config import BrokerConfig, ConfigError
from kshim.config.listeners import Listener, plain_listener
from kshim.config.security_keys import SECURITY_KEYS
from kshim.scheduling.clock_rate import clock_rate
from kshim.testing.arguments import check_text, checked_configuration, checked_directory, checked_topics

_ACCESS_KEYS = frozenset({"authorizer.class.name", "controller.listener.names"})
"""Of the keys of listeners and security those that do not depend on a listener."""

_NO_LISTENERS = "the key to be left out, since brokers for tests listen on 127.0.0.1 without TLS and SASL"

_LOG = logging.getLogger("kshim")


class Setup:
    """Raises ConfigError; TypeError and ValueError for an argument that cannot be used."""

    def __init__(
        self,
        count: int,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        data_dir: str | PathLike[str] | None = None,
        clock: str = "real",
    ) -> None:
        self.count = count
        self.topics = checked_topics(topics)
        self.data_dir = checked_directory(data_dir)
        check_text("clock", clock)
        self.clock_rate = clock_rate(clock)
        self.listener: Listener = plain_listener("127.0.0.1", 0)
        self.config = BrokerConfig(checked_configuration("config", config))
        _refuse_listeners(self.config)
        for warning in self.config.warnings:
            _LOG.warning(warning)


def _refuse_listeners(config: BrokerConfig) -> None:
    """Raises ConfigError."""
    for key, value in config.given.items():
        if key.startswith("listener.name.") or (key in SECURITY_KEYS and key not in _ACCESS_KEYS):
            raise ConfigError(key, value, _NO_LISTENERS)
