"""Which test shows which rule of the rule book (`tests/rules.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

RULES: dict[str, dict[str, str]] = {
    rule["id"]: rule
    for rule in tomllib.loads((Path(__file__).parents[1] / "rules.toml").read_text(encoding="utf-8"))["rule"]
}


def covers(*rule_ids: str) -> Callable[[F], F]:
    """Mark a test as showing these rules. ValueError for a rule that is not in the book."""
    unknown = [rule_id for rule_id in rule_ids if rule_id not in RULES]
    if unknown:
        raise ValueError(f"no such rules: {unknown}")

    def mark(test: F) -> F:
        test.rules = rule_ids  # type: ignore[attr-defined]
        return test

    return mark


def rules_covered_by(module: object) -> set[str]:
    """The rules that a test module shows."""
    return {rule_id for test in vars(module).values() for rule_id in getattr(test, "rules", ())}
