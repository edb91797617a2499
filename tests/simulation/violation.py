"""The one way in which a simulated run fails."""

from __future__ import annotations


class Violation(AssertionError):
    """An invariant does not hold. `rule` is its fixed name: a shortened run must break the same one."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


def require(holds: bool, rule: str, text: str) -> None:
    """Raises Violation."""
    if not holds:
        raise Violation(rule, text)
