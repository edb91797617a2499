"""What a cluster's topics and its log say of groups, from the end of the topics backwards."""

from __future__ import annotations

import gzip
import json
import struct
from array import array
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from kshim.explain import Known
from kshim.explain.facts import Fact
from kshim.explain.sources.broker_log import facts_of_log
from kshim.explain.sources.events import fact_of_event
from kshim.explain.sources.log_lines import parse_line
from kshim.explain.sources.records import Snapshot, facts_of_records, profiles
from kshim.tools.logs import NoTopic, SourceError
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.group_metadata import GroupMetadataValue
from kshim_protocol.internal.versioned import parse_versioned
from kshim_protocol.partitioner import partition_for
from kshim_protocol.records.compression import CompressionUnavailableError
from kshim_protocol.records.record import Record, iter_records
from kshim_protocol.records.scan import Batch, Damage

OFFSETS_TOPIC = "__consumer_offsets"
EVENTS_TOPIC = "__kshim_events"

NEWEST_RECORDS = 1_000_000
"""At most so many records are read of the offsets topic, and of the events topic, for one group."""
NEWEST_OF_ALL = 300_000
"""For all groups, of which each record has to be decoded; both take a few seconds."""
SNAPSHOTS_OF_A_GROUP = 2_000
"""The newest of a group that are kept: a crash loop for hours fits, and memory stays bounded."""

_COMMIT_KEYS = (0, 1)
_GROUP_KEY = 2
_NUMBER = struct.Struct(">h")


class Logs(Protocol):
    """Where logs are: folders or a broker."""

    def partitions(self, topic: str) -> list[int]:
        """The partitions there are. Raises NoTopic when there are none, and SourceError."""
        ...

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset, and the one after the last. Raises SourceError."""
        ...

    def read(self, topic: str, partition: int, start: int = 0) -> Iterator[Batch | Damage]:
        """A partition's log from `start` on. Raises SourceError."""
        ...


class Read(NamedTuple):
    """What was read. `since_ms` is the time of the oldest record, where older ones were left out; else None."""

    known: Known
    since_ms: int | None
    damaged: tuple[str, ...] = ()
    """Where something could not be read, `topic-partition`, besides the torn end of a log that is being written."""
    has_group: bool = False
    """Whether there are records of the group, even if they say of nothing that has happened: older ones are compacted."""


def read(
    logs: Logs,
    *,
    group: str | None,
    broker_logs: Sequence[str] = (),
    time_zone: str = "UTC",
    newest: int | None = None,
) -> Read:
    """Read what is known of `group`, or of all. Raises SourceError: the cluster or a file cannot be read."""
    if newest is None:
        newest = NEWEST_OF_ALL if group is None else NEWEST_RECORDS
    scan = _Scan(logs, newest)
    offsets = _Offsets(group)
    for partitions in _likely(scan.partitions(OFFSETS_TOPIC), group):
        for _, record in scan.newest(OFFSETS_TOPIC, partitions):
            offsets.add(record)
        if offsets.snapshots or offsets.commits:
            break
    of_members = profiles(snapshot for mine in offsets.snapshots.values() for snapshot in mine)
    events = _events(scan, group)
    told = {fact.group for fact in events}
    rows = [row for row in _rows(broker_logs, ZoneInfo(time_zone)) if group in (None, row["group_id"])]
    protocols = {
        (name, snapshot.value.generation): snapshot.value.protocol
        for name, mine in offsets.snapshots.items()
        for snapshot in mine
        if snapshot.value is not None
    }
    lines = [fact for fact in facts_of_log(rows, of_members, protocols) if fact.group not in told]
    told |= {fact.group for fact in lines}
    inferred: list[Fact] = []
    for name, snapshots in offsets.snapshots.items():
        if name not in told:
            inferred += facts_of_records(list(snapshots), offsets.commits.get(name, {}))
    sources = [name for name, facts in (("events", events), ("log", lines), ("records", inferred)) if facts]
    facts = sorted([*events, *lines, *inferred], key=lambda fact: fact.ts_ms)
    return Read(
        Known(tuple(facts), of_members, tuple(sources)),
        scan.since_ms,
        tuple(scan.damaged),
        bool(offsets.snapshots or offsets.commits),
    )


class _Offsets:
    """Records of the groups asked for: those of groups decoded, of commits only the times."""

    def __init__(self, group: str | None) -> None:
        self._group = None if group is None else group.encode()
        self.snapshots: dict[str, deque[Snapshot]] = defaultdict(lambda: deque(maxlen=SNAPSHOTS_OF_A_GROUP))
        self.commits: dict[str, dict[tuple[str, int], array[int]]] = defaultdict(dict)

    def add(self, record: Record) -> None:
        key = record.key
        if key is None or len(key) < 4:
            return
        (number,) = _NUMBER.unpack_from(key)
        if number > _GROUP_KEY or number < 0:
            return
        (size,) = _NUMBER.unpack_from(key, 2)
        name = bytes(key[4 : 4 + size])
        if self._group is not None and name != self._group:
            return
        group = name.decode(errors="backslashreplace")
        if number == _GROUP_KEY:
            self._add_snapshot(group, record)
        elif record.value is not None:
            (topic_size,) = _NUMBER.unpack_from(key, 4 + size)
            topic_at = 6 + size
            topic = bytes(key[topic_at : topic_at + topic_size]).decode(errors="backslashreplace")
            partition = int.from_bytes(key[topic_at + topic_size : topic_at + topic_size + 4], "big")
            mine = self.commits[group]
            if (topic, partition) not in mine:
                mine[topic, partition] = array("q")
            mine[topic, partition].append(record.timestamp_ms)

    def _add_snapshot(self, group: str, record: Record) -> None:
        value: GroupMetadataValue | None = None
        if record.value is not None:
            try:
                _, value = parse_versioned(GroupMetadataValue, bytes(record.value))
            except ProtocolError:
                return  # of a newer Kafka, or damaged: dump-offsets reports it
        self.snapshots[group].append(Snapshot(record.timestamp_ms, group, f"record {record.offset}", value))


def _likely(partitions: list[int], group: str | None) -> Iterator[list[int]]:
    """The partitions with a group's records, and the others: a folder may be of one broker of several, with a part of them."""
    home = [] if group is None else [each for each in partitions if each == partition_for(group, partitions[-1] + 1)]
    yield home or partitions
    if home:
        yield [each for each in partitions if each not in home]


class _Scan:
    """The newest records of topics, and what was left out of them."""

    def __init__(self, logs: Logs, newest: int) -> None:
        self._logs = logs
        self._newest = newest
        self.since_ms: int | None = None
        self.damaged: dict[str, None] = {}

    def partitions(self, topic: str) -> list[int]:
        """In order; none if there is no such topic: brokers create theirs when there is something to write."""
        try:
            return self._logs.partitions(topic)
        except NoTopic:
            return []

    def newest(self, topic: str, partitions: Sequence[int]) -> Iterator[tuple[int, Record]]:
        """An equal share of each partition, with its number. Raises SourceError."""
        for partition in partitions:
            first, end = self._logs.offsets(topic, partition)
            start = max(first, end - max(self._newest // len(partitions), 1))
            oldest_ms = None
            for record in self._records(topic, partition, start):
                if oldest_ms is None:
                    oldest_ms = record.timestamp_ms
                yield partition, record
            if start > first and oldest_ms is not None and topic == OFFSETS_TOPIC:
                self.since_ms = max(self.since_ms or 0, oldest_ms)

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
            except ProtocolError:
                self.damaged[f"{topic}-{partition}"] = None
            except CompressionUnavailableError as error:
                raise SourceError(f"{topic}-{partition} cannot be read: {error}") from None


def _events(scan: _Scan, group: str | None) -> list[Fact]:
    key = None if group is None else group.encode()
    found: list[Fact] = []
    for partitions in _likely(scan.partitions(EVENTS_TOPIC), group):
        for partition, record in scan.newest(EVENTS_TOPIC, partitions):
            if record.value is None or (key is not None and record.key != key):
                continue
            try:
                fact = fact_of_event(json.loads(record.value))
            except (ValueError, LookupError, TypeError):  # no event: of somebody else, or of a version after this one
                scan.damaged[f"{EVENTS_TOPIC}-{partition}"] = None
                continue
            if fact is not None:
                found.append(fact)
        if found:
            break
    return found


def _rows(paths: Sequence[str], zone: ZoneInfo) -> Iterator[dict[str, Any]]:
    for path in paths:
        opened = gzip.open if path.endswith(".gz") else open
        try:
            with opened(path, "rt", encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines, 1):
                    row = parse_line(line.rstrip("\r\n"), zone)
                    if row is not None:
                        yield row | {"line": number}
        except OSError as error:
            raise SourceError(f"cannot read {path}: {error.strerror or error}") from None
