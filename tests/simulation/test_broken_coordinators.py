"""The simulation finds what is wrong: each defect within a few seeds, and says it in a few lines."""

from __future__ import annotations

import pytest

from tests.simulation.broken import DEFECTS
from tests.simulation.shrink import shrink
from tests.simulation.simulate import play, simulate
from tests.simulation.transcript import transcript

MOST_SEEDS = 100
STEPS = 300


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_defect_is_found_within_a_few_seeds(name: str) -> None:
    with DEFECTS[name]():
        found = next((found for seed in range(MOST_SEEDS) if (found := simulate(seed, STEPS)).violation), None)
    assert found is not None, f"{name}: not found in {MOST_SEEDS} seeds"
    assert play(found.script) is None, f"{name}: the same inputs break a sound coordinator too"


@pytest.mark.parametrize("name", ["a superseded Join is forgotten", "replay forgets instance ids"])
def test_a_failing_run_is_cut_down_to_a_few_lines(name: str) -> None:
    with DEFECTS[name]():
        found = next(found for seed in range(MOST_SEEDS) if (found := simulate(seed, STEPS)).violation)
        assert found.violation is not None
        rule = found.violation.rule
        short = shrink(found.script, rule, limit_s=20)
        violation = play(short)
        text = transcript(short)
    assert violation is not None
    assert violation.rule == rule
    assert len(short.inputs) <= 12, text
    assert f"# then: {rule}" in text
