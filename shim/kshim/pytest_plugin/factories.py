"""Fixtures with arguments of their own, beside those that the plugin brings.

from kshim.pytest_plugin import factories

kshim_proc_of_three = factories.kshim_proc(brokers=3)
kshim_of_three = factories.kshim("kshim_proc_of_three")
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import pytest

from kshim.pytest_plugin.arguments import Arguments, checked, real_address

if TYPE_CHECKING:
    from kshim.pytest_plugin.real import AsyncRealKafka, RealKafka
    from kshim.testing import AsyncKshim, Kshim

_NAME_CHARACTERS = 150
"""Of the name of a test, in that of a topic: Kafka allows 249 in all."""


def kshim_proc(**arguments: Unpack[Arguments]) -> Any:
    """A fixture of the whole run, or of each worker of pytest-xdist: running brokers, started when first used.

    `arguments` are those of `kshim.testing.Kshim`; others come from the configuration of pytest.
    """
    given = checked("factories.kshim_proc", arguments)

    @pytest.fixture(scope="session")
    def broker(request: pytest.FixtureRequest) -> Iterator[Kshim | RealKafka]:
        """Brokers of the whole run, which no test cleans."""
        from kshim.pytest_plugin.brokers import running

        with running(request.config, given) as found:
            yield found

    return broker


def kshim_noproc(bootstrap_servers: str | None = None) -> Any:
    """A fixture of the whole run: brokers that run elsewhere, at `--kafka-real` unless said otherwise."""

    @pytest.fixture(scope="session")
    def broker(request: pytest.FixtureRequest) -> Iterator[RealKafka]:
        """A Kafka that runs elsewhere."""
        address = bootstrap_servers or real_address(request.config)
        if address is None:
            pytest.fail("kshim_noproc needs an address: --kafka-real HOST:PORT, or kafka_real in the configuration")
        from kshim.pytest_plugin.real import RealKafka

        with RealKafka(address) as found:
            yield found

    return broker


def kshim(process: str = "kshim_proc", **arguments: Unpack[Arguments]) -> Any:
    """A fixture of each test: the brokers of the fixture `process`, clean.

    Where `arguments` or the marker `kshim` ask for other brokers than those, the test has its own.
    """
    given = checked("factories.kshim", arguments)

    @pytest.fixture
    def clean_broker(request: pytest.FixtureRequest) -> Iterator[Kshim | RealKafka]:
        """Clean brokers, of this test alone."""
        from kshim.pytest_plugin.brokers import clean

        with clean(request.getfixturevalue(process), given, request) as found:
            yield found

    return clean_broker


def kshim_async(broker: str = "kshim") -> Any:
    """A fixture: the brokers of the fixture `broker`, with waits to be awaited, in asyncio and trio."""

    @pytest.fixture
    def awaitable(request: pytest.FixtureRequest) -> AsyncKshim | AsyncRealKafka:
        """The brokers of `kshim`, with waits to be awaited."""
        found: Kshim | RealKafka = request.getfixturevalue(broker)
        return found.as_async()

    return awaitable


def kshim_topic(broker: str = "kshim", *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Any:
    """A fixture: the name of a new topic of the brokers of the fixture `broker`."""

    @pytest.fixture
    def topic(request: pytest.FixtureRequest) -> str:
        """The name of a new topic."""
        name = _unique(request)
        request.getfixturevalue(broker).create_topic(name, partitions, configs)
        return name

    return topic


def kshim_group() -> Any:
    """A fixture: a group id that nobody has used."""

    @pytest.fixture
    def group(request: pytest.FixtureRequest) -> str:
        """A group id that nobody has used."""
        return _unique(request)

    return group


def _unique(request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:_NAME_CHARACTERS].strip("-")
    return f"{name}-{uuid.uuid4().hex[:12]}"
