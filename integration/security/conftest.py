"""Both brokers with security on, once for all suites here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.security.secured import SecureKafka, SecureKshim, running_kshim
from integration.support.fixtures import KINDS, available


@pytest.fixture(scope="session")
def secure_kshim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKshim]:
    """A running kshim; its data is in a folder."""
    with running_kshim(tmp_path_factory.mktemp("secure-kshim")) as kshim:
        yield kshim


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """A running Apache Kafka 4.4.0."""
    kafka = available(lambda: SecureKafka(tmp_path_factory.mktemp("secure-kafka")))
    kafka.start()
    yield kafka
    kafka.stop()


@pytest.fixture(params=KINDS)
def secure_broker(request: pytest.FixtureRequest) -> SecureKshim | SecureKafka:
    """Each in turn."""
    broker: SecureKshim | SecureKafka = request.getfixturevalue(f"secure_{request.param}")
    return broker
