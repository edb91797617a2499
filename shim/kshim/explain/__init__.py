"""Why groups rebalanced: ordered facts in, incidents out (docs/design/why.md). No I/O, no clock."""

from __future__ import annotations

from kshim.explain.facts import Known
from kshim.explain.incidents import Explainer, Incident, apart, explain, together

__all__ = ["Explainer", "Incident", "Known", "apart", "explain", "together"]
