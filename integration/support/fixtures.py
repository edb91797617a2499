"""Fixtures that every suite shares; the `conftest.py` at the root names this module as a plugin."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from integration.support import jars
from integration.support.broker import Broker
from integration.support.jvm import Jvm
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from integration.support.unavailable import Unavailable

T = TypeVar("T")

KINDS = ["kshim", pytest.param("kafka", marks=pytest.mark.kafka)]
"""Parameters for a fixture or test that runs against both brokers."""


def available(make: Callable[[], T]) -> T:
    """The value of `make`, or a skip whose reason says what is missing.

    With `KSHIM_TEST_REQUIRE_ALL` set a missing thing fails instead, for a machine that is known to have everything.
    """
    try:
        return make()
    except Unavailable as missing:
        if os.environ.get("KSHIM_TEST_REQUIRE_ALL"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def kafka_jars() -> tuple[Path, ...]:
    """The Kafka 4.4.0 jars; skips where they cannot be had."""
    return available(jars.jars)


@pytest.fixture(scope="session")
def jvm() -> Iterator[Jvm]:
    """One JVM with the Kafka jars for the whole run; skips where there is none."""
    running = available(Jvm)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def real_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """A running Apache Kafka 4.4.0, one for the whole run: tests use topics and groups of their own."""
    kafka = available(lambda: RealKafka(tmp_path_factory.mktemp("kafka")))
    kafka.start()
    yield kafka
    kafka.stop()


@pytest.fixture(scope="session")
def kshim_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KshimProcess]:
    """A running `kshim serve` with its defaults, one for the whole run: tests use topics and groups of their own."""
    kshim = KshimProcess(tmp_path_factory.mktemp("kshim"))
    kshim.start()
    yield kshim
    kshim.stop()


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest) -> Broker:
    """Each broker in turn, running and shared with other tests, so not to be stopped."""
    name = {"kshim": "kshim_process", "kafka": "real_kafka"}[request.param]
    shared: Broker = request.getfixturevalue(name)
    return shared


@pytest.fixture(params=KINDS)
def durable_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """Each broker in turn, running, whose data survives: it may be stopped, killed and started again."""
    if request.param == "kafka":
        shared: RealKafka = request.getfixturevalue("real_kafka")
        yield shared
        if not shared.running:  # a test that failed in between
            shared.start()
        return
    kshim = KshimProcess(tmp_path / "kshim", durable=True)
    kshim.start()
    yield kshim
    kshim.stop()
