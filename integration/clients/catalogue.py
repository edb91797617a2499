"""The clients of the matrix: each folder beside this file that has a `launch.py`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from integration.clients.driver import Driver

CLASSIC, CONSUMER = "classic", "consumer"
"""Values of `group.protocol`."""


_CONSUMER_PROTOCOL = "CONSUMER_PROTOCOL"
"""What a `launch.py` has if its client knows the consumer protocol: what it fails with that on both brokers, and why."""


class Client(NamedTuple):
    """A client library that has a driver, with one of the group protocols that it knows."""

    folder: str
    name: str
    """Which no other has."""
    group_protocol: str = CLASSIC

    @property
    def library(self) -> str:
        """As on the page, where the group protocol is in the title."""
        name: str = _launch(self.folder).NAME
        return name

    @property
    def key(self) -> str:
        """A short name for the command line and for folders."""
        return self.folder if self.group_protocol == CLASSIC else f"{self.folder}-{self.group_protocol}"

    def command(self) -> list[str]:
        """What starts its driver, built if need be. Raises Unavailable."""
        return _command(self.folder)

    def consumer(self) -> list[str]:
        """What starts its plain consumer, built if need be. Raises Unavailable."""
        command: list[str] = _launch(self.folder).consumer()
        return command

    @property
    def judged(self) -> Mapping[str, str]:
        """Why it is known to fail behaviours of `kshim conform-client`, by their names."""
        known: Mapping[str, str] = getattr(_launch(self.folder), "JUDGED", {})
        return known

    def plays(self, situation: str) -> bool:
        """Whether a situation is for it.

        A `launch.py` may name the beginnings of those that are; they are for nobody else then.
        """
        if own := _claimed(self.folder):
            return situation.startswith(own)
        return not any(situation.startswith(_claimed(folder)) for folder in _folders())

    def fails_on_both(self, situation: str) -> str | None:
        """Why a situation is known to fail on either broker because of the client; None where it is not known to."""
        where = "FAILS_ON_BOTH" if self.group_protocol == CLASSIC else _CONSUMER_PROTOCOL
        reasons: Mapping[str, str] = getattr(_launch(self.folder), where, {})
        return reasons.get(situation)

    def start(self, log: Path) -> Driver:
        """A process of its driver. Raises Unavailable."""
        environment: Mapping[str, str] = getattr(_launch(self.folder), "ENVIRONMENT", {})
        return Driver(self.command(), log, environment)


def clients() -> list[Client]:
    """All of them with the classic protocol, sorted by name."""
    return sorted((Client(folder, _launch(folder).NAME) for folder in _folders()), key=lambda client: client.name)


def consumer_protocol_clients() -> list[Client]:
    """Those that have the consumer group protocol (KIP-848), with it; sorted by name."""
    return [
        Client(each.folder, f"{each.name} with group.protocol=consumer", CONSUMER)
        for each in clients()
        if hasattr(_launch(each.folder), _CONSUMER_PROTOCOL)
    ]


def client_named(name: str) -> Client:
    """The client of this name or key. Raises SystemExit with the keys that there are."""
    found = clients() + consumer_protocol_clients()
    for client in found:
        if name in (client.name, client.key):
            return client
    raise SystemExit(f"no client {name!r}; there are {', '.join(client.key for client in found)}")


@functools.cache
def _folders() -> list[str]:
    return [path.parent.name for path in Path(__file__).parent.glob("*/launch.py")]


def _claimed(folder: str) -> tuple[str, ...]:
    claimed: tuple[str, ...] = getattr(_launch(folder), "ONLY", ())
    return claimed


@functools.cache
def _launch(folder: str) -> ModuleType:
    return importlib.import_module(f"integration.clients.{folder}.launch")


@functools.cache
def _command(folder: str) -> list[str]:
    command: list[str] = _launch(folder).command()
    return command
