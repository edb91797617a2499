"""aiokafka in the matrix."""

from __future__ import annotations

import sys

NAME = "aiokafka"


def command() -> list[str]:
    """The driver, in this interpreter."""
    return [sys.executable, "-m", "integration.clients.aiokafka.driver"]
