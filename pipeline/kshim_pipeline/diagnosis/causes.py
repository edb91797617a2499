"""The root causes, and the fields of a diagnosed incident. docs/design/diagnosis.md describes each cause."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kshim_pipeline.diagnosis.signals import Evidence


class Cause(Enum):
    """Why a group was disturbed: what an operator would write in a report."""

    DEPLOY = "deploy"
    RESTART = "restart"
    STATIC_RESTART = "static_restart"
    CRASH_LOOP = "crash_loop"
    FLAPPING = "flapping"
    SLOW_POLL = "slow_poll"
    SLOW_LEADER = "slow_leader"
    KILLED = "killed"
    PAUSED = "paused"
    HOST_STALLED = "host_stalled"
    ONE_BY_ONE_START = "one_by_one_start"
    SCALE_UP = "scale_up"
    SCALE_DOWN = "scale_down"
    PARTITIONS_ADDED = "partitions_added"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    REBALANCE_ENFORCED = "rebalance_enforced"
    DUPLICATE_INSTANCE = "duplicate_instance"
    UNEXPLAINED = "unexplained"

    def __str__(self) -> str:
        return self.value


OF_PROCESSES = (
    Cause.KILLED,
    Cause.PAUSED,
    Cause.RESTART,
    Cause.STATIC_RESTART,
    Cause.FLAPPING,
    Cause.CRASH_LOOP,
    Cause.DUPLICATE_INSTANCE,
)
"""Causes that affect a process in all its groups, although each group may show another; the most specific last."""


class Subject(Enum):
    """What caused it: one client, several, all of the group, or everything on a host."""

    CLIENT = "client"
    CLIENTS = "clients"
    GROUP = "group"
    HOST = "host"

    def __str__(self) -> str:
        return self.value


class Confidence(Enum):
    """How much of it was observed and how much was inferred."""

    HIGH = "high"
    """The pattern fits, and a reason or a measurement of the client or broker confirms it."""
    MEDIUM = "medium"
    """The pattern fits no other cause, but no reason confirms it."""
    LOW = "low"
    """Another cause leaves nearly the same evidence."""

    def __str__(self) -> str:
        return self.value


class Diagnosed(NamedTuple):
    """One incident in one group. `clients` are instance ids or `client id@host`, sorted.

    Incidents within `quiet_ms` of it, in any group, may be the same.
    """

    from_ms: int
    to_ms: int
    quiet_ms: int
    cause: Cause
    subject: Subject
    clients: tuple[str, ...]
    host: str | None
    member_ids: tuple[str, ...]
    confidence: Confidence
    sentence: str
    is_observed: bool
    evidence: tuple[Evidence, ...]
