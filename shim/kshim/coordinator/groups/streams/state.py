"""The states of a streams group and of its members. That of a group follows from epochs and is never stored."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum


class StreamsGroupState(Enum):
    """As Kafka prints them."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"

    __hash__ = object.__hash__  # as they are compared: an Enum's own is a function of Python

    def __str__(self) -> str:
        return self.value


class MemberState(IntEnum):
    """How far a member is on its way to its target; numbers as in records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


def state_of(
    *, is_ready: bool, group_epoch: int, target_epoch: int, members: Iterable[tuple[int, MemberState]]
) -> StreamsGroupState:
    """The state of a group with these `members` (epoch, state). `is_ready`: the topics of its topology were found as it needs them.

    Source: Kafka's StreamsGroup.maybeUpdateGroupState.
    """
    state, settled = StreamsGroupState.EMPTY, (target_epoch, MemberState.STABLE)
    for member in members:
        if not is_ready:
            return StreamsGroupState.NOT_READY
        if group_epoch > target_epoch:
            return StreamsGroupState.ASSIGNING
        if member != settled:
            return StreamsGroupState.RECONCILING
        state = StreamsGroupState.STABLE
    return state
