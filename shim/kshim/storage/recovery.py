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
from kshim.storage.segments.segment import Damage, Segment
from kshim.storage.segments.segment_replacement import CLEANED_SUFFIX, SWAP_SUFFIX
from kshim_protocol.records.scan import Place

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
    """Take damage out of `segment`, whose batches must then be read again. Raises CorruptLog, LogError."""
    sound_at = segment.find_whole_batch(damage.position)
    if (
        sound_at is None
        and damage.position >= segment.synced_position
        and not any(other.size_bytes and other.find_whole_batch(0) is not None for other in later)
    ):
        cut = TailCut(segment.path, damage.position, segment.size_bytes - damage.position, damage.reason)
        segment.truncate(damage.position)
        report(cut)
        return
    if sound_at == damage.position:
        damage, sound_at = _out_of_order(segment, damage)
    if recover == "refuse":
        raise CorruptLog(segment.path, damage.offset, damage.position, damage.reason)
    for skipped in _skip(segment, _ranges(segment, damage, sound_at), calls):
        report(skipped)


def _out_of_order(segment: Segment, damage: Damage) -> tuple[Damage, int]:
    """Which of two sound batches has the wrong base offset, of which no CRC knows, and where the next one stands.

    The one at `damage.position` comes too early for what stands before it. Either that is wrong, if this one comes just
    when the wrong ones are given the offsets they should have, or if what follows goes on from it; or else it is.
    """
    here = next(segment.hop(damage.position))
    following = segment.find_whole_batch(here.end)
    follows = None if following is None else next(segment.hop(following)).base_offset
    next_offset = right_offset = segment.base_offset
    culprit: Place | None = None
    for place in segment.hop(0, damage.position):
        if culprit is None and place.last_offset >= here.base_offset:
            culprit = place
            right_offset = next_offset
        next_offset = place.last_offset + 1
        right_offset += place.last_offset - place.base_offset + 1
    goes_on = follows is not None and here.last_offset < follows < damage.offset
    if culprit is not None and (right_offset == here.base_offset or goes_on):
        reason = f"base offset {culprit.base_offset} of a sound batch comes too late"
        return Damage(culprit.position, _offset_before(segment, culprit), reason), here.position
    reason = f"base offset {here.base_offset} of a sound batch comes too early"
    return Damage(here.position, damage.offset, reason), segment.size_bytes if following is None else following


def _offset_before(segment: Segment, place: Place) -> int:
    """Where the batches before this one end."""
    offset = segment.base_offset
    for before in segment.hop(0, place.position):
        offset = before.last_offset + 1
    return offset


def _ranges(segment: Segment, damage: Damage, sound_at: int | None) -> list[tuple[Damage, int]]:
    """This damage and all that stands behind it, each with where it ends."""
    ranges = []
    while True:
        end = segment.size_bytes if sound_at is None else sound_at
        ranges.append((damage, end))
        further = segment.first_damage(end, damage.offset)
        if further is None:
            return ranges
        sound_at = segment.find_whole_batch(further.position)
        if sound_at == further.position:
            sound_at = next(segment.hop(sound_at)).end
        damage = further


def _skip(segment: Segment, ranges: list[tuple[Damage, int]], calls: OsCalls) -> list[DamageSkipped]:
    """Write the segment again without these parts, each of which is saved to a file of its own."""
    skipped = []
    kept = []
    position = 0
    try:
        for damage, end in ranges:
            kept_in = f"{segment.path}.{damage.position}.damaged"
            _copy(segment, [(damage.position, end)], kept_in, calls)
            kept.append((position, damage.position))
            position = end
            skipped.append(
                DamageSkipped(
                    segment.path,
                    damage.position,
                    damage.offset,
                    end - damage.position,
                    damage.reason,
                    os.path.basename(kept_in),
                )
            )
        kept.append((position, segment.size_bytes))
        cleaned = segment.path + CLEANED_SUFFIX
        swap = segment.path + SWAP_SUFFIX
        _copy(segment, kept, cleaned, calls)
        calls.rename(cleaned, swap)
        segment.index.remove_files()
        calls.rename(swap, segment.path)
        calls.sync_directory(os.path.dirname(segment.path))
    except OSError as error:
        raise LogError(f"cannot skip damage in {segment.path}: {error.strerror or error}") from error
    segment.replaced(sum(end - begin for begin, end in kept))
    return skipped


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
