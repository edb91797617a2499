"""The input of the rules: signals, which are things that happened to a group, and snapshots of its members.

Signals come from events, from log lines or from changes between snapshots; rules do not distinguish them, except by
missing fields. No Spark here: a group's rows fit in memory, and rules are tested on rows written by hand.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The kind of a signal."""

    JOINED = "joined"
    """A member with a new id joined."""
    LEFT = "left"
    """A member left."""
    EXPIRED = "expired"
    """A member's session expired."""
    KICKED = "kicked"
    """A member did not rejoin within the rebalance timeout, or did not fetch its assignment in time."""
    REPLACED = "replaced"
    """A static member rejoined with a new id; `other_id` is the previous one."""
    REJOINED = "rejoined"
    """A member triggered a rebalance by rejoining."""
    JOIN_OVER = "join_over"
    """A JOIN phase ended after `wait_ms`: which existing member joined last."""
    SYNC_OVER = "sync_over"
    """The assignment arrived from this member, `wait_ms` after the JOIN phase."""
    PARTITIONS_ADDED = "partitions_added"
    """More partitions of the same topics are assigned than before. From records."""
    RESUBSCRIBED = "resubscribed"
    """A member changed its subscription. From records."""

    def __str__(self) -> str:
        return self.value


class Evidence(NamedTuple):
    """Where it was read: a record, or a line of the log (topic `log`)."""

    topic: str
    partition: int | None
    offset: int


class Signal(NamedTuple):
    """One thing that happened. Unknown parts are None. Times are ms since 1970, durations ms."""

    ts_ms: int
    kind: Kind
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    client_reason: str | None = None
    other_id: str | None = None
    state: str | None = None
    """The group's previous state, with Kafka's name."""
    wait_ms: int | None = None
    is_new: bool = False
    """With JOIN_OVER: no existing member was waited for."""
    stall: str | None = None
    """With EXPIRED: the host whose members went silent together with this one."""
    is_observed: bool = True
    evidence: Evidence | None = None


class Member(NamedTuple):
    """A member in a snapshot. `last_commit_ms`: its last commit before the next snapshot, None: there was none."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: tuple[str, ...] = ()
    partitions: int | None = None
    last_commit_ms: int | None = None

    @property
    def client(self) -> str:
        """The name an operator knows it by."""
        return self.instance_id or f"{self.client_id}@{self.host}"


class Snapshot(NamedTuple):
    """The group in one record."""

    ts_ms: int
    generation_id: int
    leader_id: str | None
    protocol: str | None
    members: tuple[Member, ...]
    joined_ms: int | None = None
    """End of the JOIN phase, if the record contains it."""
    evidence: Evidence | None = None
