"""What a profile does: a plan is a pure function of its name and the seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

Kind = Literal["restart", "replace", "pause", "expire", "rebalance", "move_coordinator", "move_leader", "fault"]

Scope = Literal["group", "member", "client", "partition", "offsets"]


class Act(NamedTuple):
    """One thing to be done. `target` is a number; member, partition or broker is the one at that place, counted around.

    `rule` of a fault is a document as `Faults.add` takes it; its match is completed as `scope` says: with the group, with group and
    client id of a member, with its client id only, with topic and partition, or with the topic of committed offsets.
    """

    kind: Kind
    target: int
    rule: Mapping[str, Any] | None = None
    scope: Scope = "group"

    def __str__(self) -> str:
        if self.rule is None:
            return f"{self.kind} {self.target}"
        return f"fault {self.target} {dict(self.rule)} ({self.scope})"


Plan = tuple[Act, ...]
_TARGETS: Final = 1_000


def plan_of(profile: str, seed: int) -> Plan:
    """What a profile does with this seed, always the same. Raises ValueError for a profile there is not."""
    draw = PROFILES.get(profile)
    if draw is None:
        raise ValueError(f"there is no chaos profile {profile!r}: use one of {', '.join(PROFILES)}")
    return draw(random.Random(f"{profile} {seed}"))


def _target(drawn: random.Random) -> int:
    return drawn.randrange(_TARGETS)


def _rolling_deploy(drawn: random.Random) -> Plan:
    first, count = _target(drawn), drawn.randint(2, 4)
    return tuple(Act("restart", first + turn) for turn in range(count))


def _pod_restart_static(drawn: random.Random) -> Plan:
    first, count = _target(drawn), drawn.randint(2, 4)
    return tuple(Act("replace", first + turn) for turn in range(count))


def _gc_pause(drawn: random.Random) -> Plan:
    return tuple(Act("pause", _target(drawn)) for _ in range(drawn.randint(1, 3)))


def _zombie(drawn: random.Random) -> Plan:
    """Heartbeats are answered late, so that the member goes on for a while as if it still were one."""
    acts = []
    for _ in range(drawn.randint(1, 3)):
        target = _target(drawn)
        late = {"on": "Heartbeat", "do": {"delay": drawn.randint(1, 4) / 10}, "when": "once"}
        acts += [Act("fault", target, late, "member"), Act("expire", target)]
    return tuple(acts)


def _coordinator_failover(drawn: random.Random) -> Plan:
    acts = []
    for _ in range(drawn.randint(2, 4)):
        if drawn.random() < 0.5:
            loading = {"on": "OffsetCommit", "do": {"loading": drawn.randint(1, 3) / 10}, "when": "once"}
            acts.append(Act("fault", _target(drawn), loading))
        acts.append(Act("move_coordinator", _target(drawn)))
        if drawn.random() < 0.5:
            acts.append(Act("rebalance", _target(drawn)))
    return tuple(acts)


def _slow_leader(drawn: random.Random) -> Plan:
    acts = []
    for _ in range(drawn.randint(2, 3)):
        target = _target(drawn)
        slow = {"on": "Fetch", "do": {"delay": drawn.randint(2, 4) / 10}, "when": {"times": drawn.randint(1, 2)}}
        acts.append(Act("fault", target, slow, "partition"))
        if drawn.random() < 0.5:
            acts.append(Act("move_leader", target))
    return tuple(acts)


_FLAPPING: Final[tuple[tuple[str, Scope], ...]] = (
    ("*", "client"),
    ("Fetch", "client"),
    ("Produce", "partition"),
    ("Heartbeat", "member"),
    ("OffsetCommit", "member"),
    ("JoinGroup", "group"),
    ("SyncGroup", "group"),
)


def _flapping_network(drawn: random.Random) -> Plan:
    acts = []
    for _ in range(drawn.randint(3, 5)):
        on, scope = drawn.choice(_FLAPPING)
        cut = {"disconnect": drawn.choice(("before", "after"))}
        acts.append(Act("fault", _target(drawn), {"on": on, "do": cut, "when": {"times": drawn.randint(1, 3)}}, scope))
        if on in ("JoinGroup", "SyncGroup") or drawn.random() < 0.3:
            acts.append(Act("rebalance", _target(drawn)))
    return tuple(acts)


_APPENDING: Final[tuple[tuple[str, Scope], ...]] = (
    ("Append", "partition"),
    ("Append", "offsets"),
    ("OffsetCommit", "group"),
)


def _disk_full(drawn: random.Random) -> Plan:
    acts = []
    for _ in range(drawn.randint(2, 4)):
        on, scope = drawn.choice(_APPENDING)
        acts.append(
            Act("fault", _target(drawn), {"on": on, "do": "disk_full", "when": {"times": drawn.randint(1, 3)}}, scope)
        )
        if drawn.random() < 0.5:
            acts.append(Act("rebalance", _target(drawn)))
    return tuple(acts)


PROFILES: Final[dict[str, Callable[[random.Random], Plan]]] = {
    "rolling-deploy": _rolling_deploy,
    "gc-pause": _gc_pause,
    "slow-leader": _slow_leader,
    "zombie": _zombie,
    "flapping-network": _flapping_network,
    "pod-restart-static": _pod_restart_static,
    "coordinator-failover": _coordinator_failover,
    "disk-full": _disk_full,
}
