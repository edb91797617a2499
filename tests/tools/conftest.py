"""What tests of groups on a running broker need: they say at which `address`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from kshim.tools.logs.broker import BrokerLogs
from tests.tools.peer import Peer


@pytest.fixture
def logs(address: tuple[str, int]) -> Iterator[BrokerLogs]:
    with closing(BrokerLogs(*address, client_id="test")) as logs:
        yield logs


@pytest.fixture
def one(address: tuple[str, int]) -> Iterator[Peer]:
    with closing(Peer(address, "one")) as peer:
        yield peer


@pytest.fixture
def two(address: tuple[str, int]) -> Iterator[Peer]:
    with closing(Peer(address, "two")) as peer:
        yield peer
