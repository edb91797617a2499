"""What a situation is, and how one is written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from integration.clients.scene import Scene


class Situation(NamedTuple):
    """Something that users do with every client, and what must come of it."""

    name: str
    """A row's short name, unique: what `--situations` takes."""
    title: str
    play: Callable[[Scene], None]
    """Raises Unsupported where the client cannot express it, anything else where it failed."""
    alone: bool
    """Whether it needs a broker that it may kill or that is set up for it: `Scene.own_broker`."""


SITUATIONS: list[Situation] = []
"""In the order of the page."""


def situation(title: str, *, alone: bool = False) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Add a function to the list under its own name."""

    def add(play: Callable[[Scene], None]) -> Callable[[Scene], None]:
        assert play.__name__ not in [each.name for each in SITUATIONS], f"two situations are called {play.__name__}"
        SITUATIONS.append(Situation(play.__name__, title, play, alone))
        return play

    return add
