"""Records of `__consumer_offsets` as they come: of each group what its records say, and of its commits the times."""

from __future__ import annotations

import struct
from array import array
from collections import defaultdict, deque
from typing import NamedTuple

from kshim.explain.sources.consumer_records import KEY_TYPES, EpochRecord, subject_of
from kshim.explain.sources.records import Snapshot, TopicPartition, snapshot_of
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.group_metadata import GroupMetadataValue
from kshim_protocol.internal.offset_commit import OffsetCommitValue
from kshim_protocol.internal.versioned import parse_versioned
from kshim_protocol.records.record import Record

COMMITS_KEPT = 10_000
"""Times of commits that are kept of each partition, the newest; twice as many before the others are dropped."""
COMMITS_KEPT_OF_ALL = 4_000_000
"""Of all partitions together: with more, the older half of each partition's is dropped."""
SNAPSHOTS_OF_A_GROUP = 2_000
"""The newest of a group that are kept: a crash loop for hours fits, and memory stays bounded."""

EPOCH_RECORDS_OF_A_GROUP = 20_000
"""The same of records of the new protocol, of which a rebalance has several for each member."""

_COMMIT_KEY = 1
_GROUP_KEY = 2
_NUMBER = struct.Struct(">h")


class GroupRecord(NamedTuple):
    """A record of a group. `value` None: a tombstone. It is read again each time, for what was assigned takes memory."""

    ts_ms: int
    offset: int
    value: GroupMetadataValue | None

    def read(self, group: str) -> Snapshot:
        """With its members."""
        return snapshot_of(self.ts_ms, group, f"record {self.offset}", self.value)


class GroupRecords:
    """Records of the groups asked for: those of groups decoded, of commits only the times, and the newest offset."""

    def __init__(self, groups: frozenset[str] | None, most_snapshots: int) -> None:
        self._groups = encoded(groups)
        self._most_snapshots = most_snapshots
        self._snapshots_kept = self._commits_kept = 0
        self.snapshot_count = 0
        """How many there were."""
        self.committed: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        self.snapshots: dict[str, deque[GroupRecord]] = defaultdict(lambda: deque(maxlen=SNAPSHOTS_OF_A_GROUP))
        self.commits: dict[str, dict[tuple[str, int], array[int]]] = defaultdict(dict)
        self.epochs: dict[str, deque[EpochRecord]] = defaultdict(lambda: deque(maxlen=EPOCH_RECORDS_OF_A_GROUP))
        """Of groups of the new protocol."""
        self.topic_names: dict[bytes, str] = {}
        """By topic id, as far as commits contain it."""
        self._looked_at: set[str] = set()

    def add(self, record: Record) -> None:
        """Take in the next record of `__consumer_offsets`; those of other groups, and of other kinds, are left out."""
        key = record.key
        if key is None or len(key) < 4:
            return
        (number,) = _NUMBER.unpack_from(key)
        is_epoch = number in KEY_TYPES
        if (number > _GROUP_KEY and not is_epoch) or number < 0:
            return
        (size,) = _NUMBER.unpack_from(key, 2)
        name = bytes(key[4 : 4 + size])
        if self._groups is not None and name not in self._groups:
            return
        group = name.decode(errors="backslashreplace")
        if is_epoch:
            self._add_epoch_record(group, number, record, bytes(key[4 + size :]))
        elif number == _GROUP_KEY:
            self._add_snapshot(group, record)
        else:
            (topic_size,) = _NUMBER.unpack_from(key, 4 + size)
            topic_at = 6 + size
            topic = bytes(key[topic_at : topic_at + topic_size]).decode(errors="backslashreplace")
            partition = int.from_bytes(key[topic_at + topic_size : topic_at + topic_size + 4], "big")
            if record.value is None:  # expired, or deleted
                self.committed[group].pop((topic, partition), None)
                return
            self.committed[group][topic, partition] = int.from_bytes(record.value[2:10], "big")
            if number == _COMMIT_KEY and topic not in self._looked_at:
                self._learn_topic_id(topic, bytes(record.value))
            mine = self.commits[group]
            if (topic, partition) not in mine:
                mine[topic, partition] = array("q")
            times = mine[topic, partition]
            times.append(record.timestamp_ms)
            if len(times) >= 2 * COMMITS_KEPT:
                self._commits_kept -= len(times) - COMMITS_KEPT
                del times[:-COMMITS_KEPT]
            self._commits_kept += 1
            if self._commits_kept > COMMITS_KEPT_OF_ALL:
                for times in (times for others in self.commits.values() for times in others.values()):
                    del times[: len(times) // 2]
                self._commits_kept = sum(len(times) for others in self.commits.values() for times in others.values())

    def _add_snapshot(self, group: str, record: Record) -> None:
        value: GroupMetadataValue | None = None
        if record.value is not None:
            try:
                _, value = parse_versioned(GroupMetadataValue, bytes(record.value))
            except ProtocolError:
                return  # of a newer Kafka, or damaged: dump-offsets reports it
        self.snapshots[group].append(GroupRecord(record.timestamp_ms, record.offset, value))
        self.snapshot_count += 1
        self._snapshots_kept += 1
        if self._snapshots_kept > self._most_snapshots:
            self._forget()

    def _add_epoch_record(self, group: str, key_type: int, record: Record, rest: bytes) -> None:
        value = None if record.value is None else bytes(record.value)
        subject = subject_of(rest, 0)
        self.epochs[group].append(EpochRecord(record.timestamp_ms, record.offset, key_type, subject, value))
        self.snapshot_count += 1

    def _learn_topic_id(self, topic: str, value: bytes) -> None:
        self._looked_at.add(topic)
        try:
            _, found = parse_versioned(OffsetCommitValue, value)
        except ProtocolError:
            return
        if any(found.topic_id):
            self.topic_names[found.topic_id] = topic

    def _forget(self) -> None:
        for group, mine in list(self.snapshots.items()):
            for _ in range(len(mine) // 2):
                mine.popleft()
            if mine[-1].value is None:
                del self.snapshots[group]
                self.commits.pop(group, None)
                self.committed.pop(group, None)
        self._snapshots_kept = sum(map(len, self.snapshots.values()))
        # Groups with a single record lose none: as many as there are groups are kept, and not looked through each time.
        self._most_snapshots = max(self._most_snapshots, 2 * self._snapshots_kept)


def encoded(groups: frozenset[str] | None) -> frozenset[bytes] | None:
    """Names as keys of records have them."""
    return None if groups is None else frozenset(name.encode() for name in groups)


def owners(snapshot: Snapshot) -> dict[TopicPartition, str]:
    """Who was assigned which partition, by member id."""
    return {place: seat.member_id for seat in snapshot.seats for place in seat.partitions}
