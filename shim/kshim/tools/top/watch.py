"""What is seen of each group, look by look: a row for each, in the order of what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kshim.explain import Incident
from kshim.explain.causes import Cause
from kshim.explain.document import document
from kshim.explain.sources.records import member_of
from kshim.explain.sources.samples import Presence
from kshim.page import GroupNow, OffsetNow
from kshim.page.from_facts import group_of_facts, members_present
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.why.follow import Follower
from kshim_protocol.internal.group_metadata import GroupMetadataValue

PARTITIONS_OF_A_LOOK = 2_000
"""Of so many partitions the ends are asked for each time; of groups with more of them, in turn."""

INCIDENTS_KEPT = 20
"""The newest, of a look."""
_RECORDS_SHOWN = 200
_CONSUMER = "consumer"
_DESCRIBED = ("classic", _CONSUMER)


class LastCause(NamedTuple):
    """The last incident of a group. Of one that is unknown, `cause` is the best guess, and `is_guess`."""

    cause: str
    confidence: float
    is_guess: bool
    at_ms: int


class Row(NamedTuple):
    """One group. A field is None where nothing says it."""

    group: str
    group_type: str
    """`classic`, `consumer`, `share`, `streams`."""
    state: str
    is_rebalancing: bool
    unstable_ms: int | None
    """For how long it was seen not to be Stable; None: it is."""
    member_count: int | None
    generation: int | None
    """Of a group of the new protocol, its epoch."""
    rebalance_count: int
    """Since the first look."""
    missing: tuple[str, ...]
    """While it rebalances: who is gone, or is awaited."""
    joined: tuple[str, ...]
    """While it rebalances: who is new."""
    last_to_join: str | None
    """Whom the last incident's rebalances waited for."""
    lag: int | None
    lag_change: int | None
    """Since it was measured before."""
    last_cause: LastCause | None


class View(NamedTuple):
    """One look. `left_out_count`: groups that are more than are kept."""

    ts_ms: int
    rows: list[Row]
    incidents: list[Incident]
    left_out_count: int


class Watch:
    """Looks at groups, None: all, again and again: each `interval_s` at all of it, and else at what rebalances."""

    def __init__(self, logs: BrokerLogs, groups: frozenset[str] | None, interval_s: float = 0.0) -> None:
        self._follower = Follower(logs, groups, interval_s=interval_s)
        self._view = (0, View(0, [], [], 0))
        """The last one, and how often all had been read then."""
        self._lags = _Lags(logs)
        self._counts: dict[str, _Count] | None = None

    def look(self, now_ms: int) -> View:
        """Sample, read, and measure lag once; between two such times, what was seen then. Raises SourceError."""
        follower = self._follower
        follower.poll(now_ms)
        if self._view[0] == follower.read_count:
            return self._view[1]
        present = follower.present
        lags = self._lags.measured({name: follower.reading.committed.get(name, {}) for name in present})
        last = _last_incidents(follower.incidents)
        values = {name: self._latest(name, each) for name, each in present.items()}
        self._counts = {name: self._counted(name, each, values[name]) for name, each in present.items()}
        rows = [
            _row(name, each, values[name], self._counts[name], lags.get(name), last.get(name), now_ms)
            for name, each in present.items()
        ]
        newest = follower.incidents[-INCIDENTS_KEPT:]
        view = View(now_ms, sorted(rows, key=_badness), newest, follower.sampler.left_out_count)
        self._view = (follower.read_count, view)
        return view

    def group(self, name: str, now_ms: int) -> GroupNow | None:
        """One group with its past, as of the last look; None: there is none, and nothing is known of one."""
        follower = self._follower
        known, each, past = follower.known, follower.present.get(name), follower.reading.past(name)
        if each is None and not past.records and all(fact.group != name for fact in known.facts):
            return None
        mine = [incident for incident in follower.incidents if name in incident.groups]
        snapshots = [record.read(name) for record in past.records[-_RECORDS_SHOWN:]]
        present = None
        if each is not None and each.group_type == _CONSUMER:
            present = members_present(each.members.values())
        elif each is not None and each.is_rebalancing:  # also those who are new, of whom no record knows yet
            present = members_present(each.members.values(), snapshots[-1] if snapshots else None)
        committed, behind = follower.reading.committed.get(name, {}), self._lags.of_partitions(name)
        return group_of_facts(
            name,
            known,
            document(mine, (), None)["incidents"],
            snapshots,
            now_ms=now_ms,
            state=None if each is None else each.state,
            state_since_ms=None if each is None else each.unstable_since_ms,
            members=present,
            offsets=[OffsetNow(*place, offset, behind.get(place)) for place, offset in sorted(committed.items())],
            commits=past.commits,
        )

    def _counted(self, name: str, each: Presence, value: GroupMetadataValue | None) -> _Count:
        now = each.epoch if each.group_type == _CONSUMER else None if value is None else value.generation
        if self._counts is None:
            return _Count(now, 0)
        before = self._counts.get(name, _Count(0, 0))
        if now is None:
            return before
        if before.generation is None:  # its record was older than what was read
            return _Count(now, before.rebalances + 1)
        is_new = now < before.generation  # it was deleted meanwhile
        return _Count(now, before.rebalances + (now if is_new else now - before.generation))

    def _latest(self, name: str, each: Presence) -> GroupMetadataValue | None:
        return None if each.group_type == _CONSUMER else self._follower.reading.latest(name)


class _Count(NamedTuple):
    generation: int | None
    rebalances: int


def _row(
    name: str,
    each: Presence,
    value: GroupMetadataValue | None,
    count: _Count,
    lag: _Lag | None,
    last: tuple[LastCause, str | None] | None,
    now_ms: int,
) -> Row:
    """`value` is the newest record of a classic group."""
    assigned = {} if value is None else {member.member_id: member for member in value.members}
    is_described = value is None or each.is_rebalancing
    missing: Iterable[str] = (member.name for member in each.behind) if each.is_rebalancing else ()
    joined: Iterable[str] = ()
    if each.is_rebalancing and value is not None:
        missing = (member_of(member).name for member_id, member in assigned.items() if member_id not in each.members)
        joined = (member.name for member_id, member in each.members.items() if member_id not in assigned)
    return Row(
        group=name,
        group_type=each.group_type,
        state=each.state,
        is_rebalancing=each.is_rebalancing,
        unstable_ms=None if each.unstable_since_ms is None else max(now_ms - each.unstable_since_ms, 0),
        member_count=len(each.members if is_described else assigned) if each.group_type in _DESCRIBED else None,
        generation=count.generation,
        rebalance_count=count.rebalances,
        missing=tuple(sorted(missing)),
        joined=tuple(sorted(joined)),
        last_to_join=None if last is None else last[1],
        lag=None if lag is None else lag.total,
        lag_change=None if lag is None else lag.change,
        last_cause=None if last is None else last[0],
    )


def _badness(row: Row) -> tuple[object, ...]:
    return (
        not row.is_rebalancing,
        -(row.unstable_ms or 0) if row.is_rebalancing else 0,
        -row.rebalance_count,
        (row.lag_change or 0) <= 0,
        -(row.lag or 0),
        row.state == "Empty",
        row.group,
    )


def _last_incidents(incidents: Iterable[Incident]) -> dict[str, tuple[LastCause, str | None]]:
    found: dict[str, tuple[LastCause, str | None]] = {}
    for incident in incidents:
        cause, confidence = incident.cause, incident.confidence
        is_guess = cause is Cause.UNKNOWN and bool(incident.alternatives)
        if is_guess:
            cause, confidence = incident.alternatives[0].cause, incident.alternatives[0].confidence
        last_to_join = {effect.group: effect.last_to_join for effect in incident.effects}
        for group in incident.groups:
            found[group] = (LastCause(str(cause), confidence, is_guess, incident.to_ms), last_to_join.get(group))
    return found


class _Lag(NamedTuple):
    parts: Mapping[tuple[str, int], int]
    change: int | None

    @property
    def total(self) -> int:
        return sum(self.parts.values())


class _Lags:
    """How many records each group has still to read of the partitions whose commits were read."""

    def __init__(self, logs: BrokerLogs) -> None:
        self._logs = logs
        self._known: dict[str, _Lag | None] = {}
        """In the order in which they were measured. None: the cluster did not say where its partitions end."""

    def of_partitions(self, name: str) -> Mapping[tuple[str, int], int]:
        """The lag of a group's partitions, when it was measured last."""
        found = self._known.get(name)
        return {} if found is None else found.parts

    def measured(self, committed: Mapping[str, Mapping[tuple[str, int], int]]) -> Mapping[str, _Lag]:
        """The lag of each group that has committed. Raises SourceError."""
        before = {name: lag for name, lag in self._known.items() if committed.get(name)}
        turn = [name for name in committed if committed[name] and name not in before] + list(before)
        wanted: dict[tuple[str, int], None] = {}
        for place, name in enumerate(turn):
            if wanted and len(wanted) + len(committed[name]) > PARTITIONS_OF_A_LOOK:
                del turn[place:]
                break
            wanted |= dict.fromkeys(committed[name])
        ends = self._logs.ends(wanted) if wanted else {}
        for name in turn:
            old = before.pop(name, None)
            parts = {each: max(ends[each] - offset, 0) for each, offset in committed[name].items() if each in ends}
            change = None if old is None else sum(parts.values()) - old.total
            before[name] = _Lag(parts, change) if parts else None
        self._known = before
        return {name: lag for name, lag in before.items() if lag is not None}
