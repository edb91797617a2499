"""Which landed files are written again: small ones as one, and those whose columns an older decoder made, or none.

It knows no Spark. Why nothing can be lost by it stands in `docs/design/landing.md`.
"""

from __future__ import annotations

from typing import Final

from kshim_pipeline.land.batches import Batch, Landed, LandedFile, Replaced
from kshim_pipeline.records import DECODER
from kshim_pipeline.topics import OFFSETS_TOPIC

TOGETHER: Final = 16
"""So many files of a day that are about as large become one: a record is written again once each time a file grows 16-fold."""
LARGE: Final = 125_000
"""A file of so many records is not made larger."""
MOST_RECORDS: Final = TOGETHER * LARGE
KEPT_MS: Final = 86_400_000
"""For so long a file stays whose records are in another: a report that began before it was replaced may read it."""


def to_rewrite(landed: Landed) -> tuple[LandedFile, ...]:
    """Files of one topic and day to be written again now, together; empty: there are none.

    Writing them again and asking again comes to an end.
    """
    groups: dict[tuple[str, str, int], list[LandedFile]] = {}
    for file in landed.files.values():
        if is_stale(file):
            return _up_to_most(file, landed)
        if file.records < LARGE:
            groups.setdefault((file.topic, file.day, file.records.bit_length() // 4), []).append(file)
    return next((tuple(files[:TOGETHER]) for files in groups.values() if len(files) >= TOGETHER), ())


def is_stale(file: LandedFile) -> bool:
    """Whether it lacks columns that it could have."""
    return file.topic == OFFSETS_TOPIC and file.decoder < DECODER


def _up_to_most(first: LandedFile, landed: Landed) -> tuple[LandedFile, ...]:
    """All such files of its day, unless they are too many."""
    files, records = [first], first.records
    for file in landed.files.values():
        if file is not first and is_stale(file) and file.day == first.day and records + file.records <= MOST_RECORDS:
            files.append(file)
            records += file.records
    return tuple(files)


def compaction(landed: Landed) -> Batch:
    """The plan of a batch that lands nothing new."""
    return Batch(
        landed.number,
        True,
        landed.cluster_id,
        landed.source or "",
        landed.topic_ids,
        landed.end,
        landed.end,
        (),
        DECODER,
    )


def compacted(
    plan: Batch, landed: Landed, old: tuple[LandedFile, ...], new: tuple[LandedFile, ...], now_ms: int
) -> Batch:
    """The batch in which the files `new` take the place of `old`."""
    gone = {file.path for file in old}
    rest = landed._replace(files={path: file for path, file in landed.files.items() if path not in gone})
    waiting = [each for each in landed.replaced if each not in expired(landed, now_ms)]
    replaced = (*waiting, *(Replaced(path, now_ms) for path in sorted(gone)))
    return plan.with_files(rest, new)._replace(replaced=replaced)


def expired(landed: Landed, now_ms: int) -> list[Replaced]:
    """Of the replaced files those that nobody reads any more."""
    return [each for each in landed.replaced if each.at_ms + KEPT_MS <= now_ms]
