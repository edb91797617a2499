"""Putting a new segment in the place of old ones, so that a crash at any moment leaves the old or the new.

As Kafka: the new file is written as `.log.cleaned`, synced, renamed to `.log.swap` (from here on it counts), the old
ones are renamed to `.deleted`, and `.log.swap` gets its final name. A start removes every `.cleaned` and `.deleted` and
finishes every `.swap`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence

from kshim.storage.segments.index import INDEX_SUFFIXES
from kshim.storage.segments.segment import Owner, Segment

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETED_SUFFIX = ".deleted"


class Replacement:
    """A segment on its way to take the place of others. Made by `FileLog.begin_replacement`; `abandon` or `finish` it.

    `write` and `prepare` block and touch nothing of the log: any thread, one at a time.
    """

    def __init__(
        self, folder: str, old: Sequence[Segment], owner: Owner, put: Callable[[Sequence[Segment], Segment], bool]
    ) -> None:
        base_offset = old[0].base_offset
        self._calls = owner.calls
        self._old = old
        self._put = put
        self.segment = Segment(os.path.join(folder, f"{base_offset:020}.log{CLEANED_SUFFIX}"), base_offset, owner)
        self.segment.start_anew()

    def write(self, batches: bytes) -> None:
        """Add whole sound batches as they are, base offsets included, which rise. Raises LogError; ValueError."""
        self.segment.append_run(batches)

    def prepare(self) -> None:
        """Make it survive power loss; nothing more is written. Raises LogError."""
        self.segment.seal()
        self.segment.sync()

    def finish(self) -> bool:
        """Put it in the place of the old ones, on the loop. False when they are no longer all there, side by side.

        Raises LogError, after which either it or the old ones are in place.
        """
        return self._put(self._old, self.segment)

    def abandon(self) -> None:
        """Remove what was written; nothing once it is part of the log."""
        if self.segment.path.endswith(CLEANED_SUFFIX):
            self.segment.close()
            with contextlib.suppress(OSError):
                self._calls.unlink(self.segment.path)


def finish_leftovers(folder: str, names: set[str], owner: Owner) -> bool:
    """Bring to an end what a crash has interrupted; whether there was anything. `names`: the files in there.

    Raises OSError, LogError.
    """
    calls = owner.calls
    changed = False
    for name in names:
        if name.endswith((CLEANED_SUFFIX, DELETED_SUFFIX)) or _is_orphan(name, names):
            calls.unlink(os.path.join(folder, name))
            changed = True
    for name in sorted(names):
        if name.endswith(SWAP_SUFFIX) and is_segment(name.removesuffix(SWAP_SUFFIX)):
            _finish_swap(folder, name, names, owner)
            changed = True
    if changed:
        calls.sync_directory(folder)
    return changed


def _is_orphan(name: str, names: set[str]) -> bool:
    """Whether a file is the index of a segment that is gone, or Kafka's index of a replaced one, which is rebuilt."""
    name = name.removesuffix(SWAP_SUFFIX) if name.endswith(SWAP_SUFFIX) and not is_segment(name[:24]) else name
    base, suffix = name[:20], name[20:]
    if suffix not in INDEX_SUFFIXES or not base.isdecimal():
        return False
    return f"{base}.log" not in names or f"{base}.log{SWAP_SUFFIX}" in names


def _finish_swap(folder: str, name: str, names: set[str], owner: Owner) -> None:
    calls = owner.calls
    path = os.path.join(folder, name)
    first = int(name[:20])
    segment = Segment(path, first, owner, os.path.getsize(path))
    try:
        segment.check_all()
        end_offset = segment.end_offset
    finally:
        segment.close()
    for old in sorted(names):
        if is_segment(old) and first < int(old[:20]) < end_offset:
            for suffix in (".log", *INDEX_SUFFIXES):
                with contextlib.suppress(FileNotFoundError):
                    calls.unlink(os.path.join(folder, old[:20] + suffix))
    calls.rename(path, path.removesuffix(SWAP_SUFFIX))


def is_segment(name: str) -> bool:
    """Whether a file is a segment by its name."""
    return len(name) == 24 and name.endswith(".log") and name[:20].isdecimal()
