"""What a cluster's topics and its log say of groups, from the end of the topics backwards."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from kshim.explain import Known
from kshim.explain.facts import Fact, Kind, Profile
from kshim.explain.sources.broker_log import facts_of_log
from kshim.explain.sources.consumer_records import (
    EpochReader,
    converted,
    profiles_of_epochs,
    session_of_events,
    session_of_records,
    with_log,
    with_records,
)
from kshim.explain.sources.events import fact_of_event
from kshim.explain.sources.group_records import GroupRecord, GroupRecords, encoded
from kshim.explain.sources.log_lines import SETTINGS
from kshim.explain.sources.records import (
    LastOfAll,
    Snapshot,
    committed,
    facts_of_records,
    last_commit_in,
    last_to_join,
    profiles,
    quiet_since_ms,
    usual_pause_in,
    with_arrivals,
    with_loads,
    with_partitions,
    with_stops,
    with_subscription,
)
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


class _OfGroup:
    """What the records of a group say. `key` identifies them."""

    def __init__(self, key: tuple[object, ...], of_members: Mapping[str, Profile]) -> None:
        self.key = key
        self.profiles = of_members
        self.inferred: list[Fact] | None = None
        """None: nobody has asked, for another source knows the group."""


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
        self._log_rows = log_rows
        self._presence = {} if presence is None else presence
        self._offsets = GroupRecords(groups, snapshots_kept)
        self._events: deque[Fact] = deque(maxlen=EVENTS_KEPT)
        self._event_count = 0
        self._of_groups: dict[str, _OfGroup] = {}

    def more(self) -> None:
        """Read what there is since the last time. Raises SourceError."""
        offsets = self._offsets
        for likely in _likely(self._scan.partitions(OFFSETS_TOPIC), self._groups):
            for _, record in self._scan.newest(OFFSETS_TOPIC, likely):
                offsets.add(record)
            if offsets.snapshots or offsets.commits or offsets.epochs:
                break
        self._read_events()

    @property
    def news_count(self) -> int:
        """How many records and events of groups were read; commits alone change nothing that is known."""
        return self._offsets.snapshot_count + self._event_count

    @property
    def has_events(self) -> bool:
        """Whether there are events of a broker: they tell of all groups."""
        return bool(self._event_count)

    def latest(self, group: str) -> GroupMetadataValue | None:
        """What the newest record of a classic group says; None: there is none, or the group was deleted."""
        mine = self._offsets.snapshots.get(group)
        return mine[-1].value if mine else None

    def past(self, group: str) -> Past:
        """What was read of a group besides facts."""
        return Past(list(self._offsets.snapshots.get(group, ())), self._offsets.commits.get(group, {}))

    @property
    def committed(self) -> Mapping[str, Mapping[tuple[str, int], int]]:
        """The newest offset of each partition that each group has committed, as far as it was read."""
        return self._offsets.committed

    def result(self) -> Read:
        """What is known by now."""
        groups, offsets = self._groups, self._offsets
        session_ms = self._session_ms(self._log_rows)
        names = dict.fromkeys((*offsets.snapshots, *offsets.epochs))
        self._of_groups = {name: self._of_group(name, session_ms) for name in names}
        of_members = {key: profile for each in self._of_groups.values() for key, profile in each.profiles.items()}
        told = {fact.group for fact in self._events}
        rows = [
            row
            for row in self._log_rows
            if row["type"] != SETTINGS and (groups is None or "group_id" not in row or row["group_id"] in groups)
        ]
        generations = {
            (name, each.value.generation): each
            for name, mine in offsets.snapshots.items()
            for each in mine
            if each.value is not None
        }
        protocols = {key: each.value.protocol for key, each in generations.items() if each.value}

        def record_of(name: str, generation_id: int) -> Snapshot | None:
            found = generations.get((name, generation_id))
            return None if found is None else found.read(name)

        events = self._events = deque((with_partitions(fact, record_of) for fact in self._events), maxlen=EVENTS_KEPT)
        lines = [
            self._with_subscription(self._with_commits(with_partitions(fact, record_of), record_of))
            for fact in facts_of_log(rows, of_members, protocols)
            if fact.group not in told
        ]
        of_lines: dict[str, list[Fact]] = defaultdict(list)
        for fact in lines:
            of_lines[fact.group].append(fact)
        committed_ms = LastOfAll(chain.from_iterable(each.values() for each in offsets.commits.values()))
        lines = [
            fact for name, mine in of_lines.items() for fact in with_stops(mine, self._elections_of(name), committed_ms)
        ]
        told |= of_lines.keys() - offsets.epochs.keys()
        inferred: list[Fact] = []
        for name, of_group in self._of_groups.items():
            if name in told:
                continue
            if of_group.inferred is None:
                last_commit = last_commit_in(offsets.commits.get(name, {}))
                records = (each.read(name) for each in offsets.snapshots.get(name, ()))
                usual_pause = usual_pause_in(offsets.commits.get(name, {}))
                found = facts_of_records(records, last_commit, self._presence.get(name), usual_pause)
                arrived = with_arrivals([self._with_commits(fact, record_of) for fact in found])
                both = converted(arrived, self._facts_of_epochs(name, session_ms))
                of_group.inferred = with_loads(both, self._seen_elections_of(name))
            inferred += of_group.inferred
        inferred, lines = _with_lines(inferred, lines, offsets.epochs)
        of_records = [fact for name in told & offsets.epochs.keys() for fact in self._facts_of_epochs(name, session_ms)]
        with_steps = list(with_records(events, of_records))
        sources = [name for name, facts in (("events", events), ("log", lines), ("records", inferred)) if facts]
        if inferred and self._presence:
            sources.append("samples")
        facts = sorted([*with_steps, *lines, *inferred], key=lambda fact: fact.ts_ms)
        return Read(
            Known(
                tuple(facts),
                of_members,
                tuple(sources),
                max([self._scan.newest_ms, *(row["ts_ms"] for row in rows[-1:] if "ts_ms" in row)]),
            ),
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

    def _seen_elections_of(self, group: str) -> Sequence[tuple[int, int]]:
        """The same, as near as samples show: there are none while a broker is away."""
        presence = self._presence.get(group)
        found = self._elections_of(group)
        return found if presence is None else [presence.looks.gap(*each) for each in found]

    def _session_ms(self, rows: Sequence[Mapping[str, Any]]) -> int | None:
        """The session timeout of groups of the new protocol: as the log says, or as it follows from sessions that expired; None: neither."""
        said = [int(row["session_ms"]) for row in rows if row["type"] == SETTINGS]
        if said:
            return said[-1]
        epochs = self._offsets.epochs
        found = session_of_events(fact for fact in self._events if fact.group in epochs)
        if found is not None or not epochs:
            return found
        facts = (fact for name in epochs for fact in self._facts_of_epochs(name, None))
        return session_of_records(facts)

    def _facts_of_epochs(self, name: str, session_ms: int | None) -> list[Fact]:
        offsets = self._offsets
        records, commits = tuple(offsets.epochs.get(name, ())), offsets.commits.get(name, {})
        return list(EpochReader(name, records, commits, offsets.topic_names, session_ms).facts())

    def _of_group(self, name: str, session_ms: int | None) -> _OfGroup:
        """What its records say, read anew if they are others than the last time."""
        snapshots, epochs = self._offsets.snapshots.get(name, ()), self._offsets.epochs.get(name, ())
        ends = [(len(mine), mine[0].offset, mine[-1].offset) if mine else None for mine in (snapshots, epochs)]
        key = (*ends, session_ms if epochs else None)
        old = self._of_groups.get(name)
        if old is not None and old.key == key:
            return old
        classic = profiles(each.value for each in snapshots if each.value is not None)
        return _OfGroup(key, classic | profiles_of_epochs(epochs, session_ms))

    def _with_commits(self, fact: Fact, record_of: Callable[[str, int], Snapshot | None]) -> Fact:
        """Adds to a fact of the log, or of records, what commits tell of the member or the rebalance that it is about."""
        name, phases = fact.group, fact.phases
        commits = self._offsets.commits.get(name)
        if commits is None:
            return fact
        if fact.kind in (Kind.LEFT, Kind.EXPIRED, Kind.REPLACED) and fact.member is not None:
            member_id = fact.other_id if fact.kind is Kind.REPLACED else fact.member.member_id
            records = reversed(self._offsets.snapshots.get(name, ()))
            newest = (each.read(name) for each in records if each.ts_ms <= fact.ts_ms)
            return fact._replace(committed=committed(newest, member_id or "", commits, fact.ts_ms))
        before = None if phases is None else record_of(name, (phases.generation_id or 0) - 1)
        if phases is None or before is None:
            return fact
        joined_ms = fact.ts_ms - (phases.sync_ms or 0)
        if phases.join_ms is None and (since_ms := quiet_since_ms(before, commits, joined_ms)) is not None:
            phases = phases._replace(join_ms=joined_ms - since_ms)
        if phases.join_ms is None:
            return fact
        last = last_to_join(before, commits, joined_ms - phases.join_ms, joined_ms)
        return fact._replace(phases=phases._replace(last_to_join=last, is_last_observed=last is None))

    def _with_subscription(self, fact: Fact) -> Fact:
        """Adds to a request of the log how the member's subscription differs in the records before and after it."""
        member_id = "" if fact.member is None else fact.member.member_id
        records = (each.read(fact.group) for each in self._offsets.snapshots.get(fact.group, ()))
        mine = ((each.ts_ms, seat.profile) for each in records for seat in each.seats if seat.member_id == member_id)
        return with_subscription(fact, mine)

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
                    self._events.append(fact)
                    self._event_count += 1
            if self._events:
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


def _with_lines(
    inferred: Sequence[Fact], lines: Sequence[Fact], epochs: Collection[str]
) -> tuple[list[Fact], list[Fact]]:
    """Facts of records and of the log: of groups of the new protocol, each of which knows something, both as one; of others as they are."""
    found = [fact for fact in inferred if fact.group not in epochs]
    for name in epochs:
        of_records = [fact for fact in inferred if fact.group == name]
        found += with_log(of_records, [fact for fact in lines if fact.group == name])
    return (
        [fact for fact in found if fact.source.startswith("record")],
        [fact for fact in lines if fact.group not in epochs]
        + [fact for fact in found if not fact.source.startswith("record")],
    )
