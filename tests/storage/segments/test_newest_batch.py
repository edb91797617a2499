"""Where the batch lies that was appended last is known without reading: as it is found by reading, whatever came before."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kshim.storage.file_log import FileLog
from tests.storage.builders import a_batch


def assert_all_found(log: FileLog, folder: str) -> None:
    """Reading from each offset gives what another log on the same files gives, which has appended nothing."""
    other = FileLog(folder)
    for offset in range(log.start_offset, log.end_offset):
        assert log.read(offset, 1) == other.read(offset, 1)
        assert log.bytes_from(offset) == other.bytes_from(offset)
    assert log.read(log.end_offset, 1) == other.read(log.end_offset, 1) == b""
    other.forget()


@given(st.lists(st.sampled_from(["one", "three", "large", "cut", "delete"]), min_size=1, max_size=12))
def test_each_offset_is_found_after_appends_cuts_and_deletions(acts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "orders-0")
        log = FileLog(path, segment_bytes=20_000)
        for act in acts:
            match act:
                case "one":
                    log.append(a_batch("a"))
                case "three":
                    log.append(a_batch("a", "b", "c"))
                case "large":
                    log.append(a_batch("a", pad=6_000))
                case "cut":
                    log.truncate_to(max(log.end_offset - 2, log.start_offset))
                case _:
                    log.delete_before((log.start_offset + log.end_offset) // 2)
        assert_all_found(log, path)
        log.forget()
