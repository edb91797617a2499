"""Every rule the coordinator answers for is shown by a test of this folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.coordinator.rules import RULES, rules_covered_by

ELSEWHERE = {
    "versions.": "the tables of kshim_protocol and the registry of handlers",
    "find.": "tests/broker",
    "check.find-coordinator.": "tests/broker",
    "check.consumer-group-describe.": "an API of the new protocol, not served yet",
    "describe.new-protocol-group": "there are no groups of the new protocol yet",
}
"""Prefixes of rules that are not this folder's, and whose they are."""


def test_every_rule_is_shown_by_a_test() -> None:
    covered: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        covered |= rules_covered_by(import_module(f"tests.coordinator.{path.stem}"))
    missing = {rule_id for rule_id in RULES if rule_id not in covered and not rule_id.startswith(tuple(ELSEWHERE))}
    assert missing == set()


def test_nothing_that_is_shown_here_is_said_to_be_elsewhere() -> None:
    for path in Path(__file__).parent.glob("test_*.py"):
        covered = rules_covered_by(import_module(f"tests.coordinator.{path.stem}"))
        assert not [rule_id for rule_id in covered if rule_id.startswith(tuple(ELSEWHERE))]
