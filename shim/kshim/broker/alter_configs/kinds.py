"""Kinds of what has a configuration: numbers of ConfigResource.Type."""

from __future__ import annotations

from typing import Final

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
