"""The page `docs/rules.md`: which scenarios show which rule. `python -m tests.transcripts.rules_table` writes it."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from kshim.tools.scenario.library import load_scenarios
from kshim.tools.scenario.model import Scenario

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "rules.md"


def _rules(path: Path) -> list[dict[str, str]]:
    rules: list[dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))["rule"]
    return rules


RULES = _rules(ROOT / "tests" / "rules.toml")
NOT_SCENARIOS = _rules(ROOT / "tests" / "not_scenarios.toml")

INTRODUCTION = """\
# Rules and the scenarios that show them

Made by `python -m tests.transcripts.rules_table` from `tests/rules.toml`, the scenarios in `shim/kshim/tools/scenario/scenarios` and
`tests/not_scenarios.toml`; a test holds this page equal to them. **Bold** scenarios are also played over the wire, on
kshim and on a real Kafka 4.4; the others in virtual time only.
"""


def page(scenarios: Sequence[Scenario]) -> str:
    """The whole page."""
    showing: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        for rule_id in scenario.rules:
            showing.setdefault(rule_id, []).append(scenario)
    otherwise = {rule["id"]: rule for rule in NOT_SCENARIOS}
    wire = sum(scenario.limit_ms is not None for scenario in scenarios)
    lines = [
        INTRODUCTION,
        f"{len(RULES)} rules; {sum(rule['id'] in showing for rule in RULES)} are shown by {len(scenarios)} scenarios, "
        f"{wire} of which are also played over the wire; {len(otherwise)} are not shown by a scenario.",
        "",
        "| Rule | When | Scenarios |",
        "| --- | --- | --- |",
    ]
    for rule in RULES:
        found = showing.get(rule["id"], [])
        cell = "<br>".join(_name(scenario) for scenario in found) if found else _other(otherwise.get(rule["id"]))
        lines.append(f"| `{rule['id']}` | {rule['api']}: {rule['condition']} | {cell} |")
    return "\n".join(lines) + "\n"


def _name(scenario: Scenario) -> str:
    link = f"[{scenario.name}](../shim/kshim/tools/scenario/scenarios/{scenario.name}.txt)"
    return link if scenario.limit_ms is None else f"**{link}**"


def _other(entry: dict[str, str] | None) -> str:
    if entry is None:
        return "none"
    file, _, name = entry["test"].partition("::")
    return entry["reason"] + (f"; [{name}](../{file})" if name else "")


if __name__ == "__main__":
    PAGE.write_text(page(load_scenarios()), encoding="utf-8")
