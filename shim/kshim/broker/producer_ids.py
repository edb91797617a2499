"""Producer ids, none of which is ever given twice (KIP-98, KIP-730)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.storage.storage import Storage


BLOCK_SIZE: Final = 1_000
"""As many as Kafka's brokers take at a time."""
PRODUCER_IDS_DOCUMENT: Final = "producer-ids"
"""Holds the first id that no block was taken with."""


class ProducerIds:
    """Gives ids from blocks whose end is stored before their first id is given: a crash loses the rest of a block.

    `first()` is where ids begin in a storage that has never given any.
    """

    def __init__(self, storage: Storage, first: Callable[[], int]) -> None:
        self._storage = storage
        self._first = first
        self._next = 0
        self._end = 0

    def next(self) -> int:
        """A fresh producer id. Raises LogError when the next block cannot be stored."""
        if self._next == self._end:
            start = self._end or self._stored()
            self._storage.write_document(PRODUCER_IDS_DOCUMENT, f"{start + BLOCK_SIZE}\n")
            self._next, self._end = start, start + BLOCK_SIZE
        self._next += 1
        return self._next - 1

    def _stored(self) -> int:
        text = self._storage.read_document(PRODUCER_IDS_DOCUMENT)
        if text is None:
            return self._first()
        try:
            return int(text)
        except ValueError:
            raise LogError(f"{PRODUCER_IDS_DOCUMENT} in the data directory is damaged: {text!r}") from None
