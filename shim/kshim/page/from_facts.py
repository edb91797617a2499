"""Groups as pages show them, from what was read of a cluster: facts, and the records of its groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kshim.drawing import Picture
from kshim.explain.causes import Cause
from kshim.explain.facts import Fact, Kind, Known, Member
from kshim.explain.html import culprit
from kshim.explain.sources.group_records import GroupRecord, owners
from kshim.explain.sources.records import Snapshot
from kshim.explain.words import seconds
from kshim.page.lanes import picture
from kshim.page.values import GroupNow, MemberNow, OffsetNow, Owners, TopicPartition, Turn, Wait
from kshim.wording import counted

_BEGINS = {
    Kind.JOINED: "{who} joined",
    Kind.LEFT: "{who} left",
    Kind.EXPIRED: "the session of {who} expired",
    Kind.REMOVED: "{who} was removed, as it did not come in time",
    Kind.REPLACED: "{who} took the place of another process",
    Kind.REQUESTED: "{who} asked for a rebalance",
}
_NAMED = 3
_WHILE_OPEN = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def group_of_facts(
    name: str,
    known: Known,
    incidents: Sequence[Mapping[str, Any]],
    snapshots: Sequence[Snapshot],
    *,
    now_ms: int,
    state: str | None = None,
    state_since_ms: int | None = None,
    members: Sequence[MemberNow] | None = None,
    offsets: Sequence[OffsetNow] = (),
    commits: Mapping[TopicPartition, Sequence[int]] | None = None,
) -> GroupNow:
    """`snapshots` are its records, in order. `state` and `members` None: those of the newest record."""
    facts = [fact for fact in known.facts if fact.group == name]
    turns = list(turns_of(facts))
    if state in _WHILE_OPEN:
        began_ms = now_ms if state_since_ms is None else state_since_ms
        turns.append(Turn(len(turns) + 1, began_ms, None, None, None, None, 0, (), f"The group is {state}."))
    given = [Owners(each.ts_ms, owners(each)) for each in snapshots]
    last = snapshots[-1] if snapshots else None
    if state is None:
        state = "Unknown" if last is None else "Stable" if last.seats else "Empty"
    return GroupNow(
        name=name,
        state=state,
        now_ms=now_ms,
        generation=None if last is None else last.generation_id,
        protocol=None if last is None else last.protocol,
        members=members_of(last) if members is None else members,
        offsets=offsets,
        turns=turns,
        facts=facts,
        incidents=[each for each in incidents if name in each["groups"]],
        owners=given,
        commits=commits or {},
        sessions={seat.member_id: seat.profile.session_ms for each in snapshots for seat in each.seats},
    )


def pictures(
    known: Known, incidents: Sequence[Mapping[str, Any]], records: Mapping[str, Sequence[GroupRecord]]
) -> dict[str, Picture]:
    """The picture of each group with an incident, whose culprits come first."""
    found: dict[str, Picture] = {}
    for name in {name for incident in incidents for name in incident["groups"]}:
        mine = [each for each in incidents if name in each["groups"]]
        culprits = frozenset(client for each in mine if culprit(each) for client in each["clients"])
        snapshots = [each.read(name) for each in records.get(name, ())]
        group = group_of_facts(name, known, mine, snapshots, now_ms=known.end_ms)
        found[name] = picture(group, href=lambda _: "", culprits=culprits)
    return found


def headline(incident: Mapping[str, Any]) -> tuple[str, str | None]:
    """An incident in a row of the list: its cause, how probable that is and a sentence; and who it was, if somebody was."""
    cause, confidence, mark = incident["cause"], incident["confidence"], ""
    if cause == Cause.UNKNOWN.keyword and incident["alternatives"]:
        best = incident["alternatives"][0]
        cause, confidence, mark = best["cause"], best["confidence"], "?"
    return f"{cause}{mark}, {confidence:.0%} sure: {incident['sentence']}", culprit(incident) or None


def members_of(snapshot: Snapshot | None) -> list[MemberNow]:
    """The members that a record lists."""
    if snapshot is None:
        return []
    return [
        MemberNow(
            seat.member_id,
            seat.profile.member.name,
            seat.profile.member.host or "",
            seat.profile.member.instance_id,
            tuple(sorted(seat.partitions)),
            seat.member_id == snapshot.leader_id,
            seat.profile.session_ms,
        )
        for seat in snapshot.seats
    ]


def members_present(members: Iterable[Member], snapshot: Snapshot | None = None) -> list[MemberNow]:
    """The members that a coordinator named, with what they have in the newest record; of others it was not asked what they own."""
    known = {each.member_id: each for each in members_of(snapshot)}
    return [
        known.get(each.member_id)
        or MemberNow(each.member_id, each.name, each.host or "", each.instance_id, (), False, None)
        for each in members
    ]


def turns_of(facts: Iterable[Fact]) -> Iterator[Turn]:
    """The rebalances that were completed, in order, as far as facts tell."""
    causes: list[Fact] = []
    number = 0
    for fact in facts:
        if fact.kind in _BEGINS:
            causes.append(fact)
        elif fact.kind is Kind.EMPTIED:
            causes.clear()
        elif fact.kind is Kind.COMPLETED and fact.phases is not None:
            number += 1
            yield _turn(number, fact, causes)
            causes = []


def _turn(number: int, fact: Fact, causes: Sequence[Fact]) -> Turn:
    phases = fact.phases
    assert phases is not None
    joined_ms = fact.ts_ms - (phases.sync_ms or 0)
    began_ms = joined_ms - (phases.join_ms or 0)
    if phases.join_ms is None and causes:  # how long it took is not known: since what began it
        began_ms = min(causes[0].ts_ms, joined_ms)
    last = phases.last_to_join
    waits = [] if last is None else [Wait(last.member_id, last.name, phases.last_wait_ms or 0, is_new=False)]
    named = (("REVOKE" if phases.has_epochs else "JOIN", phases.join_ms), ("SYNC", phases.sync_ms))
    shown = [(name, duration_ms) for name, duration_ms in named if duration_ms is not None]
    parts = [
        _BEGINS[each.kind].format(who="a member" if each.member is None else each.member.name)
        for each in causes[:_NAMED]
    ]
    if len(causes) > _NAMED:
        parts.append(f"and {counted(len(causes) - _NAMED, 'event')} more")
    text = ", ".join(parts) or "what began it is not known"
    if shown:
        text += f". It took {seconds(sum(duration_ms for _, duration_ms in shown))}"
    return Turn(
        number,
        began_ms,
        joined_ms,
        fact.ts_ms,
        "completed",
        phases.generation_id,
        0,
        tuple(shown),
        f"{text}.",
        tuple(waits),
        phases.leader_id,
        phases.protocol,
        phases.has_epochs,
    )
