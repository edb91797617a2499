"""Every rule the coordinator answers for is shown by a test of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.coordinator.rules import RULES, rules_covered_by

ELSEWHERE = {
    "versions.": "the tables of kshim_protocol and the registry of handlers",
    "find.": "tests/broker",
    "check.find-coordinator.": "tests/broker",
    "consumer.": "the scenarios, which tests/transcripts plays on the coordinator",
    "share.": "the scenarios, which tests/transcripts plays on a node",
    "streams.": "the scenarios, which tests/transcripts plays on a node",
}
"""Prefixes of rules that are not this folder's, and whose they are."""


def _test_modules() -> Iterator[ModuleType]:
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("test_*.py")):
        yield import_module(".".join(("tests", "coordinator", *path.relative_to(folder).with_suffix("").parts)))


def test_every_rule_is_shown_by_a_test() -> None:
    covered: set[str] = set()
    for module in _test_modules():
        covered |= rules_covered_by(module)
    missing = {rule_id for rule_id in RULES if rule_id not in covered and not rule_id.startswith(tuple(ELSEWHERE))}
    assert missing == set()


def test_nothing_that_is_shown_here_is_said_to_be_elsewhere() -> None:
    for module in _test_modules():
        covered = rules_covered_by(module)
        assert not [rule_id for rule_id in covered if rule_id.startswith(tuple(ELSEWHERE))]
