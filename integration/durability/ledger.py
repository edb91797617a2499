"""What clients were promised: written down by those who got the answers, read by those who check."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import NamedTuple

from integration.support.client import TopicPartition


class Promises(NamedTuple):
    """Everything acknowledged up to an instant. Committed offsets of a partition only ever grow."""

    commits: dict[str, dict[TopicPartition, int]]
    """group -> partition -> the greatest offset whose commit was acknowledged."""
    records: dict[TopicPartition, dict[int, bytes]]
    """partition -> offset -> the value whose Produce was acknowledged."""


class Ledger:
    """Filled by many threads. An answer counts from when it is written down here, so what is checked is never too much."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._commits: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
        self._records: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        self.commit_count = 0
        self.record_count = 0

    def committed(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        """A commit was acknowledged."""
        with self._lock:
            known = self._commits[group_id]
            for partition, offset in offsets.items():
                known[partition] = max(offset, known.get(partition, -1))
            self.commit_count += len(offsets)

    def produced(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A record was acknowledged at `offset`."""
        with self._lock:
            earlier = self._records[partition].setdefault(offset, value)
            assert earlier == value, f"two records were acknowledged at {partition}, offset {offset}"
            self.record_count += 1

    def promises(self) -> Promises:
        """All there is now; records are taken out, for each has to be checked once."""
        with self._lock:
            records, self._records = self._records, defaultdict(dict)
            return Promises({group: dict(offsets) for group, offsets in self._commits.items()}, dict(records))
