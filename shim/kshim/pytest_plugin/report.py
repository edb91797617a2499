"""What the report of a failed test has besides: the timelines of its groups, the faults that fired, the brokers' log."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import pytest

_BEGAN: Final = pytest.StashKey[float]()
_LINES: Final = 200
"""Of one section; its end is what is shown."""


def begin(item: pytest.Item) -> None:
    """A test begins."""
    item.stash[_BEGAN] = time.time()


def sections(item: pytest.Item) -> list[tuple[str, str]]:
    """Title and text of each, for every set of brokers that the fixtures of a test have given it."""
    if "kshim.testing" not in sys.modules:
        return []
    from kshim.testing import AsyncKshim, Kshim

    values = getattr(item, "funcargs", {}).values()
    found: list[tuple[str, str]] = []
    seen: set[str] = set()
    for kshim in (value for value in values if isinstance(value, (Kshim, AsyncKshim))):
        if kshim.bootstrap_servers not in seen:
            seen.add(kshim.bootstrap_servers)
            found.extend(_of_brokers(kshim))
    return found + _log(item)


def _of_brokers(kshim: Any) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    try:
        found.extend((f"kshim group {group_id}", timeline) for group_id, timeline in kshim.timelines().items())
        firings = [str(firing) for fault in kshim.faults.all for firing in fault.fired]
        unused = [fault.why_unused() for fault in kshim.faults.all if not fault.fired]
        defects = list(map(repr, kshim.defects))
    except RuntimeError:
        return []  # closed by the test
    for title, lines in (
        ("kshim faults that fired", firings),
        ("kshim faults that did not fire", unused),
        ("defects of kshim", defects),
    ):
        if lines:
            found.append((title, "\n".join(lines)))
    return [(title, _end(text)) for title, text in found]


def _log(item: pytest.Item) -> list[tuple[str, str]]:
    from kshim.pytest_plugin.log_tail import LOG_TAIL

    tail = item.config.stash.get(LOG_TAIL, None)
    text = "" if tail is None else tail.since(item.stash.get(_BEGAN, 0.0))
    return [("kshim log", _end(text))] if text else []


def _end(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= _LINES:
        return text
    return "\n".join([f"({len(lines) - _LINES} lines before these)", *lines[-_LINES:]])
