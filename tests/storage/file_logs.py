"""What tests of logs in files look at."""

from __future__ import annotations

from pathlib import Path

from kshim.storage.file_log import FileLog
from kshim.storage.recovery import Recover
from kshim.storage.repairs import Repair, TailCut
from kshim_protocol.records.batch import set_base_offset
from tests.storage.builders import a_batch

UNLIMITED = 1 << 40
FIRST = "00000000000000000000.log"


def segments(folder: Path) -> dict[str, int]:
    """The segment files and their sizes."""
    return {path.name: path.stat().st_size for path in sorted(folder.glob("*.log"))}


def reopened(folder: Path, *, segment_bytes: int = 1 << 30) -> tuple[FileLog, list[TailCut]]:
    """A new log on the same folder, opened, and what it had to cut."""
    log, repairs = mended(folder, segment_bytes=segment_bytes)
    return log, [repair for repair in repairs if isinstance(repair, TailCut)]


def mended(folder: Path, *, segment_bytes: int = 1 << 30, recover: Recover = "refuse") -> tuple[FileLog, list[Repair]]:
    """A new log on the same folder, opened and with every tail checked, and what it had to put right."""
    repairs: list[Repair] = []
    log = FileLog(str(folder), segment_bytes=segment_bytes, recover=recover, on_repair=repairs.append)
    log.check_tails()
    return log, repairs


def build_batch_at(offset: int, *names: str) -> bytes:
    return set_base_offset(a_batch(*names), offset)
