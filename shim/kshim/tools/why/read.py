"""What a cluster's topics and its log say of groups, from the end of the topics backwards."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from kshim.explain import Known
from kshim.explain.sources.collected import Collected
from kshim.explain.sources.events import fact_of_event
from kshim.explain.sources.group_records import GroupRecord, encoded
from kshim.explain.sources.samples import Presence
from kshim.tools.logs import NoTopic, SourceError
from kshim.tools.why.logs import Logs, lines_of, rows_of
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.group_metadata import GroupMetadataValue
from kshim_protocol.partitioner import partition_for
from kshim_protocol.records.batch import BatchHeader
from kshim_protocol.records.compression import CompressionUnavailableError
from kshim_protocol.records.record import Record, iter_records
from kshim_protocol.records.scan import Damage

OFFSETS_TOPIC = "__consumer_offsets"
EVENTS_TOPIC = "__kshim_events"

NEWEST_RECORDS = 1_000_000
"""At most so many records are read of the offsets topic, and of the events topic, for one group."""
NEWEST_OF_ALL = 300_000
"""For all groups, of which each record has to be decoded; both take a few seconds."""
EVENTS_KEPT = NEWEST_RECORDS
"""Events of which facts are kept, the newest."""
SNAPSHOTS_OF_ALL = NEWEST_OF_ALL
"""Of all groups together: with more, the older half of each group's is dropped, and deleted groups are."""


class Read(NamedTuple):
    """What was read. `since_ms` is the time of the oldest record, where older ones were left out; else None."""

    known: Known
    since_ms: int | None
    damaged: tuple[str, ...] = ()
    """Where something could not be read, `topic-partition`, besides the torn end of a log that is being written."""
    has_group: bool = False
    """Whether there are records of the group, even if they say of nothing that has happened: older ones are compacted."""
    records: Mapping[str, Sequence[GroupRecord]] = {}
    """Those of each group, in order."""


class Past(NamedTuple):
    """The records of a group, in order, and the times of its commits."""

    records: Sequence[GroupRecord]
    commits: Mapping[tuple[str, int], Sequence[int]]


def read(
    logs: Logs,
    *,
    group: str | None,
    broker_logs: Sequence[str] = (),
    time_zone: str = "UTC",
    newest: int | None = None,
    log_rows: Sequence[Mapping[str, Any]] = (),
    presence: Mapping[str, Presence] | None = None,
) -> Read:
    """Read what is known of `group`, or of all; `log_rows` and `presence` as in `Reading`. Raises SourceError: the cluster or a file cannot be read."""
    groups = None if group is None else frozenset({group})
    rows = (*rows_of(lines_of(broker_logs), ZoneInfo(time_zone)), *log_rows)
    reading = Reading(logs, groups, log_rows=rows, newest=newest, presence=presence)
    reading.more()
    return reading.result()


class Reading:
    """What was read so far of groups, None: all; and `more` of it each time. `log_rows` are of the broker's log, `presence` has what samples show."""

    def __init__(
        self,
        logs: Logs,
        groups: frozenset[str] | None,
        *,
        log_rows: Sequence[Mapping[str, Any]] = (),
        newest: int | None = None,
        presence: Mapping[str, Presence] | None = None,
        snapshots_kept: int = SNAPSHOTS_OF_ALL,
    ) -> None:
        if newest is None:
            newest = NEWEST_OF_ALL if groups is None else NEWEST_RECORDS
        self._scan = _Scan(logs, newest)
        self._groups = groups
        self._collected = Collected(
            groups, snapshots_kept=snapshots_kept, events_kept=EVENTS_KEPT, log_rows=log_rows, presence=presence
        )
        self._event_count = 0

    def more(self) -> None:
        """Read what there is since the last time. Raises SourceError."""
        offsets = self._collected.records
        for likely in _likely(self._scan.partitions(OFFSETS_TOPIC), self._groups):
            for _, record in self._scan.newest(OFFSETS_TOPIC, likely):
                offsets.add(record)
            if offsets.snapshots or offsets.commits or offsets.epochs:
                break
        self._read_events()

    @property
    def news_count(self) -> int:
        """How many records and events of groups were read; commits alone change nothing that is known."""
        return self._collected.records.snapshot_count + self._event_count

    @property
    def has_events(self) -> bool:
        """Whether there are events of a broker: they tell of all groups."""
        return bool(self._event_count)

    def latest(self, group: str) -> GroupMetadataValue | None:
        """What the newest record of a classic group says; None: there is none, or the group was deleted."""
        mine = self._collected.records.snapshots.get(group)
        return mine[-1].value if mine else None

    def past(self, group: str) -> Past:
        """What was read of a group besides facts."""
        records = self._collected.records
        return Past(list(records.snapshots.get(group, ())), records.commits.get(group, {}))

    @property
    def committed(self) -> Mapping[str, Mapping[tuple[str, int], int]]:
        """The newest offset of each partition that each group has committed, as far as it was read."""
        return self._collected.records.committed

    def result(self) -> Read:
        """What is known by now."""
        offsets = self._collected.records
        return Read(
            self._collected.known(self._elections_of, self._scan.newest_ms),
            self._scan.since_ms,
            tuple(self._scan.damaged),
            bool(offsets.snapshots or offsets.commits or offsets.epochs),
            offsets.snapshots,
        )

    def _elections_of(self, group: str) -> Sequence[tuple[int, int]]:
        """When the coordinator of a group was another one, or the same one anew: the leader of its partition."""
        partitions = self._scan.partitions(OFFSETS_TOPIC)
        home = partition_for(group, partitions[-1] + 1) if partitions else 0
        return self._scan.elections.get((OFFSETS_TOPIC, home), ())

    def _read_events(self) -> None:
        keys = encoded(self._groups)
        for likely in _likely(self._scan.partitions(EVENTS_TOPIC), self._groups):
            for partition, record in self._scan.newest(EVENTS_TOPIC, likely):
                if record.value is None or (keys is not None and bytes(record.key or b"") not in keys):
                    continue
                try:
                    fact = fact_of_event(json.loads(record.value))
                except (ValueError, LookupError, TypeError):  # no event: of somebody else, or of a later version
                    self._scan.damaged[f"{EVENTS_TOPIC}-{partition}"] = None
                    continue
                if fact is not None:
                    self._collected.events.append(fact)
                    self._event_count += 1
            if self._collected.events:
                break


def _likely(partitions: list[int], groups: frozenset[str] | None) -> Iterator[list[int]]:
    """The partitions with a group's records, and the others: a folder may be of one broker of several, with a part of them."""
    wanted = {partition_for(group, partitions[-1] + 1) for group in groups or () if partitions}
    home = [each for each in partitions if each in wanted]
    yield home or partitions
    if home:
        yield [each for each in partitions if each not in home]


class _Scan:
    """The newest records of topics, later what was added, and what was left out of them."""

    def __init__(self, logs: Logs, newest: int) -> None:
        self._logs = logs
        self._newest = newest
        self._next: dict[tuple[str, int], int] = {}
        self.since_ms: int | None = None
        self.newest_ms = 0
        """Time of the newest record: until then it is known what happened."""
        self.elections: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        """Of each partition: times of the last record of a leader epoch, and of the first of the next one."""
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}
        self.damaged: dict[str, None] = {}

    def partitions(self, topic: str) -> list[int]:
        """In order; none if there is no such topic: brokers create theirs when there is something to write."""
        try:
            return self._logs.partitions(topic)
        except NoTopic:
            return []

    def newest(self, topic: str, partitions: Sequence[int]) -> Iterator[tuple[int, Record]]:
        """An equal share of each partition, with its number; what was added of those read before. Raises SourceError."""
        known = [(topic, partition) for partition in partitions if (topic, partition) in self._next]
        ends = self._logs.ends(known) if known else {}
        for partition in partitions:
            if (topic, partition) in self._next:
                start = self._next[topic, partition]
                for record in self._records(topic, partition, start) if start < ends.get((topic, partition), 0) else ():
                    yield partition, record
                continue
            first, end = self._logs.offsets(topic, partition)
            start = self._next[topic, partition] = max(first, end - max(self._newest // len(partitions), 1))
            oldest_ms = None
            for record in self._records(topic, partition, start):
                if oldest_ms is None:
                    oldest_ms = record.timestamp_ms
                yield partition, record
            if start > first and oldest_ms is not None and topic == OFFSETS_TOPIC:
                self.since_ms = max(self.since_ms or 0, oldest_ms)

    def _note_leader(self, topic: str, partition: int, batch: BatchHeader) -> None:
        epoch, newest_ms = self._leaders.get((topic, partition), (batch.partition_leader_epoch, 0))
        if batch.partition_leader_epoch > epoch:
            self.elections[topic, partition].append((newest_ms, batch.base_timestamp_ms))
        self._leaders[topic, partition] = (batch.partition_leader_epoch, batch.max_timestamp_ms)
        self.newest_ms = max(self.newest_ms, batch.max_timestamp_ms)

    def _records(self, topic: str, partition: int, start: int) -> Iterator[Record]:
        for piece in self._logs.read(topic, partition, start):
            if isinstance(piece, Damage):
                if not piece.is_tail:
                    self.damaged[f"{topic}-{partition}"] = None
                continue
            if piece.header.is_control:
                continue
            try:
                for record in iter_records(piece.data):
                    if record.offset >= start:
                        yield record
                self._note_leader(topic, partition, piece.header)
                self._next[topic, partition] = piece.header.last_offset + 1
            except ProtocolError:
                self.damaged[f"{topic}-{partition}"] = None
            except CompressionUnavailableError as error:
                raise SourceError(f"{topic}-{partition} cannot be read: {error}") from None
