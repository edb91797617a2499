"""Every test of the coordinator runs at both ends of transaction.version, unless it says which level it is about."""

from __future__ import annotations

import pytest

from tests.coordinator.transactions.harness import World


@pytest.fixture(params=[0, 2], ids=["level0", "level2"], autouse=True)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    found: int = request.param
    monkeypatch.setattr(World, "level", found)
    return found
