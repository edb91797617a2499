"""Fixtures of the tests of logs in files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kshim.storage.file_log import FileLog
from tests.storage.builders import FailingDisk


@pytest.fixture(autouse=True)
def _no_log_stays_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes the files of logs that a test has left open, as the end of a process does: tests of crashes do."""
    made: list[FileLog] = []
    real = FileLog.__init__

    def init(self: FileLog, *arguments: Any, **options: Any) -> None:
        made.append(self)
        real(self, *arguments, **options)

    monkeypatch.setattr(FileLog, "__init__", init)
    yield
    for log in made:
        log.forget()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the log is, which is not there yet."""
    return tmp_path / "topic-0"


@pytest.fixture
def disk() -> FailingDisk:
    """A disk that works until it is told to fail."""
    return FailingDisk()
