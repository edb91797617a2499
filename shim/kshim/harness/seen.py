"""What the pages show of a cluster: from the history, the records of groups, and the groups as they are now.

What was read of a group is kept as long as it is looked at, so a page that is read again costs what has happened since.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.explain import Known, explain
from kshim.explain.document import document
from kshim.explain.facts import Fact, Member, Profile
from kshim.explain.sources.events import fact_of_event
from kshim.explain.sources.group_records import GroupRecords, owners
from kshim.explain.sources.records import profiles
from kshim.harness.groups import GroupView, MemberView, committed, group_ids, group_view, lag, lag_of, shard_of
from kshim.harness.rebalances import Rebalance, rebalances_in
from kshim.history.course import Course
from kshim.history.timeline import Timeline
from kshim.page import GroupNow, GroupRow, MemberNow, OffsetNow, Owners, Site, Turn, Wait
from kshim.page.files import pages_of
from kshim.page.from_facts import headline
from kshim.page.values import TopicPartition
from kshim_protocol.records.batch import iter_batches, parse_batch_header
from kshim_protocol.records.record import iter_records

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.groups.events import MemberRef
    from kshim.history.event import HistoryEvent

GROUPS_KEPT: Final = 8
EVENTS_OF_A_GROUP: Final = 600
"""The newest: to look at them takes the brokers' time."""
TURNS_SHOWN: Final = 60
RECORDS_READ: Final = 5_000
"""Of the newest in a group's partition of `__consumer_offsets`, when it is first looked at."""
_READ_BYTES: Final = 1 << 18
_SNAPSHOTS_KEPT: Final = 500
_EXPLAINED_MS: Final = 5_000
"""What is said of an incident may change with time alone: who has not come back by now."""
_FRESH_S: Final = 1.5
"""For so long a row of the list is what it was, unless something has happened to its group: lag changes without an event."""
_WITH_OWNERS: Final = "consumer"
"""The type of groups with epochs whose partitions have one owner each; those of share groups have several, and streams groups have tasks."""
_CALM: Final = frozenset({"Stable", "Empty"})
_UNCHANGED_S: Final = 10.0
"""For so long only the lag of a calm group is read anew, unless something has happened to it."""
_EXPLAINING_S: Final = 0.003
"""Of the brokers' time, for each reading of the list: groups whose cause is not weighed yet wait for the next one."""
_SETTLED_MS: Final = 60_000
"""After so long without an event what was said of a group is looked at once more: by then its members would be back."""
_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


class Seen:
    """Looks at the groups of a cluster for its pages."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._groups: dict[str, _Group] = {}
        self._last_number = 0
        self._courses: dict[str, _Course] = {}
        self._rows: dict[str, _Row] = {}

    def group(self, name: str, now_ms: int) -> GroupNow | None:
        """One group with its past; None: there is none, and the history knows none."""
        view = group_view(self._cluster, name)
        found = self._groups.pop(name, None) or _Group(self._cluster, name)
        found.look()
        if view.state == "Dead" and not found.events:
            return None
        self._groups[name] = found  # the last one looked at is the last to go
        while len(self._groups) > GROUPS_KEPT:
            del self._groups[next(iter(self._groups))]
        return found.now(view, now_ms)

    def rows(self, search: str, now_ms: int) -> tuple[list[GroupRow], int]:
        """The groups whose names have the text, those with something wrong first; and how many groups there are.

        Why a group rebalanced is what `kshim why` says as soon as there was time to weigh it, and before that what the history says.
        """
        names = group_ids(self._cluster)
        self._catch_up(names)
        wanted, at_s = search.casefold(), time.monotonic()
        found = sorted((self._row(name, at_s) for name in names if wanted in name.casefold()), key=_badness)
        explained = self._explain([row.name for row in found], now_ms)
        if explained:
            found = [self._row(row.name, at_s) if row.name in explained else row for row in found]
        return found, len(names)

    def _catch_up(self, names: Sequence[str]) -> None:
        for event in self._cluster.history.ring.after(self._last_number):
            self._last_number = event.number
            course = self._courses.get(event.group_id)
            if course is None:
                course = self._courses[event.group_id] = _Course()
            course.add(event)
        if len(self._courses) + len(self._rows) > 2 * len(names) + 100:
            known = set(names)
            self._courses = {name: course for name, course in self._courses.items() if name in known}
            self._rows = {name: row for name, row in self._rows.items() if name in known}

    def _explain(self, names: Sequence[str], now_ms: int) -> set[str]:
        """Weigh causes of groups, in this order, as long as there is time; of which it did."""
        until_s = time.thread_time() + _EXPLAINING_S
        explained: set[str] = set()
        for name in names:
            course = self._courses.get(name)
            if course is None or not course.is_due(now_ms):
                continue
            if explained and time.thread_time() > until_s:
                break
            explained.add(name)
            group = self._groups.get(name) or _Group(self._cluster, name)
            group.look()
            incidents = group.incidents(group_view(self._cluster, name), now_ms)
            course.explained(headline(incidents[-1]) if incidents else None, now_ms)
            self._rows.pop(name, None)
        return explained

    def _row(self, name: str, at_s: float) -> GroupRow:
        course = self._courses.get(name)
        number = 0 if course is None else course.number
        known = self._rows.get(name)
        if known is None or known.number != number:
            known = self._read_row(name, course, at_s)
        elif at_s - known.at_s < _FRESH_S:
            return known.row
        elif known.row.state in _CALM and at_s - known.read_s < _UNCHANGED_S:
            behind = self._lag(name, known.assigned)
            row = known.row if behind == known.row.lag else known.row._replace(lag=behind)
            known = known._replace(at_s=at_s, row=row)
        else:
            known = self._read_row(name, course, at_s)
        self._rows[name] = known
        return known.row

    def _read_row(self, name: str, course: _Course | None, at_s: float) -> _Row:
        view = group_view(self._cluster, name)
        assigned = tuple(place for member in view.members for place in member.assignment)
        what, who = (None, None) if course is None else course.why()
        row = GroupRow(
            name=name,
            state=view.state,
            is_rebalancing=view.state in _REBALANCING,
            since_ms=None if course is None else course.began_ms,
            member_count=len(view.members),
            rebalance_count=0 if course is None else course.count,
            lag=self._lag(name, assigned),
            what=what,
            who=who,
        )
        return _Row(0 if course is None else course.number, at_s, at_s, assigned, row)

    def _lag(self, name: str, assigned: Sequence[TopicPartition]) -> int | None:
        behind = lag_of(self._cluster, name, assigned)
        return sum(behind.values()) if behind else None


class _Row(NamedTuple):
    """A row of the list, as it was when the group's newest event was `number`; its lag, as it was at `at_s`."""

    number: int
    read_s: float
    at_s: float
    assigned: Sequence[TopicPartition]
    row: GroupRow


class _Course:
    """How often a group has rebalanced, its last rebalance, and what was said of that."""

    def __init__(self) -> None:
        self.count = 0
        self.number = 0
        self.began_ms: int | None = None
        self._last_ms = 0
        self._first: HistoryEvent | None = None
        self._explained_number = 0
        self._explained_ms = 0
        self._headline: tuple[str, str | None] | None = None

    def add(self, event: HistoryEvent) -> None:
        self.number, self._last_ms = event.number, event.now.wall_ms
        if event.type == "rebalance_started":
            self.count += 1
            self._first, self.began_ms = event, event.now.wall_ms
            self._headline = None

    def is_due(self, now_ms: int) -> bool:
        """Whether something has happened since its cause was weighed, or it has settled."""
        is_settled = now_ms - self._last_ms >= _SETTLED_MS > self._explained_ms - self._last_ms
        return self._explained_number != self.number or is_settled

    def explained(self, headline: tuple[str, str | None] | None, now_ms: int) -> None:
        """What its newest incident is, and who it was."""
        self._headline, self._explained_number, self._explained_ms = headline, self.number, now_ms

    def why(self) -> tuple[str | None, str | None]:
        """What its last rebalance was about, and who caused it: as weighed, else as the history has it."""
        if self._headline is not None:
            return self._headline
        if self._first is None:
            return None, None
        last = rebalances_in([self._first])[0]
        return last.cause(), None if last.who is None else short_name(last.who)


class _Group:
    """One group's past: its events as facts, and its records."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self.events: list[HistoryEvent] = []
        self._facts: list[Fact] = []
        self._records = GroupRecords(frozenset({name}), _SNAPSHOTS_KEPT)
        self._decoded: dict[int, Mapping[TopicPartition, str]] = {}
        self._next_offset: int | None = None
        self._explained: tuple[int, int, list[dict[str, Any]]] | None = None

    def look(self) -> None:
        """Take in what is new."""
        ring = self._cluster.history.ring
        news = ring.after(self.events[-1].number if self.events else 0, group_id=self._name)
        for event in news[-EVENTS_OF_A_GROUP:]:
            self.events.append(event)
            fact = fact_of_event(event.document())
            if fact is not None:
                self._facts.append(fact)
        del self.events[:-EVENTS_OF_A_GROUP], self._facts[:-EVENTS_OF_A_GROUP]
        self._read_records()

    def now(self, view: GroupView, now_ms: int) -> GroupNow:
        """All of it."""
        turns = [_turn(each) for each in _with_events(self.events)]
        offsets, behind = committed(self._cluster, self._name), lag(self._cluster, self._name)
        return GroupNow(
            name=self._name,
            state=view.state,
            now_ms=now_ms,
            generation=view.generation,
            protocol=view.protocol,
            members=[_member(each) for each in view.members],
            offsets=[OffsetNow(*place, offsets.get(place), behind.get(place)) for place in sorted({*offsets, *behind})],
            turns=turns[-TURNS_SHOWN:],
            facts=self._facts,
            incidents=self.incidents(view, now_ms),
            owners=self._owners(),
            commits=self._records.commits.get(self._name, {}),
            sessions={member_id: profile.session_ms for member_id, profile in self._profiles(view).items()},
            turns_omitted=max(len(turns) - TURNS_SHOWN, 0),
        )

    def incidents(self, view: GroupView, now_ms: int) -> list[dict[str, Any]]:
        """What has disturbed it, in order of time."""
        number = self.events[-1].number if self.events else 0
        before = self._explained
        if before is not None and before[0] == number and now_ms - before[1] < _EXPLAINED_MS:
            return before[2]
        found = explain(Known(tuple(self._facts), self._profiles(view), ("events",), now_ms))
        incidents: list[dict[str, Any]] = document(found, ("events",), None)["incidents"]
        self._explained = number, now_ms, incidents
        return incidents

    def _profiles(self, view: GroupView) -> dict[str, Profile]:
        """Of members in records, and of those that are in none yet."""
        records = self._records.snapshots.get(self._name, ())
        known_members = profiles(each.value for each in records if each.value is not None)
        for each in view.members:
            if each.member_id not in known_members:
                member = Member(each.member_id, each.instance_id, each.client_id, each.host)
                known_members[each.member_id] = Profile(member, each.session_timeout_ms, each.session_timeout_ms, ())
        return known_members

    def _read_records(self) -> None:
        made = self._cluster.groups.made
        if made is None or shard_of(self._cluster, self._name) is None:
            return
        partition = self._cluster.topics.partition(OFFSETS_TOPIC, made.partition_for(self._name))
        if partition is None:
            return
        end = partition.high_watermark
        first = partition.log.start_offset
        at = max(first, end - RECORDS_READ) if self._next_offset is None else max(self._next_offset, first)
        begin = at
        while at < end and at - begin < 2 * RECORDS_READ:
            data = partition.read(at, end, _READ_BYTES, at_least_one_batch=True)
            if not data:
                break
            for batch in iter_batches(data):
                header = parse_batch_header(batch)
                if not header.is_control:
                    for record in iter_records(batch):
                        if record.offset >= at:
                            self._records.add(record)
                at = header.last_offset + 1
        self._next_offset = at

    def _owners(self) -> list[Owners]:
        """After each generation; in a group of the new protocol after each step of a member."""
        records = self._records.snapshots.get(self._name, ())
        known = self._decoded  # each record is decoded once
        self._decoded = {each.offset: known.get(each.offset) or owners(each.read(self._name)) for each in records}
        found = [Owners(each.ts_ms, self._decoded[each.offset]) for each in records]
        by_partition: dict[TopicPartition, str] = {}
        for event in self.events:
            step = None if event.reconciliation is None else event.reconciliation.step
            trigger = event.why.about.trigger
            if step is None or trigger is None or not (step.revoked or step.received):
                continue
            if event.why.about.group_type != _WITH_OWNERS:
                continue
            by_partition = {
                place: owner
                for place, owner in by_partition.items()
                if place not in step.revoked or owner != trigger.member_id
            }
            by_partition |= dict.fromkeys(step.received, trigger.member_id)
            found.append(Owners(event.now.wall_ms, by_partition))
        return found


def files(cluster: Cluster, title: str, now_ms: int, *, group_id: str | None = None) -> dict[str, str]:
    """The page of each group that the history still knows, or of one, by name, as a file that needs nothing else.

    `title` says whose groups these are.
    """
    seen = Seen(cluster)
    known = dict.fromkeys(event.group_id for event in cluster.history.ring)
    names = [name for name in known if group_id in (None, name)]
    found = (seen.group(name, now_ms) for name in names)
    return pages_of(Site(title, now_ms), (each for each in found if each is not None))


def short_name(member: MemberRef) -> str:
    """A member as `kshim why` names its client."""
    host = member.client_host.removeprefix("/")
    return Member(member.member_id, member.group_instance_id, member.client_id or None, host or None).name


def _with_events(events: Sequence[HistoryEvent]) -> list[tuple[Rebalance, HistoryEvent]]:
    """Each rebalance with its newest event."""
    newest: Mapping[tuple[str, int], HistoryEvent] = {
        (event.run, event.why.about.epoch): event for event in events if isinstance(event.why, Course)
    }
    return list(zip(rebalances_in(events), newest.values(), strict=True))


def _turn(found: tuple[Rebalance, HistoryEvent]) -> Turn:
    rebalance, last = found
    began_ms = rebalance.started_wall_ms
    first_ms = rebalance.join_ms if not rebalance.has_epochs else rebalance.revoke_ms
    if rebalance.has_epochs and first_ms is not None:
        first_ms += rebalance.compute_ms or 0
    names = (
        (("COMPUTE", rebalance.compute_ms), ("REVOKE", rebalance.revoke_ms), ("ASSIGN", rebalance.assign_ms))
        if rebalance.has_epochs
        else (("JOIN", rebalance.join_ms), ("SYNC", rebalance.sync_ms))
    )
    timeline = last.why
    arrivals = timeline.arrivals if isinstance(timeline, Timeline) else None
    return Turn(
        number=rebalance.epoch,
        began_ms=began_ms,
        joined_ms=None if first_ms is None else began_ms + first_ms,
        ended_ms=None if rebalance.duration_ms is None else began_ms + rebalance.duration_ms,
        outcome=rebalance.outcome,
        generation=rebalance.to_generation,
        member_count=len(rebalance.joined),
        phases=tuple((name, duration_ms) for name, duration_ms in names if duration_ms is not None),
        explanation=_capital(rebalance.explain().partition(": ")[2]),
        waits=()
        if arrivals is None
        else tuple(
            Wait(member.member_id, short_name(member), wait_ms, bool(is_new))
            for member, wait_ms, is_new in zip(arrivals.members, arrivals.wait_ms, arrivals.is_new, strict=True)
        ),
        leader_id=timeline.leader_id if isinstance(timeline, Timeline) else None,
        protocol=getattr(timeline, "protocol", None),
        has_epochs=rebalance.has_epochs,
        injected_faults=rebalance.injected_faults,
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _member(view: MemberView) -> MemberNow:
    return MemberNow(
        view.member_id,
        Member(view.member_id, view.instance_id, view.client_id or None, view.host or None).name,
        view.host,
        view.instance_id,
        view.assignment,
        view.is_leader,
        view.session_timeout_ms,
    )


def _badness(row: GroupRow) -> tuple[object, ...]:
    return (
        not row.is_rebalancing,
        (row.since_ms or 0) if row.is_rebalancing else 0,
        -row.rebalance_count,
        -(row.lag or 0),
        row.state == "Empty",
        row.name,
    )
