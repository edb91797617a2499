"""Why groups rebalanced: ordered facts in, incidents out (docs/design/why.md). No I/O, no clock."""

from __future__ import annotations

from kshim.explain.facts import Known
from kshim.explain.incidents import Incident, apart, explain, together

__all__ = ["Incident", "Known", "apart", "explain", "together"]
