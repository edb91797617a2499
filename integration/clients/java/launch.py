"""Apache Kafka's own Java client, 4.4.0."""

from __future__ import annotations

from pathlib import Path

from integration.support.jars import KAFKA
from integration.support.java_program import java_program

NAME = "kafka-clients (Java)"
SOURCES = tuple(sorted((Path(__file__).parent / "src").glob("*.java")))
"""The driver. Kafka Streams has the same, and more."""

CONSUMER_PROTOCOL: dict[str, str] = {}


def command() -> list[str]:
    """Raises as `java_program` does."""
    return java_program("Driver", SOURCES, KAFKA, "-Xmx512m")


def consumer() -> list[str]:
    """The program that `kshim conform-client` judges. Raises as `command`."""
    return java_program("PlainConsumer", SOURCES, KAFKA, "-Xmx256m")
