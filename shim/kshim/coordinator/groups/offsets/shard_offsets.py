"""The committed offsets of one shard, and those that wait for the end of a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim.coordinator.groups.offsets.offset_rows import OffsetRows, TopicOffsets

_Pending = dict[tuple[str, str, int], CommittedOffset]


class Offsets:
    """group -> topic -> partition -> offset; and, by producer id, what open transactions have written.

    Several producers may have a pending offset for one partition. Pending ones are visible only through `has_pending`.
    """

    __slots__ = ("_committed", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, dict[int, CommittedOffset] | TopicOffsets]] = {}
        self._pending: dict[int, _Pending] = {}
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}  # group -> partition -> producer ids

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """One committed offset."""
        topics = self._committed.get(group_id)
        if topics is None:
            return None
        partitions = topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def at(self, group_id: str, topic: str, partition: int) -> list[CommittedOffset]:
        """All offsets of a partition: the committed one, and those of open transactions."""
        committed = self.get(group_id, topic, partition)
        producers = self._open.get(group_id, {}).get((topic, partition), ())
        pending = [self._pending[producer_id][group_id, topic, partition] for producer_id in producers]
        return pending if committed is None else [committed, *pending]

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All committed offsets of a group: topic -> partition -> offset."""
        return self._committed.get(group_id, {})

    def group_ids(self) -> Iterator[str]:
        """Groups with committed offsets."""
        return iter(self._committed)

    def count(self, group_id: str) -> int:
        """Number of committed offsets of a group."""
        return sum(map(len, self.of_group(group_id).values()))

    def put(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        """Store a committed offset in place of the one before."""
        self._committed.setdefault(group_id, {}).setdefault(topic, {})[partition] = offset

    def put_all(self, group_id: str, topic: str, offsets: Mapping[int, CommittedOffset] | OffsetRows) -> None:
        """The same for several partitions of a topic."""
        topics = self._committed.setdefault(group_id, {})
        if not isinstance(offsets, OffsetRows):
            topics.setdefault(topic, {}).update(offsets)
            return
        known = topics.get(topic)
        if type(known) is not TopicOffsets:
            known = topics[topic] = TopicOffsets(known or {})
        known.put_rows(offsets)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Forget an offset, the pending ones of the same partition included."""
        topics = self._committed.get(group_id)
        if topics is not None and topic in topics:
            topics[topic].pop(partition, None)
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self._committed[group_id]
        for producer_id in self._open.get(group_id, {}).pop((topic, partition), ()):
            self._pending[producer_id].pop((group_id, topic, partition))
            if not self._pending[producer_id]:
                del self._pending[producer_id]
        if group_id in self._open and not self._open[group_id]:
            del self._open[group_id]

    # Transactions

    def put_pending(self, producer_id: int, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        """Store an offset that counts only once the producer's transaction commits."""
        self._pending.setdefault(producer_id, {})[group_id, topic, partition] = offset
        self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)

    def commit_transaction(self, producer_id: int) -> None:
        """The producer's pending offsets become committed, except where a later record has been committed since."""
        for (group_id, topic, partition), offset in self._end_transaction(producer_id).items():
            committed = self.get(group_id, topic, partition)
            if committed is None or committed.record_offset < offset.record_offset:
                self.put(group_id, topic, partition, offset)

    def abort_transaction(self, producer_id: int) -> None:
        """The producer's pending offsets are dropped."""
        self._end_transaction(producer_id)

    def _end_transaction(self, producer_id: int) -> _Pending:
        ended = self._pending.pop(producer_id, {})
        for group_id, topic, partition in ended:
            partitions = self._open[group_id]
            partitions[topic, partition].discard(producer_id)
            if not partitions[topic, partition]:
                del partitions[topic, partition]
            if not partitions:
                del self._open[group_id]
        return ended

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has written an offset for the partition."""
        return (topic, partition) in self._open.get(group_id, ())

    def pending_partitions(self, group_id: str) -> list[tuple[str, int]]:
        """(topic, partition) with an offset of an open transaction."""
        return list(self._open.get(group_id, ()))

    def has_open_transaction(self, group_id: str) -> bool:
        """Whether any pending offset of the group waits."""
        return group_id in self._open
