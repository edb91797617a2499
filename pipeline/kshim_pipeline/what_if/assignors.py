"""Partition owners as the assignors of the strategies choose them. Partitions of all topics are numbered through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Owners = Sequence[str | None]
"""The owner of each partition, by number; None: none."""


def range_owners(members: Iterable[str], partition_count: int) -> list[str | None]:
    """Contiguous partitions for each member in the order of their names; the first members get one more."""
    ordered = sorted(members)
    if not ordered:
        return [None] * partition_count
    share, extra = divmod(partition_count, len(ordered))
    owners: list[str | None] = []
    for place, member in enumerate(ordered):
        owners.extend([member] * (share + (place < extra)))
    return owners


def sticky_owners(members: Iterable[str], partition_count: int, before: Owners) -> list[str | None]:
    """Balanced to within one partition, with as few moves as possible."""
    held: dict[str, list[int]] = {member: [] for member in members}
    owners: list[str | None] = [None] * partition_count
    if not held:
        return owners
    for partition, owner in enumerate(before[:partition_count]):
        if owner in held:
            held[owner].append(partition)
    share, extra = divmod(partition_count, len(held))
    # Who holds most may keep one more than the others, so that nothing moves without need.
    ordered = sorted(held, key=lambda member: (-len(held[member]), member))
    room: list[str] = []
    for place, member in enumerate(ordered):
        quota = share + (place < extra)
        for partition in held[member][:quota]:
            owners[partition] = member
        room.extend([member] * (quota - len(held[member])))
    free = iter(sorted(room))
    for partition, owner in enumerate(owners):
        if owner is None:
            owners[partition] = next(free)
    return owners


def moved(before: Owners, after: Owners) -> int:
    """How many partitions changed from one owner to another."""
    return sum(old is not None and old != new for old, new in zip(before, after, strict=False))
