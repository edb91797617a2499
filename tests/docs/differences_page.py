"""Write `docs/differences.md` from `docs/differences.toml`: `python -m tests.docs.differences_page --write`."""

from __future__ import annotations

import sys
import tomllib
from typing import Any

from kshim.config.ignored_keys import IGNORED_KEYS
from kshim.config.keys import BROKER_KEYS
from kshim.config.security_keys import SECURITY_KEYS
from kshim.tools.api_table import versions_text
from kshim.tools.kafka_apis import KAFKA_APIS
from kshim.tools.scenario.library import load_scenarios
from kshim_protocol.apis import API_TABLE
from tests.docs.blocks import DOCS

PAGE = DOCS / "differences.md"
DATA: dict[str, list[dict[str, Any]]] = tomllib.loads((DOCS / "differences.toml").read_text(encoding="utf-8"))
_HEAD = """# Differences from Kafka

Everything that is known to differ between kshim and Apache Kafka 4.4, and everything that kshim does not serve. If you find anything else, it is a defect: please report it.

This page is generated from `docs/differences.toml` and from the code by `python -m tests.docs.differences_page --write`. Each difference names the tests that hold kshim to it.
"""
_SCENARIOS = "../shim/kshim/tools/scenario/scenarios"


def page() -> str:
    """The whole page."""
    lines = [_HEAD]
    for area in dict.fromkeys(entry["area"] for entry in DATA["difference"]):
        lines += [f"## {area}", "", "| Case | Kafka 4.4 | kshim | Why | Tests |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(entry) for entry in DATA["difference"] if entry["area"] == area]
        lines.append("")
    return "\n".join([*lines, *_apis(), *_keys()])


def _row(entry: dict[str, Any]) -> str:
    tests = "<br>".join(_link(test) for test in entry["tests"])
    cells = [entry["what"], entry["kafka"], entry["kshim"], entry["why"], tests]
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


BAR = "\\|"
"""A bar inside of a cell."""


def _link(test: str) -> str:
    if test.startswith("scenario:"):
        name = test.removeprefix("scenario:")
        return f"[{name}]({_SCENARIOS}/{name}.txt)"
    if test.startswith("differential:"):
        return f"[{test.removeprefix('differential:')}](../integration/differential/allowed.toml)"
    file, _, name = test.partition("::")
    return f"[{name.rpartition('::')[2]}](../{file})"


def _apis() -> list[str]:
    versions = {name: versions_text(*found) for name, found in KAFKA_APIS.values()}
    return [
        "## APIs that are not served",
        "",
        f"kshim serves {len(API_TABLE)} of the {len(KAFKA_APIS)} APIs that a Kafka broker offers ([table](reference/apis.md)). "
        "ApiVersions lists what is served, and clients do without the rest. A request for any other API closes the "
        "connection, as an unknown API does on Kafka. What is served has all of Kafka's versions.",
        "",
        "| API | Kafka's versions | Why |",
        "| --- | ---: | --- |",
        *(f"| {name} | {versions[name]} | {entry['why']} |" for entry in DATA["unserved"] for name in entry["apis"]),
        "",
    ]


def _keys() -> list[str]:
    keys = BROKER_KEYS | SECURITY_KEYS | IGNORED_KEYS
    return [
        "## Defaults of configuration keys",
        "",
        "| Key | Kafka 4.4 | kshim | Why |",
        "| --- | --- | --- | --- |",
        *(
            f"| `{entry['key']}` | {_value(entry.get('kafka'))} | {_value(keys[entry['key']].default)} | {entry['why']} |"
            for entry in DATA["default"]
        ),
        "",
        "## Configuration keys without effect",
        "",
        f"kshim accepts these {len(IGNORED_KEYS)} broker keys of Kafka, checks and describes their values, and names them "
        "once at start. They have no effect.",
        "",
        ", ".join(f"`{name}`" for name in sorted(IGNORED_KEYS)),
        "",
    ]


def _value(default: str | None) -> str:
    return f"`{default}`" if default else "none"


def scenarios_that_differ() -> set[str]:
    """Scenarios in which Kafka answers otherwise."""
    return {scenario.name for scenario in load_scenarios() if scenario.differs}


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
