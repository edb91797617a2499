"""Where the scenario files are: shipped with the package, or in the checkout."""

from __future__ import annotations

from pathlib import Path

from kshim.tools.scenario.model import Scenario
from kshim.tools.scenario.parse import parse_scenario


def scenario_directory() -> Path:
    """The folder with the files. Raises FileNotFoundError when there is none."""
    shipped = Path(__file__).parents[1] / "scenarios"
    # In a checkout this file is shim/kshim/tools/scenario/library.py, and the files are where the tests read them.
    in_checkout = Path(__file__).parents[4] / "tests" / "scenarios"
    for directory in (shipped, in_checkout):
        if directory.is_dir():
            return directory
    raise FileNotFoundError(f"no scenario files in {shipped}")


def load_scenarios(directory: Path | None = None) -> list[Scenario]:
    """All scenarios, by name. Raises ScenarioError, FileNotFoundError."""
    files = sorted((directory or scenario_directory()).glob("*.txt"))
    return [parse_scenario(file.stem, file.read_text(encoding="utf-8")) for file in files]
