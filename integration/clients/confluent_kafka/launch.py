"""confluent-kafka, that is librdkafka, in the matrix."""

from __future__ import annotations

import sys

NAME = "confluent-kafka"


def command() -> list[str]:
    """The driver, in this interpreter."""
    return [sys.executable, "-m", "integration.clients.confluent_kafka.driver"]


def consumer() -> list[str]:
    """The program that `kshim conform-client` judges."""
    return [sys.executable, "-m", "integration.clients.confluent_kafka.consumer"]
