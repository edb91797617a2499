"""kafka-python in the matrix."""

from __future__ import annotations

import sys

NAME = "kafka-python"


def command() -> list[str]:
    """The driver, in this interpreter."""
    return [sys.executable, "-m", "integration.clients.kafka_python.driver"]


def consumer() -> list[str]:
    """The program that `kshim conform-client` judges."""
    return [sys.executable, "-m", "integration.clients.kafka_python.consumer"]
