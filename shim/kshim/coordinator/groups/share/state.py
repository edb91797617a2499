"""The states of a share group. There is no reconciliation: a group with members is Stable."""

from __future__ import annotations

from enum import Enum
from typing import Final


class ShareGroupState(Enum):
    """As Kafka prints them."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"

    __hash__ = object.__hash__  # as they are compared: an Enum's own is a function of Python

    def __str__(self) -> str:
        return self.value


MEMBER_STABLE: Final = 0
"""What a record says of every member."""
