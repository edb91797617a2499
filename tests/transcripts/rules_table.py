"""The page `docs/rules.md`: each rule, the scenarios that show it and the code that keeps it. `python -m tests.transcripts.rules_table` writes it."""

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

What the group coordinator of Kafka 4.4 does in each case (**Then**: the answer, further effects, records and timers), the
scenarios that show it, and the function of kshim that decides or does it.

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
        "| Rule | When | Then | Scenarios | Code |",
        "| --- | --- | --- | --- | --- |",
    ]
    for rule in RULES:
        found = showing.get(rule["id"], [])
        cell = "<br>".join(_name(scenario) for scenario in found) if found else _other(otherwise.get(rule["id"]))
        lines.append(f"| `{rule['id']}` | {rule['api']}: {rule['when']} | {_then(rule)} | {cell} | {_code(rule)} |")
    return "\n".join(lines) + "\n"


def _then(rule: dict[str, str]) -> str:
    """What the broker answers and does, one thing a line."""
    error, _, reply = rule.get("answer", "").partition("; ")
    answer = "the answer waits" if error == "parked" else error and f"`{error}`"
    record = f"record: {rule['record']}" if "record" in rule else ""
    parts = (f"{answer}, {reply}" if reply else answer, rule.get("effect", ""), record, rule.get("timer", ""))
    return "<br>".join(part for part in parts if part)


def _code(rule: dict[str, str]) -> str:
    """Module and function, with a link to the file."""
    if "code" not in rule:
        return "not served"
    module, _, name = rule["code"].partition("::")
    root = "protocol" if module.startswith("kshim_protocol") else "shim"
    return f"[{module.rpartition('.')[2]}.{name}](../{root}/{module.replace('.', '/')}.py)"


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
