"""The scenarios that `kshim conform` and the tests play: the text files beside this module."""

from __future__ import annotations

from pathlib import Path

from kshim.tools.scenario.model import Scenario
from kshim.tools.scenario.parse import parse_scenario

_DIRECTORY = Path(__file__).with_name("scenarios")


def load_scenarios() -> list[Scenario]:
    """All scenarios, sorted by name. Raises ScenarioError."""
    return [parse_scenario(file.stem, file.read_text(encoding="utf-8")) for file in sorted(_DIRECTORY.glob("*.txt"))]
