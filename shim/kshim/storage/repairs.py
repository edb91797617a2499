"""Repairs that were made when a log was opened."""

from __future__ import annotations

from typing import NamedTuple


class TailCut(NamedTuple):
    """An incomplete write was removed from the end of a log, after a power failure or a crash."""

    path: str
    position: int
    bytes_cut: int
    reason: str

    @property
    def event(self) -> str:
        """The keyword in the log."""
        return "tail_cut"

    @property
    def sentence(self) -> str:
        """The message in the log."""
        return f"Removed an incomplete write of {self.bytes_cut} bytes from the end of {self.path}: {self.reason}"


class IndexRebuilt(NamedTuple):
    """The index of the segment `path` was missing or wrong and was rebuilt from the segment."""

    path: str
    reason: str

    @property
    def event(self) -> str:
        """The keyword in the log."""
        return "index_rebuilt"

    @property
    def sentence(self) -> str:
        """The message in the log."""
        return f"Rebuilt the index of {self.path}, which {self.reason}"


class DamageSkipped(NamedTuple):
    """Damaged bytes were removed from a segment, from `offset` on, and are kept in the file `kept_in`."""

    path: str
    position: int
    offset: int
    bytes_skipped: int
    reason: str
    kept_in: str

    @property
    def event(self) -> str:
        """The keyword in the log."""
        return "damage_skipped"

    @property
    def sentence(self) -> str:
        """The message in the log."""
        return (
            f"Skipped {self.bytes_skipped} damaged bytes at byte {self.position}, offset {self.offset} of {self.path}"
            f" ({self.reason}); they are kept in {self.kept_in}"
        )


Repair = TailCut | IndexRebuilt | DamageSkipped
