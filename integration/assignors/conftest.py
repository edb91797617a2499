"""Kafka's own classes, for the tests that ask them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.assignors.kafka_classes import KafkaClasses
from integration.support.fixtures import available


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaClasses]:
    """A JVM that answers."""
    classes = available(KafkaClasses)
    yield classes
    classes.stop()
