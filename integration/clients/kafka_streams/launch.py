"""Kafka Streams 4.3.1: its own commands beside those of the Java client's driver."""

from __future__ import annotations

from pathlib import Path

from integration.clients.java.launch import SOURCES
from integration.support.jars import JarSet
from integration.support.java_program import java_program

NAME = "Kafka Streams"
ONLY = ("word_count",)  # all else is the Java client's, whose commands its driver has for topics and records
_HERE = Path(__file__).parent
_JARS = JarSet("kafka-streams-4.3.1", _HERE)


def command() -> list[str]:
    """Raises as `java_program` does."""
    return java_program("StreamsDriver", [*SOURCES, *(_HERE / "src").glob("*.java")], _JARS, "-Xmx512m")


def consumer() -> list[str]:
    """The program that `kshim conform-client` judges. Raises as `command`."""
    return java_program("PlainStreams", [*SOURCES, *(_HERE / "src").glob("*.java")], _JARS, "-Xmx256m")


JUDGED = {
    "commit-rebalance-in-progress": "the stream thread ends with the error. Kafka answers so only between JoinGroup and SyncGroup, when Streams does not commit",
    "commit-illegal-generation": "it joins again as a new member without leaving: the coordinator waits for the old member until its session ends (45 s), and nobody consumes meanwhile",
}
"""What `kshim conform-client` finds, and why."""
