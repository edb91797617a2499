"""The states of a transaction and which may follow which."""

from __future__ import annotations

from enum import Enum


class TransactionState(Enum):
    """State of a transactional id; the value is how Kafka spells it in DescribeTransactions and ListTransactions."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    def __str__(self) -> str:
        return self.value

    @property
    def id(self) -> int:
        """The number of the state in records."""
        return _IDS[self]

    @property
    def is_decided(self) -> bool:
        """Whether the outcome stands and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


_IDS = {state: number for number, state in enumerate(TransactionState)}
_BY_ID = {number: state for state, number in _IDS.items()}
_BY_NAME = {state.value: state for state in TransactionState}

_IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

VALID_PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _IDLE | {TransactionState.ONGOING},  # idle: KIP-890, nothing was written
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _IDLE,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset(),
}
"""For each state, the states an id may come from.

Kafka passes through PrepareEpochFence in memory while it fences a producer; here the fence and the abort are one record,
so the state does not occur, and Kafka does not write it to its log either.
"""


def state_of(number: int) -> TransactionState | None:
    """The state a record's number stands for, None when there is no such."""
    return _BY_ID.get(number)


def state_named(name: str) -> TransactionState | None:
    """The state of that name, None when there is no such."""
    return _BY_NAME.get(name)


def mermaid() -> str:
    """The table as a mermaid state diagram, without a trailing newline."""
    lines = ["stateDiagram-v2", f"    [*] --> {TransactionState.EMPTY}"]
    lines += [
        f"    {previous} --> {state}"
        for previous in TransactionState
        for state in TransactionState
        if previous in VALID_PREVIOUS[state]
    ]
    lines.append(f"    {TransactionState.DEAD} --> [*]")
    return "\n".join(lines)
