"""The states of a classic group and which may follow which."""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """State of a classic group; the value is how Kafka spells it in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    __hash__ = object.__hash__  # as they are compared: an Enum's own is a function of Python

    def __str__(self) -> str:
        return self.value


VALID_PREVIOUS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset({GroupState.EMPTY}),
}
"""For each state, the states a group may come from. Only an Empty group is ever deleted, hence Dead follows Empty."""


def mermaid() -> str:
    """The table as a mermaid state diagram, without a trailing newline."""
    lines = ["stateDiagram-v2", f"    [*] --> {GroupState.EMPTY}"]
    lines += [
        f"    {previous} --> {state}"
        for previous in GroupState
        for state in GroupState
        if previous in VALID_PREVIOUS[state]
    ]
    lines.append(f"    {GroupState.DEAD} --> [*]")
    return "\n".join(lines)
