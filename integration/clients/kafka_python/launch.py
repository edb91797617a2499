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


JUDGED = {
    "offset-fetch-coordinator-not-available": "it asks the same broker again until that answers; only NOT_COORDINATOR has it look for the coordinator again",
    "all-brokers-stop": "while no broker accepts a connection, the iterator raises KafkaConnectionError, which ends the program",
}
"""What `kshim conform-client` finds, and why."""
