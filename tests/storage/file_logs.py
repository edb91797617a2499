"""What tests of logs in files look at."""

from __future__ import annotations

from pathlib import Path

from kshim.storage.file import FileLog, TailCut
from kshim_protocol.records.batch import set_base_offset
from tests.storage.builders import a_batch

UNLIMITED = 1 << 40
FIRST = "00000000000000000000.log"


def segments(folder: Path) -> dict[str, int]:
    """The segment files and their sizes."""
    return {path.name: path.stat().st_size for path in sorted(folder.glob("*.log"))}


def reopened(folder: Path, *, segment_bytes: int = 1 << 30) -> tuple[FileLog, list[TailCut]]:
    """A new log on the same folder, opened, and what it had to cut."""
    cuts: list[TailCut] = []
    log = FileLog(str(folder), segment_bytes=segment_bytes, on_tail_cut=cuts.append)
    assert log.end_offset >= 0
    return log, cuts


def build_batch_at(offset: int, *names: str) -> bytes:
    return set_base_offset(a_batch(*names), offset)
