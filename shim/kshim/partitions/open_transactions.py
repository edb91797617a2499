"""The transactions of one partition: which are open, which were aborted, and up to where all are decided (KIP-98)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from kshim.storage.producer_snapshot import AbortedTransaction


class OpenTransactions:
    """Where each producer's open transaction begins, and the aborted ones in the order of their markers.

    Kafka: ProducerStateManager's ongoing and unreplicated transactions, TransactionIndex.
    """

    def __init__(self) -> None:
        self._first_offsets: dict[int, int] = {}  # by producer id; in the order of the offsets
        self._undurable: list[tuple[int, int]] = []  # first offset, offset of the marker: not readable yet
        self._aborted: list[AbortedTransaction] = []
        self._last_offsets: list[int] = []

    def __bool__(self) -> bool:
        """Whether anything may lie between the last stable offset and the high watermark."""
        return bool(self._first_offsets or self._undurable)

    @property
    def has_aborted(self) -> bool:
        """Whether any aborted transaction is remembered."""
        return bool(self._aborted)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """A producer's first batch of a transaction is in the log."""
        self._first_offsets[producer_id] = first_offset

    def end(self, producer_id: int, last_offset: int, *, is_aborted: bool) -> None:
        """The marker of an open transaction is in the log at `last_offset`."""
        first_offset = self._first_offsets.pop(producer_id)
        self._undurable.append((first_offset, last_offset))
        if is_aborted:
            stable_offset = self.first_undecided
            self.add_aborted(
                AbortedTransaction(
                    producer_id, first_offset, last_offset, last_offset + 1 if stable_offset is None else stable_offset
                )
            )

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """One more, whose marker comes after those of all others."""
        self._aborted.append(aborted)
        self._last_offsets.append(aborted.last_offset)

    @property
    def first_undecided(self) -> int | None:
        """Where the earliest open transaction begins."""
        return next(iter(self._first_offsets.values()), None)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where every transaction is decided, and its marker below the high watermark."""
        stable_offset = high_watermark
        first_undecided = self.first_undecided
        if first_undecided is not None:
            stable_offset = min(stable_offset, first_undecided)
        for first_offset, last_offset in self._undurable:
            if last_offset >= high_watermark:
                stable_offset = min(stable_offset, first_offset)
        return stable_offset

    def became_durable(self, high_watermark: int) -> None:
        """Markers below the high watermark can be read from now on."""
        if self._undurable:
            self._undurable = [pair for pair in self._undurable if pair[1] >= high_watermark]

    def start_moved(self, start_offset: int) -> None:
        """The log begins at `start_offset` now: transactions that ended before it are of no interest."""
        self.forget_aborted_before(start_offset)

    def forget_aborted_before(self, offset: int) -> bool:
        """Forget the aborted transactions that ended before there; whether there were any."""
        first = bisect_left(self._last_offsets, offset)
        del self._aborted[:first], self._last_offsets[:first]
        return first > 0

    def aborted(self) -> list[AbortedTransaction]:
        """All that are remembered, in the order of their markers."""
        return list(self._aborted)

    def aborted_between(self, offset: int, end_offset: int) -> Iterator[AbortedTransaction]:
        """Those with records, or their marker, from `offset` up to `end_offset`."""
        for index in range(bisect_left(self._last_offsets, offset), len(self._aborted)):
            aborted = self._aborted[index]
            if aborted.first_offset < end_offset:
                yield aborted
            if aborted.last_stable_offset >= end_offset:
                return
