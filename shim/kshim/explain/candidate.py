"""A hypothesis, applied to disturbances."""

from __future__ import annotations

from typing import NamedTuple

from kshim.explain.causes import Cause
from kshim.explain.disturbances import Disturbance
from kshim.explain.weigh import Evidence, weight


class Candidate(NamedTuple):
    """A cause that may have had these disturbances, with the evidence for and against it."""

    cause: Cause
    explains: tuple[Disturbance, ...]
    evidence: tuple[Evidence, ...]
    prior: float = 0.0
    host: str | None = None

    @property
    def weight(self) -> float:
        """Log odds."""
        return weight(self.prior, self.evidence)
