"""The states of a group and of its members. That of a group follows from epochs and is never stored."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum


class ConsumerGroupState(Enum):
    """As Kafka prints them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"

    __hash__ = object.__hash__  # as they are compared: an Enum's own is a function of Python

    def __str__(self) -> str:
        return self.value


class MemberState(IntEnum):
    """How far a member is on its way to its target; numbers as in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


def state_of(*, group_epoch: int, target_epoch: int, members: Iterable[tuple[int, MemberState]]) -> ConsumerGroupState:
    """The state of a group with these `members` (epoch, state). Source: Kafka's ConsumerGroup.maybeUpdateGroupState."""
    state, settled = ConsumerGroupState.EMPTY, (target_epoch, MemberState.STABLE)
    for member in members:
        if group_epoch > target_epoch:
            return ConsumerGroupState.ASSIGNING
        if member != settled:
            return ConsumerGroupState.RECONCILING
        state = ConsumerGroupState.STABLE
    return state
