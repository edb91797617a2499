"""What a scenario file says, as values."""

from __future__ import annotations

from typing import NamedTuple


class ScenarioError(ValueError):
    """A scenario file says something that cannot be read. `str(error)` has file and line."""


class Outcome(NamedTuple):
    """What one request is answered: an error's name with fields, or `parked` (error is "parked" then)."""

    error: str
    fields: dict[str, str]

    @property
    def is_parked(self) -> bool:
        """Whether no answer may come in this step."""
        return self.error == "parked"

    def __str__(self) -> str:
        return " ".join((self.error, *(f"{name}={value}" for name, value in self.fields.items())))


class Expectation(NamedTuple):
    """The outcome of the step's own request (None for steps that ask nothing), and answers it releases, by actor."""

    own: Outcome | None
    released: dict[str, Outcome]


class Transition(NamedTuple):
    """`states` in order, the first one left; `cause` and the member concerned as an actor, "" when not said."""

    states: tuple[str, ...]
    cause: str
    actor: str


class Writes(NamedTuple):
    """One record: `kind` is group-metadata, group-tombstone, offset, offset-tombstone; `nothing` stands for none."""

    kind: str
    fields: dict[str, str]


class Step(NamedTuple):
    """One line: `verb`, the acting client ("" when none), words without `=`, options, and what must follow."""

    line: int
    text: str
    verb: str
    actor: str
    words: tuple[str, ...]
    options: dict[str, str]
    expectation: Expectation
    transitions: list[Transition]
    writes: list[Writes]


class Scenario(NamedTuple):
    """One file. `limit_ms` is the real time it may take over the wire, None for virtual time only.

    `topology` is what members of streams groups join with, see `streams_groups.topology_of`.
    `differs` says why kshim behaves otherwise than Kafka here, "" where it does not: other brokers are not held to it.
    """

    name: str
    title: str
    suite: str
    rules: tuple[str, ...]
    config: dict[str, str]
    topics: dict[str, int]
    topology: str
    limit_ms: int | None
    differs: str
    steps: list[Step]
