"""Rows of one group -> what `kshim.explain` reasons about. No Spark here: it is tested on rows written by hand."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kshim.explain.facts import Committed, Fact, Kind, Member, Phases, Profile
from kshim.explain.sources.broker_log import facts_of_log
from kshim.explain.sources.consumer_records import (
    EpochReader,
    EpochRecord,
    converted,
    profiles_of_epochs,
    with_log,
    with_records,
)
from kshim.explain.sources.events import fact_of_event
from kshim.explain.sources.records import Seat, Snapshot, TopicPartition, facts_of_records, with_subscription

Row = Mapping[str, Any]

_BEFORE_MS = 86_400_000
"""So long before a session its members count as having joined: at a time that no incident of the session reaches back to."""


class Place(NamedTuple):
    """Where a fact was read: a record, or a line of the log (topic `log`)."""

    topic: str
    partition: int | None
    offset: int


class Entry(NamedTuple):
    """Something that is known of a session of a group: a fact with the profile of its member, or a profile alone."""

    group: str
    fact: Fact | None
    profile: Profile | None
    place: Place | None = None
    session: int = 0
    is_before: bool = False
    """It tells who was a member when the session began, and was told of the session before as well."""


class Told(NamedTuple):
    """Rows about one session of a group, in any order.

    `opening` is the last GROUP_RECORD before the session, with all `members` as they were then; None: there is none. `records` are
    GROUP_RECORDs, `last_commits` LAST_COMMITs;
    `epochs` and `commits`, of a group of the new protocol, EPOCH_RECORDS and COMMITTED of `told`.
    """

    opening: Row | None = None
    records: Sequence[Row] = ()
    last_commits: Sequence[Row] = ()
    events: Sequence[Row] = ()
    lines: Sequence[Row] = ()
    epochs: Sequence[Row] = ()
    commits: Sequence[Row] = ()


def entries_of(group: str, told: Told, session: int = 0) -> Iterator[Entry]:
    """What is known of a session of a group.

    The first of events, log and records that knows it gives the facts; records give profiles and what was assigned. Of a
    group of the new protocol, of which the records say more than the log, both do.
    """
    places: dict[str, Place | None] = {}
    history = _History(group, told, places)
    inferred = list(history.facts())
    records = _epoch_records(told.epochs, places)
    profiles = history.profiles | profiles_of_epochs(records, None)
    times, names = _commits(told.commits)
    of_epochs = list(EpochReader(group, records, times, names, None).facts())
    classic = [fact for fact in inferred if fact.source != history.opening]
    facts = [_with_partitions(fact, history) for fact in _of_events(told, history, places)]
    if facts:
        facts = list(with_records(facts, of_epochs))
    else:
        of_log = [_with_partitions(fact, history) for fact in _of_log(told, history, places)]
        if records:
            facts = with_log(converted(classic, of_epochs), of_log)
        else:
            facts = of_log or classic
    before = [*(fact for fact in inferred if fact.source == history.opening), *history.completed_before()]
    attached = set()
    for fact in (*before, *sorted(facts, key=lambda fact: fact.ts_ms)):
        member_id = "" if fact.member is None else fact.member.member_id
        attached.add(member_id)
        is_before = fact.source == history.opening
        yield Entry(group, fact, profiles.get(member_id), places[fact.source], session, is_before)
    for member_id, profile in profiles.items():
        if member_id not in attached:
            yield Entry(group, None, profile, None, session)


class _History:
    """The records of a session as `kshim.explain` reads them: made of their changes, one after the other."""

    def __init__(self, group: str, told: Told, places: dict[str, Place | None]) -> None:
        self._group = group
        self._told = told
        self._places = places
        self._commits = {
            row["member_id"]: Committed(
                row["last_commit_ms"], row["usual_ms"], row["before_ms"], is_early=row["is_early"]
            )
            for row in told.last_commits
        }
        self._last_ms = {(row["member_id"], row["ts_ms"]): row["last_commit_ms"] for row in told.last_commits}
        self._before: Snapshot | None = None
        self.profiles: dict[str, Profile] = {}
        self._profiles_since: dict[str, list[tuple[int, Profile]]] = {}
        """Those of each member, in order, with the times of their records."""
        self._records_ms: list[int] = []
        self.partitions: dict[int | None, dict[str, int]] = {}
        """How far topics were assigned, by generation."""
        self.protocols: dict[tuple[str, int], str | None] = {}

    @property
    def opening(self) -> str | None:
        """The source of who was there before the session."""
        return None if self._before is None else self._before.source

    def facts(self) -> Iterator[Fact]:
        """All that the records tell, and who was there before, as if they had joined long before the session."""
        found = facts_of_records(
            self._snapshots(), lambda seat, until_ms: self._last_ms.get((seat.member_id, until_ms))
        )
        return map(self.with_commits, found)

    def with_commits(self, fact: Fact) -> Fact:
        """The end of a membership, with what commits tell of it."""
        if fact.kind not in (Kind.LEFT, Kind.EXPIRED, Kind.REPLACED) or fact.member is None:
            return fact
        member_id = fact.other_id if fact.kind is Kind.REPLACED else fact.member.member_id
        committed = self._commits.get(member_id or "")
        return fact if committed is None or committed.last_ms > fact.ts_ms else fact._replace(committed=committed)

    def with_subscription(self, fact: Fact) -> Fact:
        """A member that joins again, with how its subscription differs in the records before and after that."""
        place = bisect_right(self._records_ms, fact.ts_ms)
        if fact.kind is not Kind.REQUESTED or fact.member is None or place == len(self._records_ms):
            return fact
        next_ms = self._records_ms[place]
        known = self._profiles_since.get(fact.member.member_id, ())
        # What a member is comes with the records in which it changes; in the others it is as before.
        mine = [(ts_ms, profile) for ts_ms, profile in known if ts_ms <= next_ms]
        return with_subscription(fact, [*mine, *((next_ms, profile) for _, profile in mine[-1:])])

    def completed_before(self) -> Iterator[Fact]:
        """That those who were there before had been assigned something."""
        if (before := self._before) is not None:
            partitions = self.partitions.get(before.generation_id)
            phases = Phases(None, None, before.protocol, before.leader_id, None, None, partitions=partitions)
            phases = phases._replace(generation_id=before.generation_id)
            yield Fact(before.ts_ms + 1, self._group, Kind.COMPLETED, before.source, is_observed=False, phases=phases)

    def _snapshots(self) -> Iterator[Snapshot]:
        told = self._told
        seats: dict[str, Seat] = {}
        if told.opening is not None:
            before_ms = told.opening["ts_ms"]
            seats = {row["member_id"]: self._seat(row, before_ms) for row in told.opening["members"] or ()}
            began_ms = min((row["ts_ms"] for row in (*told.records, *told.events, *told.lines)), default=0)
            self._before = self._snapshot(told.opening, seats)._replace(ts_ms=began_ms - _BEFORE_MS)
            yield self._before
        for row in sorted(told.records, key=lambda row: int(row["number"])):
            for member_id in row["gone"] or ():
                seats.pop(member_id, None)
            for each in row["came"] or ():
                seats[each["member_id"]] = self._seat(each, row["ts_ms"])
            self._records_ms.append(row["ts_ms"])
            yield self._snapshot(row, seats)

    def _snapshot(self, row: Row, seats: Mapping[str, Seat]) -> Snapshot:
        place = _place(row["evidence"])
        source = "record" if place is None else f"record {place.topic}-{place.partition} {place.offset}"
        self._places[source] = place
        generation_id, protocol = row["generation_id"], row["protocol"]
        self.partitions[generation_id] = {each["topic"]: each["partitions"] for each in row["assigned"] or ()}
        self.protocols[self._group, generation_id or 0] = protocol
        leader_id, joined_ms = row["leader_id"], row["joined_ms"] or -1
        mine = tuple(seats.values())
        assigned = self.partitions[generation_id]
        return Snapshot(
            row["ts_ms"], self._group, source, mine, generation_id, protocol, leader_id, joined_ms, assigned
        )

    def _seat(self, row: Row, ts_ms: int) -> Seat:
        member = Member(row["member_id"], row["instance_id"], row["client_id"], row["host"])
        topics = tuple(sorted(row["topics"] or ()))
        profile = Profile(member, row["session_timeout_ms"], row["rebalance_timeout_ms"], topics)
        self.profiles[member.member_id] = profile
        self._profiles_since.setdefault(member.member_id, []).append((ts_ms, profile))
        return Seat(profile, ())


def _with_partitions(fact: Fact, history: _History) -> Fact:
    """The end of a rebalance, with what was assigned as the record of its generation has it."""
    phases = fact.phases
    if phases is None or phases.generation_id not in history.partitions:
        return fact
    return fact._replace(phases=phases._replace(partitions=history.partitions[phases.generation_id]))


def _epoch_records(epochs: Iterable[Row], places: dict[str, Place | None]) -> tuple[EpochRecord, ...]:
    """Each once, in order; `places` gets where they are."""
    found: dict[int, EpochRecord] = {}
    for row in sorted(epochs, key=lambda row: int(row["offset"])):
        value = None if row["is_tombstone"] else row["raw_value"]
        record = EpochRecord(row["timestamp_ms"], row["offset"], row["key_type"], row["subject"], value)
        found[record.offset] = record
        places[record.source] = _place(row)
    return tuple(found.values())


def _commits(rows: Iterable[Row]) -> tuple[dict[TopicPartition, list[int]], dict[bytes, str]]:
    """When each partition was committed, in order, and names of topics by their ids."""
    times: dict[TopicPartition, list[int]] = {}
    names: dict[bytes, str] = {}
    for row in sorted(rows, key=lambda row: int(row["timestamp_ms"])):
        times.setdefault((row["committed_topic"], row["committed_partition"]), []).append(row["timestamp_ms"])
        if row["committed_topic_id"] is not None:
            names[bytes(row["committed_topic_id"])] = row["committed_topic"]
    return times, names


def _of_events(told: Told, history: _History, places: dict[str, Place | None]) -> list[Fact]:
    """What kshim said; `places` gets where."""
    facts: list[Fact] = []
    for event in sorted(told.events, key=_order):
        fact = fact_of_event(event)
        if fact is not None:
            # Events of earlier versions do not tell of commits.
            facts.append(fact if fact.committed is not None else history.with_commits(fact))
            places[fact.source] = _place(event["evidence"])
    return facts


def _of_log(told: Told, history: _History, places: dict[str, Place | None]) -> list[Fact]:
    """What the broker's log said; `places` gets where."""
    rows = [_line(row) for row in sorted(told.lines, key=_order)]
    places |= {f"log line {row['line']}": _place(row["evidence"]) for row in rows}
    found = facts_of_log(rows, history.profiles, history.protocols)
    return [history.with_subscription(history.with_commits(fact)) for fact in found]


def _order(row: Row) -> tuple[int, int]:
    return row["ts_ms"], row["evidence"]["offset"] if row["evidence"] is not None else 0


def _line(row: Row) -> dict[str, Any]:
    """As `kshim.explain` reads it: without what the line does not say, and with its number."""
    return {name: value for name, value in row.items() if value is not None} | {"line": row["evidence"]["offset"]}


def _place(evidence: Row | None) -> Place | None:
    return None if evidence is None else Place(evidence["topic"], evidence["partition"], evidence["offset"])
