"""What pages show, as values: from a broker's own history, or from what was read of any cluster. Times are ms since 1970."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kshim.explain.facts import Fact

TopicPartition = tuple[str, int]


class Wait(NamedTuple):
    """How long after a rebalance began a member had done what the others waited for. `is_new`: nobody waited for it."""

    member_id: str
    name: str
    wait_ms: int
    is_new: bool


class Turn(NamedTuple):
    """One rebalance. `joined_ms` and `ended_ms` None: not yet, or never. `phases` have names and durations, in order.

    `explanation` is what the history says of it, which is observed; its cause is in an incident.
    """

    number: int
    began_ms: int
    joined_ms: int | None
    ended_ms: int | None
    outcome: str | None
    generation: int | None
    member_count: int
    phases: tuple[tuple[str, int], ...]
    explanation: str
    waits: tuple[Wait, ...] = ()
    leader_id: str | None = None
    protocol: str | None = None
    has_epochs: bool = False
    injected_faults: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it goes on."""
        return self.outcome is None


class Owners(NamedTuple):
    """Who was given which partition, by member id, at a time."""

    at_ms: int
    by_partition: Mapping[TopicPartition, str]


class MemberNow(NamedTuple):
    """A member at this moment."""

    member_id: str
    name: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]
    is_leader: bool
    session_ms: int | None


class OffsetNow(NamedTuple):
    """Where a group stands in a partition. None: unknown."""

    topic: str
    partition: int
    committed: int | None
    lag: int | None


class GroupNow(NamedTuple):
    """One group with all that its page shows. `incidents` are those of `kshim.explain.document`, in order of time."""

    name: str
    state: str
    now_ms: int
    generation: int | None
    protocol: str | None
    members: Sequence[MemberNow]
    offsets: Sequence[OffsetNow]
    turns: Sequence[Turn]
    facts: Sequence[Fact]
    incidents: Sequence[Mapping[str, Any]]
    owners: Sequence[Owners] = ()
    commits: Mapping[TopicPartition, Sequence[int]] = {}
    sessions: Mapping[str, int] = {}
    """`session.timeout.ms` of members, by member id, where it is known."""
    turns_omitted: int = 0

    @property
    def lag(self) -> int | None:
        """Of all partitions together; None: unknown."""
        known = [each.lag for each in self.offsets if each.lag is not None]
        return sum(known) if known else None


class GroupRow(NamedTuple):
    """One group in the list. `what` is the last thing that disturbed it, in a sentence; None: nothing is known."""

    name: str
    state: str
    is_rebalancing: bool
    since_ms: int | None
    """When the rebalance that is open began, or the last one."""
    member_count: int | None
    rebalance_count: int
    lag: int | None
    what: str | None
    who: str | None


class Site(NamedTuple):
    """What all pages of a cluster have in common. `can_act`: it has buttons, as the control interface is there.

    `stream` is the address of the server-sent events that say when something has happened; None: there are none.
    """

    title: str
    now_ms: int
    can_act: bool = False
    stream: str | None = None
    problem: str | None = None
    """What is wrong with everything on the page, such as brokers that are still starting."""
