"""How a scenario ended, and what was seen where it went wrong."""

from __future__ import annotations

from typing import NamedTuple

from kshim.tools.report import Verdict
from kshim.tools.scenario.answers import differences
from kshim.tools.scenario.model import Outcome, Scenario, Step


class Failure(NamedTuple):
    """The first step that did not go as the file says: its line and text, expected and seen, and the differences."""

    line: int
    step: str
    expected: str
    seen: str
    differences: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"line {self.line}: {self.step}", f"  expected: {self.expected}", f"  seen:     {self.seen}"]
        return "\n".join([*lines, *(f"  {difference}" for difference in self.differences)])


class Result(NamedTuple):
    """One scenario's end: `reason` why it was skipped, `failure` what went wrong; `seconds` it took.

    `missing` holds the settings that the broker would need for it, as KEY=VALUE.
    """

    scenario: Scenario
    verdict: Verdict
    seconds: float
    reason: str = ""
    failure: Failure | None = None
    missing: tuple[str, ...] = ()


class Mismatch(Exception):
    """A step did not go as the file says."""

    def __init__(self, step: Step, expected: object, seen: object, found: list[str] | None = None) -> None:
        self.failure = Failure(step.line, step.text, str(expected), str(seen), tuple(found or ()))
        super().__init__(str(self.failure))


def judge(step: Step, who: str, expected: Outcome, seen: Outcome | None) -> None:
    """Compare a response with what `step` expects of `who` ("" is the actor of the step). Raises Mismatch."""
    name = f"{who}: " if who else ""
    if seen is None:
        raise Mismatch(step, f"{name}{expected}", f"{name}no answer")
    found = differences(expected, seen)
    if found:
        raise Mismatch(step, f"{name}{expected}", f"{name}{seen}", found)
