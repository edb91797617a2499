"""Where what a fleet did would be written: a partition a group, offsets in the order of what happened in it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from bench.fleet.draws import mod
from kshim_pipeline.model.shape import evidence
from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC

STORED: Final = 4
"""Of the sixteen offsets of a rebalance, that of its generation; 0 to 3 come before, 5 to 15 after."""
COMMITTED_SOON: Final = 8
COMMITTED_LATER: Final = 12
COMMITTED_AT_LAST: Final = 14

_PARTITIONS: Final = 50
_PER_REBALANCE: Final = 16
_GROUP_BITS: Final = 25
"""A group has room for two million rebalances; offsets stay below 2^44 up to half a million groups."""


def record_partition() -> Column:
    """The partition of `__consumer_offsets` that a group lies in."""
    return mod(F.col("id"), _PARTITIONS).cast("int")


def record_offset(k: Column, at: int) -> Column:
    """The offset of the record of rebalance `k` that is numbered `at` (0..15)."""
    return F.shiftleft(F.col("id"), _GROUP_BITS) + k.cast("long") * _PER_REBALANCE + at


def record_place(k: Column, at: int) -> Column:
    """That record, as evidence."""
    return evidence(F.lit(OFFSETS_TOPIC), record_partition(), record_offset(k, at))


def event_place(k: Column) -> Column:
    """The last event of rebalance `k`, as evidence."""
    offset = F.shiftleft(F.col("id"), _GROUP_BITS) + k.cast("long") * _PER_REBALANCE
    return evidence(F.lit(EVENTS_TOPIC), record_partition(), offset)
