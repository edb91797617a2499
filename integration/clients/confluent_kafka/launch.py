"""confluent-kafka, that is librdkafka, in the matrix."""

from __future__ import annotations

import sys

NAME = "confluent-kafka"

CONSUMER_PROTOCOL: dict[str, str] = {}


def command() -> list[str]:
    """The driver, in this interpreter."""
    return [sys.executable, "-m", "integration.clients.confluent_kafka.driver"]


def consumer() -> list[str]:
    """The program that `kshim conform-client` judges."""
    return [sys.executable, "-m", "integration.clients.confluent_kafka.consumer"]


JUDGED = {
    **dict.fromkeys(
        ("commit-coordinator-not-available", "commit-not-coordinator"),
        "while it has no coordinator, its automatic commits wait one beside the other; they are sent again in any order, and an older one may be the last (not in every run)",
    ),
    **dict.fromkeys(
        ("offset-fetch-coordinator-not-available", "offset-fetch-not-coordinator"),
        "it looks for the coordinator again, but does not ask for the offsets again: it stays a member, and reads nothing until it is started anew (librdkafka issue 5586)",
    ),
    **dict.fromkeys(
        ("heartbeat-throttled", "commit-throttled"), "it reports throttle_time_ms to the application, and does not wait"
    ),
}
"""What `kshim conform-client` finds, and why."""
