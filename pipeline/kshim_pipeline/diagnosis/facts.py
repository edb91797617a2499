"""Rows of one group -> what `kshim.explain` reasons about. No Spark here: it is tested on rows written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from kshim.explain.facts import Fact, Member, Profile
from kshim.explain.sources.broker_log import facts_of_log
from kshim.explain.sources.consumer_records import EpochReader, EpochRecord, converted, profiles_of_epochs
from kshim.explain.sources.events import fact_of_event
from kshim.explain.sources.records import Seat, Snapshot, TopicPartition, facts_of_records, with_partitions

Row = Mapping[str, Any]


class Place(NamedTuple):
    """Where a fact was read: a record, or a line of the log (topic `log`)."""

    topic: str
    partition: int | None
    offset: int


class Entry(NamedTuple):
    """Something that is known of a group: a fact with the profile of its member, or a profile alone."""

    group: str
    fact: Fact | None
    profile: Profile | None
    place: Place | None = None


def entries_of(
    group: str,
    members: Iterable[Row],
    events: Iterable[Row],
    lines: Iterable[Row],
    epochs: Iterable[Row] = (),
    commits: Iterable[Row] = (),
) -> Iterator[Entry]:
    """What is known of a group, from its rows of MEMBERS, EVENTS and LOG_LINES in any order.

    Of a group of the new protocol also its records and commits, rows of EPOCH_RECORDS and COMMITTED of `of_fleet`. The first of events, log and records that knows the group gives the facts; records give profiles and what was assigned.
    """
    places: dict[str, Place | None] = {}
    snapshots = _snapshots(group, members, places)
    profiles = {seat.member_id: seat.profile for snapshot in snapshots for seat in snapshot.seats}
    records = _epoch_records(epochs, places)
    profiles |= profiles_of_epochs(records, None)
    facts = _told(group, events, lines, snapshots, profiles, places)
    if not facts:
        classic = list(facts_of_records(snapshots, lambda seat, until_ms: seat.last_commit_ms))
        times, names = _commits(commits)
        facts = converted(classic, list(EpochReader(group, records, times, names, None).facts()))
    attached = set()
    for fact in sorted(facts, key=lambda fact: fact.ts_ms):
        member_id = "" if fact.member is None else fact.member.member_id
        attached.add(member_id)
        yield Entry(group, fact, profiles.get(member_id), places[fact.source])
    for member_id, profile in profiles.items():
        if member_id not in attached:
            yield Entry(group, None, profile)


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


def _told(
    group: str,
    events: Iterable[Row],
    lines: Iterable[Row],
    snapshots: Sequence[Snapshot],
    profiles: Mapping[str, Profile],
    places: dict[str, Place | None],
) -> list[Fact]:
    """What a broker said; `places` gets where."""
    generations = {snapshot.generation_id: snapshot for snapshot in snapshots}
    facts: list[Fact] = []
    for event in sorted(events, key=_order):
        fact = fact_of_event(event)
        if fact is not None:
            facts.append(fact)
            places[fact.source] = _place(event["evidence"])
    if not facts:
        rows = [_line(row) for row in sorted(lines, key=_order)]
        protocols = {(group, snapshot.generation_id or 0): snapshot.protocol for snapshot in snapshots}
        facts = list(facts_of_log(rows, profiles, protocols))
        places |= {f"log line {row['line']}": _place(row["evidence"]) for row in rows}
    return [with_partitions(fact, lambda _, generation_id: generations.get(generation_id)) for fact in facts]


def _order(row: Row) -> tuple[int, int]:
    return row["ts_ms"], row["evidence"]["offset"] if row["evidence"] is not None else 0


def _line(row: Row) -> dict[str, Any]:
    """As `kshim.explain` reads it: without what the line does not say, and with its number."""
    return {name: value for name, value in row.items() if value is not None} | {"line": row["evidence"]["offset"]}


def _snapshots(group: str, members: Iterable[Row], places: dict[str, Place | None]) -> list[Snapshot]:
    """The records of the group, in order; `places` gets where they are."""
    ordered = sorted(members, key=lambda row: int(row["number"]))
    found: list[Snapshot] = []
    for _, rows in groupby(ordered, key=lambda row: int(row["number"])):
        mine = list(rows)
        first = mine[0]
        place = _place(first["evidence"])
        source = "record" if place is None else f"record {place.topic}-{place.partition} {place.offset}"
        places[source] = place
        seats = tuple(_seat(row) for row in mine if row["member_id"] is not None)
        found.append(
            Snapshot(
                ts_ms=first["ts_ms"],
                group=group,
                source=source,
                seats=seats,
                generation_id=first["generation_id"],
                protocol=first["protocol"],
                leader_id=first["leader_id"],
                joined_ms=first["joined_ms"] or -1,
            )
        )
    return found


def _seat(row: Row) -> Seat:
    member = Member(row["member_id"], row["instance_id"], row["client_id"], row["host"])
    topics = tuple(sorted(row["topics"] or ()))
    profile = Profile(member, row["session_timeout_ms"], row["rebalance_timeout_ms"], topics)
    partitions = tuple((each["topic"], each["partition"]) for each in row["last_partitions"] or ())
    return Seat(profile, partitions, row["last_commit_ms"])


def _place(evidence: Row | None) -> Place | None:
    return None if evidence is None else Place(evidence["topic"], evidence["partition"], evidence["offset"])
