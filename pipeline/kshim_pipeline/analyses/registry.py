"""The thirteen analyses: name, question, function, and the tables that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from kshim_pipeline.analyses import (
    correlation,
    crash_loops,
    migrations,
    phases,
    recovery,
    silence,
    slowest,
    stickiness,
    stopped,
    storms,
    stuck,
    timeouts,
    why,
)
from kshim_pipeline.schemas import INFERRED, OBSERVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Analysis(NamedTuple):
    """A question and the function that answers it. `function` takes the tables of `needs`, and of `may_use`, by name.

    `bases`: whether its rows can be observed, inferred, or both, depending on their source.
    """

    number: int
    name: str
    question: str
    function: Callable[..., DataFrame]
    findings: Callable[[DataFrame], DataFrame]
    needs: tuple[str, ...]
    bases: tuple[str, ...]
    may_use: tuple[str, ...] = ()


_BOTH: Final = (OBSERVED, INFERRED)
_REBALANCES: Final = ("rebalances",)

# fmt: off
ANALYSES: Final[Mapping[str, Analysis]] = {
    analysis.name: analysis
    for analysis in (
        Analysis(1, "why", "Why did a group rebalance, and which member triggered it?",
                 why.why, why.findings, _REBALANCES, _BOTH),
        Analysis(2, "phases", "How long do the phases of rebalances take, per group, reason and day?",
                 phases.phases, phases.findings, _REBALANCES, _BOTH),
        Analysis(3, "storms", "Which groups rebalance in storms, and is one member flapping?",
                 storms.storms, storms.findings, _REBALANCES, _BOTH, ("migrations",)),
        Analysis(4, "slowest", "Which clients and hosts delay rebalances most?",
                 slowest.slowest, slowest.findings, _REBALANCES, _BOTH),
        Analysis(5, "stopped", "How long were groups stopped, and how much work was not done?",
                 stopped.stopped, stopped.findings, _REBALANCES, _BOTH, ("ownership",)),
        Analysis(6, "stickiness", "How many partitions change owner, and how many needlessly, by assignor?",
                 stickiness.stickiness, stickiness.findings, ("generations", "ownership", "memberships"), (INFERRED,)),
        Analysis(7, "stuck", "Which partitions make no progress although there are records to read?",
                 stuck.stuck, stuck.findings, ("commits", "ownership", "generations"), (INFERRED,), ("log_ends",)),
        Analysis(8, "silence", "How long are there no commits around a generation, and how much is read twice?",
                 silence.silence, silence.findings, ("commits", "generations"), (INFERRED,)),
        Analysis(9, "crash_loops", "Which clients restart repeatedly, and which leave a zombie member behind?",
                 crash_loops.crash_loops, crash_loops.findings, ("memberships",), _BOTH),
        Analysis(10, "recovery", "How much does lag grow during a rebalance, and how long does it take to recover?",
                 recovery.recovery, recovery.findings, ("rebalances", "commits", "log_ends"), _BOTH),
        Analysis(11, "timeouts", "Do session and poll timeouts fit the observed behaviour?",
                 timeouts.timeouts, timeouts.findings, ("memberships",), (OBSERVED,)),
        Analysis(12, "correlation", "Did one deployment or one host make many groups rebalance at once?",
                 correlation.correlation, correlation.findings, _REBALANCES, _BOTH),
        Analysis(13, "migrations", "Which groups went over from one protocol to the other, and how long did it take?",
                 migrations.migrations, migrations.findings, ("migrations", "rebalances"), _BOTH),
    )
}
# fmt: on
"""By name, in the order of their numbers."""


def run(analysis: Analysis, tables: Mapping[str, DataFrame]) -> DataFrame | None:
    """Its rows from `tables` (by name, of `kshim_pipeline.schemas`); None: a table that it needs is not there."""
    if any(name not in tables for name in analysis.needs):
        return None
    names = (*analysis.needs, *(name for name in analysis.may_use if name in tables))
    return analysis.function(**{name: tables[name] for name in names})


def all_findings(results: Mapping[str, DataFrame]) -> DataFrame:
    """The table findings from rows of analyses, by their names. Raises ValueError: there are none."""
    if not results:
        raise ValueError("no analysis was run")
    found = [ANALYSES[name].findings(rows) for name, rows in results.items()]
    return reduce(lambda one, other: one.unionByName(other), found)
