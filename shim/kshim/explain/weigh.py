"""Evidence to weights: log odds, in few steps.

A hypothesis has a weight before anything is seen, and each piece of evidence adds a step. The difference of two
hypotheses' sums is the logarithm of the odds between them, so probabilities are their shares of e to the sum.
Pieces of evidence are related, so that together they tell less than their sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from math import exp
from typing import NamedTuple

_UNRELATED = 0.65
"""How much of the sum the odds have: with it, of what is called 70 % probable about seven in ten are right (docs/design/why.md)."""


class Step(float, Enum):
    """How a piece of evidence changes the odds of a hypothesis, against that of hypotheses that say nothing of it."""

    MUST = 4.0
    """Only this hypothesis predicts it."""
    LIKELY = 1.5
    NEUTRAL = 0.0
    UNLIKELY = -1.5
    MUST_NOT = -5.0
    """The hypothesis excludes it, as far as the source is right."""


class Evidence(NamedTuple):
    """Something seen or not, and what it means for a hypothesis."""

    text: str
    step: Step
    is_observed: bool = True


def weight(prior: float, evidence: Iterable[Evidence]) -> float:
    """The sum for a hypothesis."""
    return prior + sum(each.step for each in evidence)


def shares(weights: Iterable[float]) -> list[float]:
    """The probability of each hypothesis, if one of them is true.

    >>> [round(share, 2) for share in shares([4.0, 0.0])]
    [0.93, 0.07]
    """
    weights = list(weights)
    most = max(weights, default=0.0)
    parts = [exp(_UNRELATED * (each - most)) for each in weights]
    total = sum(parts)
    return [part / total for part in parts]
