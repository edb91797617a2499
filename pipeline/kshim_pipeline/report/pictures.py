"""What is known of a group -> its swim lanes, as the live page draws them. No Spark here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kshim.drawing import Picture
from kshim.explain.facts import Fact, Kind, Known, Member
from kshim.explain.html import culprit
from kshim.page.from_facts import group_of_facts, members_present
from kshim.page.lanes import picture
from kshim.page.values import GroupNow, OffsetNow, Owners, TopicPartition
from kshim_pipeline.diagnosis.facts import Entry

Row = Mapping[str, Any]

_WHOLE_MOST: Final = 40
"""Of a group with more rebalances only the time around its worst incident is drawn."""
_CLOSE_UP_SHARE: Final = 12
_LEAST_MARGIN_MS: Final = 500
_GONE: Final = (Kind.LEFT, Kind.EXPIRED, Kind.REMOVED)


def picture_of(
    name: str,
    entries: Iterable[Entry],
    incidents: Sequence[Row],
    *,
    ownership: Iterable[Row] = (),
    lags: Iterable[Row] = (),
    commits: Iterable[Row] = (),
    now_ms: int,
) -> Picture:
    """A group's whole history, or the time around its worst incident. `incidents`: those of the group, the worst first.

    It ends where all members had left in good order: that nobody owns a partition from then on is no trouble.

    The other rows are those of the group in the tables ownership and commits, and of `kshim_pipeline.report.worst.lags`.
    """
    known = list(entries)
    now_ms = min(now_ms, _stopped_ms(known) or now_ms)
    group = group_of(name, known, incidents, ownership=ownership, lags=lags, commits=commits, now_ms=now_ms)
    wrong = [each for each in incidents if each["severity"] != "info" and culprit(each)]
    culprits = frozenset(client for each in wrong for client in each["clients"])
    begin_ms = end_ms = None
    if len(group.turns) > _WHOLE_MOST and incidents:
        worst = incidents[0]
        margin_ms = max((worst["to_ms"] - worst["from_ms"]) // _CLOSE_UP_SHARE, _LEAST_MARGIN_MS)
        begin_ms, end_ms = worst["from_ms"] - margin_ms, min(worst["to_ms"] + margin_ms, now_ms)
    return picture(group, href=lambda _: "", from_ms=begin_ms, to_ms=end_ms, culprits=culprits)


def group_of(
    name: str,
    entries: Iterable[Entry],
    incidents: Sequence[Row],
    *,
    ownership: Iterable[Row],
    lags: Iterable[Row],
    commits: Iterable[Row],
    now_ms: int,
) -> GroupNow:
    """The group as a page shows it."""
    known = list(entries)
    facts = _facts(known)
    profiles = {each.profile.member.member_id: each.profile for each in known if each.profile is not None}
    intervals = sorted(ownership, key=lambda row: row["from_ts_ms"])
    owners = _owners(intervals, facts)
    now = owners[-1].by_partition if owners else {}
    partitions: dict[str, list[TopicPartition]] = {}
    for place, member_id in now.items():
        partitions.setdefault(member_id, []).append(place)
    members = [
        each._replace(partitions=tuple(sorted(partitions.get(each.member_id, ()))))
        for each in members_present(_still_there(facts))
    ]
    times: dict[TopicPartition, list[int]] = {}
    for row in sorted(commits, key=lambda row: row["ts_ms"]):
        times.setdefault((row["topic"], row["partition"]), []).append(row["ts_ms"])
    group = group_of_facts(
        name,
        Known(tuple(facts), profiles, (), now_ms),
        incidents,
        (),
        now_ms=now_ms,
        members=members,
        offsets=[OffsetNow(row["topic"], row["partition"], row["committed_offset"], row["lag"]) for row in lags],
        commits=times,
    )
    sessions = {member_id: profile.session_ms for member_id, profile in profiles.items()}
    return group._replace(owners=owners, sessions=sessions)


def _facts(entries: Iterable[Entry]) -> list[Fact]:
    return sorted((each.fact for each in entries if each.fact is not None), key=lambda fact: fact.ts_ms)


def _stopped_ms(entries: Iterable[Entry]) -> int | None:
    """When the last member left; None: some are there, or the last one was lost."""
    facts = _facts(entries)
    ends = [fact for fact in facts if fact.kind in _GONE]
    return facts[-1].ts_ms if ends and ends[-1].kind is Kind.LEFT and not _still_there(facts) else None


def _still_there(facts: Iterable[Fact]) -> list[Member]:
    there: dict[str, Member] = {}
    for fact in facts:
        if fact.kind is Kind.EMPTIED:
            there.clear()
        elif fact.member is not None and fact.kind in _GONE:
            there.pop(fact.member.member_id, None)
        elif fact.member is not None and fact.kind in (Kind.JOINED, Kind.REPLACED):
            there.pop(fact.other_id or "", None)
            there[fact.member.member_id] = fact.member
    return list(there.values())


def _owners(intervals: Sequence[Row], facts: Sequence[Fact]) -> list[Owners]:
    """Who had what, by member id, each time when that changed. A static member has another id after a restart."""
    lives: dict[str, list[tuple[int, str]]] = {}
    for fact in facts:
        if fact.member is not None and fact.member.instance_id and fact.kind in (Kind.JOINED, Kind.REPLACED):
            lives.setdefault(fact.member.instance_id, []).append((fact.ts_ms, fact.member.member_id))
    times = {row["from_ts_ms"] for row in intervals} | {row["to_ts_ms"] for row in intervals if row["to_ts_ms"]}
    if times:
        first_ms = min(times)
        times |= {fact.ts_ms for fact in facts if fact.kind is Kind.REPLACED and fact.ts_ms > first_ms}

    def owner(row: Row, at_ms: int) -> str:
        ids = [member_id for ts_ms, member_id in lives.get(row["owner"], ()) if ts_ms <= at_ms]
        return ids[-1] if ids else str(row["member_id"] or row["owner"])

    found: list[Owners] = []
    held: dict[TopicPartition, Row] = {}
    coming = deque(intervals)
    for at_ms in sorted(times):
        held = {place: row for place, row in held.items() if row["to_ts_ms"] is None or row["to_ts_ms"] > at_ms}
        while coming and coming[0]["from_ts_ms"] <= at_ms:
            row = coming.popleft()
            if row["to_ts_ms"] is None or row["to_ts_ms"] > at_ms:
                held[row["topic"], row["partition"]] = row
        found.append(Owners(at_ms, {place: owner(row, at_ms) for place, row in held.items()}))
    return found
