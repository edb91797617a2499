"""Every scenario holds on the coordinator in virtual time, and the scenarios cover the rule book."""

from __future__ import annotations

import pytest

from kshim.tools.scenario.library import load_scenarios
from kshim.tools.scenario.model import Scenario
from tests.transcripts import on_a_node, sans_io

SCENARIOS = load_scenarios()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_coordinator_does_as_the_scenario_says(scenario: Scenario) -> None:
    (on_a_node if on_a_node.needs_a_node(scenario) else sans_io).play(scenario)
