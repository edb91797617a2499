"""The clients of rolling upgrades, by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration.rolling.members import Joins, java, kafka_python, librdkafka


@pytest.fixture
def joins(request: pytest.FixtureRequest) -> Callable[[str], Joins]:
    """From a client's name to how it joins; starts a JVM only for Java, and skips where there is none."""

    def by_name(name: str) -> Joins:
        match name:
            case "java":
                return java(request.getfixturevalue("jvm"))
            case "kafka-python":
                return kafka_python
            case "librdkafka":
                return librdkafka
            case _:
                raise AssertionError(f"no client is named {name}")

    return by_name
