"""The tables of `docs/conformance.md`, made from reports of `kshim conform --output json`.

    python -m integration.scenarios.page docs/conformance.md "Kafka 4.4.0=a.json,b.json" kfake=c.json ...

Several reports of one broker are runs with other configurations: what one had to skip another may have played.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kshim.tools.scenario.library import load_scenarios

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
MARKS = {"passed": "yes", "failed": "**no**", "skipped": "-"}
ONLY_KSHIM = "kshim differs from Kafka on purpose"

Behaviours = dict[str, dict[str, Any]]


def merged(paths: Sequence[Path]) -> Behaviours:
    """The behaviours of one broker by name; a verdict is better than a skip."""
    found: Behaviours = {}
    for path in paths:
        for one in json.loads(path.read_text(encoding="utf-8"))["behaviours"]:
            if found.get(one["name"], {"verdict": "skipped"})["verdict"] == "skipped":
                found[one["name"]] = one
    return found


def tables(brokers: dict[str, Behaviours]) -> str:
    """A row a behaviour, then what each broker does otherwise."""
    titles = {scenario.name: (scenario.suite, scenario.title) for scenario in load_scenarios() if not scenario.differs}
    first = next(iter(brokers.values()))
    names = sorted((name for name in first if name in titles), key=lambda name: (titles[name][0], name))
    lines = [
        f"| Suite | Behaviour | {' | '.join(brokers)} |",
        f"| --- | --- |{' --- |' * len(brokers)}",
        *(
            f"| {titles[name][0]} | {titles[name][1]} | "
            f"{' | '.join(MARKS[found[name]['verdict']] for found in brokers.values())} |"
            for name in names
        ),
        f"| | **yes / no / not asked** | {' | '.join(_counts(found, names) for found in brokers.values())} |",
    ]
    for broker, found in brokers.items():
        failed = [name for name in names if found[name]["verdict"] == "failed"]
        if failed:
            lines += ["", f"## What {broker} does otherwise", ""]
            lines += [_failure(titles[name][1], name, found[name]["failure"]) for name in failed]
        skipped = sorted({found[name]["reason"] for name in names if found[name]["verdict"] == "skipped"})
        if skipped:
            lines += ["", f"Not asked of {broker}: {'; '.join(skipped)}."]
    return "\n".join(lines)


def _counts(found: Behaviours, names: Sequence[str]) -> str:
    verdicts = [found[name]["verdict"] for name in names]
    return " / ".join(str(verdicts.count(verdict)) for verdict in MARKS)


def _failure(title: str, name: str, failure: dict[str, Any]) -> str:
    asked = re.sub(r"\s+", " ", failure["step"].split(" -> ")[0]).strip()
    wrong = "; ".join(failure["differences"])
    if not wrong:
        wrong = f"expected {failure['expected']}, seen {failure['seen']}"
    wrong = re.sub(r"conform-[0-9a-f]{8}", "conform", wrong).replace("|", "\\|")
    return f"- {title}\n  (`{name}`, line {failure['line']}: `{asked}`): {wrong}"


def main(arguments: Sequence[str]) -> None:
    """Put the tables between the page's marks."""
    page = Path(arguments[0])
    brokers = {}
    for argument in arguments[1:]:
        name, _, paths = argument.partition("=")
        brokers[name] = merged([Path(path) for path in paths.split(",")])
    text = page.read_text(encoding="utf-8")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    page.write_text(f"{text[:start]}\n{tables(brokers)}\n{text[end:]}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
