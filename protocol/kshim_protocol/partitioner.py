"""Which partition of the offsets topic a group lives in."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Final

_POWERS: Final = [pow(31, at, 1 << 32) for at in range(64)]


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, wrapped to 32 signed bits."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H") if not text.isascii() else text.encode()
    if len(units) <= len(_POWERS):
        unsigned: int = sum(map(mul, reversed(units), _POWERS)) & 0xFFFFFFFF
    else:
        unsigned = reduce(lambda hashed, unit: (31 * hashed + unit) & 0xFFFFFFFF, units, 0)
    return unsigned - 0x1_0000_0000 if unsigned & 0x8000_0000 else unsigned


def partition_for(group_id: str, partition_count: int) -> int:
    """Kafka's `Utils.abs(groupId.hashCode()) % partitions`, where the one number without an absolute value counts as 0.

    >>> partition_for("golden-classic", 50), partition_for("polygenelubricants", 50)
    (8, 0)
    """
    hashed = java_hash(group_id)
    return 0 if hashed == -0x8000_0000 else abs(hashed) % partition_count
