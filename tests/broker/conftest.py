"""Levels of transaction.version."""

from __future__ import annotations

import pytest

from tests.broker import harness


@pytest.fixture(params=[0, 2], ids=["level0", "level2"])
def at_both_levels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Nodes of the test have transaction.version 0 in one run and 2, the default, in the other."""
    level: int = request.param
    monkeypatch.setitem(harness.CONFIG, "kshim.transaction.version", str(level))
    return level
