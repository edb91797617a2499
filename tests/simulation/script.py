"""What a simulated run is made of, as data: its setting, its actors, and the inputs in their order.

A run is found by chance and then is a `Script`: it can be played again, with parts taken out, without any chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TopicPartitions = tuple[tuple[str, int], ...]
"""(topic, partition) pairs."""

REQUEST_VERBS = frozenset(
    {"join", "sync", "heartbeat", "leave", "commit", "fetch", "describe", "list", "delete", "offset-delete", "remove"}
)
"""Inputs that are requests; `remove` is an administrator's LeaveGroup. All others happen to the coordinator."""


class Versions(NamedTuple):
    """The api versions one kind of client speaks."""

    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    fetch: int


class Actor(NamedTuple):
    """One process that is a client. A process that was restarted is another actor."""

    name: str
    group_id: str
    instance_id: str | None
    versions: Versions
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[str, ...]
    subscription_version: int
    client_id: str


class Setting(NamedTuple):
    """The broker's settings (names of GroupConfig) and the topics: name -> partitions."""

    config: Mapping[str, Any]
    topics: Mapping[str, int]
    is_through_codecs: bool = False

    @property
    def retention_ms(self) -> int:
        """How long offsets live."""
        minutes: int = self.config["offsets_retention_minutes"]
        return minutes * 60_000


class Input:
    """One thing that happens, at an instant of virtual time.

    Requests have an actor and a `basis`: the serial of the Join whose answer the actor acts upon (its member id,
    generation, role), None for a client that knows nothing. `detail` holds what else the verb needs. `was_heard` is
    whether the answer reached the actor.
    """

    __slots__ = ("actor", "at_ms", "basis", "detail", "serial", "verb", "version", "was_heard")

    def __init__(
        self,
        serial: int,
        at_ms: int,
        verb: str,
        *,
        actor: str = "",
        version: int = 0,
        basis: int | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        self.serial = serial
        self.at_ms = at_ms
        self.verb = verb
        self.actor = actor
        self.version = version
        self.basis = basis
        self.detail: Mapping[str, Any] = detail if detail is not None else {}
        self.was_heard = False

    def __repr__(self) -> str:
        return f"{self.serial}@{self.at_ms} {self.verb} {self.actor} v{self.version} of {self.basis} {self.detail}"

    def at(self, at_ms: int) -> Input:
        """The same at another time."""
        copy = Input(
            self.serial,
            at_ms,
            self.verb,
            actor=self.actor,
            version=self.version,
            basis=self.basis,
            detail=self.detail,
        )
        copy.was_heard = self.was_heard
        return copy


class Script(NamedTuple):
    """A run to be played again. `actors` may hold more than take part."""

    setting: Setting
    actors: Mapping[str, Actor]
    inputs: tuple[Input, ...]
