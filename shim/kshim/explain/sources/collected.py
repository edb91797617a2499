"""What was read of groups, and what is known of them from all of it: of each group the source that tells most gives the facts."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any

from kshim.explain.facts import Fact, Kind, Known, Profile
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
from kshim.explain.sources.group_records import GroupRecords
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

Elections = Sequence[tuple[int, int]]
"""Times of the last record of a leader epoch of a partition, and of the first of the next one."""


class _OfGroup:
    """What the records of a group say. `key` identifies them."""

    def __init__(self, key: tuple[object, ...], of_members: Mapping[str, Profile]) -> None:
        self.key = key
        self.profiles = of_members
        self.inferred: list[Fact] | None = None
        """None: nobody has asked, for another source knows the group."""


class Collected:
    """What was read of groups, None: all. `log_rows` are of the broker's log, `presence` has what samples show."""

    def __init__(
        self,
        groups: frozenset[str] | None,
        *,
        snapshots_kept: int,
        events_kept: int,
        log_rows: Sequence[Mapping[str, Any]] = (),
        presence: Mapping[str, Presence] | None = None,
    ) -> None:
        self._groups = groups
        self._log_rows = log_rows
        self._presence = {} if presence is None else presence
        self.records = GroupRecords(groups, snapshots_kept)
        self.events: deque[Fact] = deque(maxlen=events_kept)
        self._of_groups: dict[str, _OfGroup] = {}

    def known(self, elections_of: Callable[[str], Elections], newest_ms: int) -> Known:
        """All that is known now. `elections_of`: those of the partition of a group; `newest_ms`: until when the records are known."""
        groups, offsets = self._groups, self.records
        session_ms = self._session_ms(self._log_rows)
        names = dict.fromkeys((*offsets.snapshots, *offsets.epochs))
        self._of_groups = {name: self._of_group(name, session_ms) for name in names}
        of_members = {key: profile for each in self._of_groups.values() for key, profile in each.profiles.items()}
        told = {fact.group for fact in self.events}
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

        events = self.events = deque((with_partitions(fact, record_of) for fact in self.events), self.events.maxlen)
        lines = [
            self._with_subscription(self._with_commits(with_partitions(fact, record_of), record_of))
            for fact in facts_of_log(rows, of_members, protocols)
            if fact.group not in told
        ]
        of_lines: dict[str, list[Fact]] = defaultdict(list)
        for fact in lines:
            of_lines[fact.group].append(fact)
        committed_ms = LastOfAll(chain.from_iterable(each.values() for each in offsets.commits.values()))
        lines = [fact for name, mine in of_lines.items() for fact in with_stops(mine, elections_of(name), committed_ms)]
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
                presence = self._presence.get(name)
                seen = () if presence is None else (presence.looks.gap,)
                of_group.inferred = with_loads(both, elections_of(name), committed_ms, *seen)
            inferred += of_group.inferred
        inferred, lines = _with_lines(inferred, lines, offsets.epochs)
        of_records = [fact for name in told & offsets.epochs.keys() for fact in self._facts_of_epochs(name, session_ms)]
        with_steps = list(with_records(events, of_records))
        sources = [name for name, facts in (("events", events), ("log", lines), ("records", inferred)) if facts]
        if inferred and self._presence:
            sources.append("samples")
        facts = sorted([*with_steps, *lines, *inferred], key=lambda fact: fact.ts_ms)
        until_ms = max([newest_ms, *(row["ts_ms"] for row in rows[-1:] if "ts_ms" in row)])
        return Known(tuple(facts), of_members, tuple(sources), until_ms)

    def _session_ms(self, rows: Sequence[Mapping[str, Any]]) -> int | None:
        """The session timeout of groups of the new protocol: as the log says, or as it follows from sessions that expired; None: neither."""
        said = [int(row["session_ms"]) for row in rows if row["type"] == SETTINGS]
        if said:
            return said[-1]
        epochs = self.records.epochs
        found = session_of_events(fact for fact in self.events if fact.group in epochs)
        if found is not None or not epochs:
            return found
        facts = (fact for name in epochs for fact in self._facts_of_epochs(name, None))
        return session_of_records(facts)

    def _facts_of_epochs(self, name: str, session_ms: int | None) -> list[Fact]:
        offsets = self.records
        records, commits = tuple(offsets.epochs.get(name, ())), offsets.commits.get(name, {})
        return list(EpochReader(name, records, commits, offsets.topic_names, session_ms).facts())

    def _of_group(self, name: str, session_ms: int | None) -> _OfGroup:
        """What its records say, read anew if they are others than the last time."""
        snapshots, epochs = self.records.snapshots.get(name, ()), self.records.epochs.get(name, ())
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
        commits = self.records.commits.get(name)
        if commits is None:
            return fact
        if fact.kind in (Kind.LEFT, Kind.EXPIRED, Kind.REPLACED) and fact.member is not None:
            member_id = fact.other_id if fact.kind is Kind.REPLACED else fact.member.member_id
            records = reversed(self.records.snapshots.get(name, ()))
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
        records = (each.read(fact.group) for each in self.records.snapshots.get(fact.group, ()))
        mine = ((each.ts_ms, seat.profile) for each in records for seat in each.seats if seat.member_id == member_id)
        return with_subscription(fact, mine)


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
