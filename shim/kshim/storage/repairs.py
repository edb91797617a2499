"""What opening a log had to put right, for whoever reports it."""

from __future__ import annotations

from typing import NamedTuple


class TailCut(NamedTuple):
    """What was cut off the end of a log: a write that power loss or a crash had torn."""

    path: str
    position: int
    bytes_cut: int
    reason: str

    @property
    def event(self) -> str:
        """For machines."""
        return "tail_cut"

    @property
    def sentence(self) -> str:
        """For people."""
        return f"Removed a torn write of {self.bytes_cut} bytes from the end of {self.path}: {self.reason}"


class IndexRebuilt(NamedTuple):
    """The index of the segment `path` was missing or wrong and was made anew from the segment, which is sound."""

    path: str
    reason: str

    @property
    def event(self) -> str:
        """For machines."""
        return "index_rebuilt"

    @property
    def sentence(self) -> str:
        """For people."""
        return f"Read all of {self.path} to make its index again, which {self.reason}"


class DamageSkipped(NamedTuple):
    """Damaged bytes were taken out of a segment, from `offset` on, and are kept in the file `kept_in`."""

    path: str
    position: int
    offset: int
    bytes_skipped: int
    reason: str
    kept_in: str

    @property
    def event(self) -> str:
        """For machines."""
        return "damage_skipped"

    @property
    def sentence(self) -> str:
        """For people."""
        return (
            f"Skipped {self.bytes_skipped} damaged bytes at byte {self.position}, offset {self.offset} of {self.path}"
            f" ({self.reason}); they are kept in {self.kept_in}"
        )


Repair = TailCut | IndexRebuilt | DamageSkipped
