"""Fixtures of the tests of logs in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.builders import FailingDisk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the log is, which is not there yet."""
    return tmp_path / "topic-0"


@pytest.fixture
def disk() -> FailingDisk:
    """A disk that works until it is told to fail."""
    return FailingDisk()
