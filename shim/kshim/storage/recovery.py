"""What to do about damage in a segment.

With nothing whole behind it, damage is a write that was torn: it is cut off. Else it is corruption, and going on would
lose what stands behind it unnoticed: CorruptLog, unless the user asked to skip what is corrupt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Literal

from kshim.storage.log import CorruptLog, LogError
from kshim.storage.os_calls import OsCalls
from kshim.storage.repairs import DamageSkipped, Repair, TailCut
from kshim.storage.scan import Damage
from kshim.storage.segment import Segment
from kshim.storage.swap import CLEANED_SUFFIX, SWAP_SUFFIX

__all__ = ["Recover", "mend"]

Recover = Literal["refuse", "skip-corrupt"]
"""What to do about corruption: refuse to go on, or skip what is corrupt and keep it in a file beside the segment."""

_COPY_BYTES = 1 << 20


def mend(
    segment: Segment,
    damage: Damage,
    later: Sequence[Segment],
    *,
    recover: Recover,
    calls: OsCalls,
    report: Callable[[Repair], None],
) -> None:
    """Repair `segment`, which is then sound up to where its next damage is. Raises CorruptLog, LogError."""
    sound_at = segment.find_whole_batch(damage.position, damage.offset)
    is_torn = (
        sound_at is None
        and damage.position >= segment.synced_position
        and not any(other.size_bytes and other.find_whole_batch(0, damage.offset) is not None for other in later)
    )
    if not is_torn:
        if recover == "refuse":
            raise CorruptLog(segment.path, damage.offset, damage.position, damage.reason)
        report(_skip(segment, damage, segment.size_bytes if sound_at is None else sound_at, calls))
        return
    cut = TailCut(segment.path, damage.position, segment.size_bytes - damage.position, damage.reason)
    segment.truncate(damage.position)
    report(cut)


def _skip(segment: Segment, damage: Damage, end: int, calls: OsCalls) -> DamageSkipped:
    """Write the segment anew without the bytes from `damage.position` to `end`, which go to a file of their own."""
    kept_in = f"{segment.path}.{damage.position}.damaged"
    try:
        _copy(segment, [(damage.position, end)], kept_in, calls)
        if end == segment.size_bytes:
            segment.truncate(damage.position)
        else:
            cleaned = segment.path + CLEANED_SUFFIX
            swap = segment.path + SWAP_SUFFIX
            _copy(segment, [(0, damage.position), (end, segment.size_bytes)], cleaned, calls)
            calls.rename(cleaned, swap)
            segment.index.remove_files()
            calls.rename(swap, segment.path)
            calls.sync_directory(os.path.dirname(segment.path))
            segment.reload(segment.size_bytes - (end - damage.position))
    except OSError as error:
        raise LogError(f"cannot skip damage in {segment.path}: {error.strerror or error}") from error
    return DamageSkipped(
        segment.path, damage.position, damage.offset, end - damage.position, damage.reason, os.path.basename(kept_in)
    )


def _copy(segment: Segment, parts: Sequence[tuple[int, int]], path: str, calls: OsCalls) -> None:
    descriptor = calls.open(path)
    try:
        calls.ftruncate(descriptor, 0)
        written = 0
        for position, end in parts:
            while position < end:
                data = segment.read(position, min(_COPY_BYTES, end - position))
                position += len(data)
                while data:
                    count = calls.pwrite(descriptor, data, written)
                    data = data[count:]
                    written += count
        calls.fdatasync(descriptor)
    finally:
        calls.close(descriptor)
