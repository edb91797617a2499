"""What a situation is, and how one is written down."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

from integration.clients.catalogue import CLASSIC, CONSUMER, Client
from integration.clients.scene import Scene


class Setting(enum.Enum):
    """Which broker a situation is played on."""

    SHARED = "the one that all share"
    ALONE = "one of its own, which it may kill"
    SECURED = "a shared one with TLS, SASL and access rules"


class Situation(NamedTuple):
    """Something that users do with every client, and what must come of it."""

    name: str
    """A row's short name, unique: what `--situations` takes."""
    title: str
    play: Callable[[Scene], None]
    """Raises Unsupported where the client cannot express it, anything else where it failed."""
    setting: Setting
    protocols: tuple[str, ...]
    """The group protocols it is played with."""

    def is_for(self, client: Client) -> bool:
        """Whether this client plays it."""
        return client.group_protocol in self.protocols and client.plays(self.name)


EITHER = (CLASSIC, CONSUMER)

SITUATIONS: list[Situation] = []
"""In the order of the page."""


def situation(
    title: str, *, setting: Setting = Setting.SHARED, protocols: tuple[str, ...] = (CLASSIC,)
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Add a function to the list under its own name."""

    def add(play: Callable[[Scene], None]) -> Callable[[Scene], None]:
        assert play.__name__ not in [each.name for each in SITUATIONS], f"two situations are called {play.__name__}"
        SITUATIONS.append(Situation(play.__name__, title, play, setting, protocols))
        return play

    return add
