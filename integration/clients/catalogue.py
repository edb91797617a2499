"""The clients of the matrix: each folder beside this file that has a `launch.py`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from integration.clients.driver import Driver


class Client(NamedTuple):
    """A client library that has a driver."""

    folder: str
    name: str
    """As on the page."""

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
        reasons: Mapping[str, str] = getattr(_launch(self.folder), "FAILS_ON_BOTH", {})
        return reasons.get(situation)

    def start(self, log: Path) -> Driver:
        """A process of its driver. Raises Unavailable."""
        environment: Mapping[str, str] = getattr(_launch(self.folder), "ENVIRONMENT", {})
        return Driver(self.command(), log, environment)


def clients() -> list[Client]:
    """All of them, sorted by name."""
    return sorted((Client(folder, _launch(folder).NAME) for folder in _folders()), key=lambda client: client.name)


def client_named(name: str) -> Client:
    """The client of this name or in this folder. Raises SystemExit with the names that there are."""
    found = clients()
    for client in found:
        if name in (client.name, client.folder):
            return client
    raise SystemExit(f"no client {name!r}; there are {', '.join(client.name for client in found)}")


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
