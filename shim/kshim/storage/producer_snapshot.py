"""What a log remembers of its producers at one offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SavedProducer(NamedTuple):
    """One producer. `last_offset` and `last_sequence` are -1 while it has no batch in this epoch.

    `offset_delta` is that of its last batch, `first_offset` where its open transaction begins or -1.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    first_offset: int


class AbortedTransaction(NamedTuple):
    """Records of a producer from `first_offset` to the marker at `last_offset`, which READ_COMMITTED consumers must not see.

    `last_stable_offset` is what that was when the marker had been written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerSnapshot(NamedTuple):
    """All producers as they were when the log ended at `offset`, and the aborted transactions before it, in order."""

    offset: int
    producers: Sequence[SavedProducer]
    aborted: Sequence[AbortedTransaction]
