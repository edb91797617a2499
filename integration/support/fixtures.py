"""Fixtures that every suite shares; the `conftest.py` at the root names this module as a plugin."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from integration.support import jars
from integration.support.jvm import Jvm
from integration.support.unavailable import Unavailable

T = TypeVar("T")


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
