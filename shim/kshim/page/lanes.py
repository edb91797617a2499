"""From facts and rebalances of a group to its picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kshim.drawing import Band, Bar, BarKind, Lane, Mark, MarkKind, Picture
from kshim.explain.facts import DEFAULT_SESSION_MS, HEARTBEAT_MS, Fact, Kind, Member
from kshim.page.values import GroupNow, Owners, TopicPartition, Turn, Wait

LANES_SHOWN = 40
_COMMITS_SHOWN = 200
_LATE_MS = 200
_BELONGS = "belongs to "
_UNUSUAL = 2
"""So many times as long as the next one: the others waited for it."""

_ENDS = {
    Kind.LEFT: (MarkKind.LEFT, "left"),
    Kind.EXPIRED: (MarkKind.GONE, "its session expired"),
    Kind.REMOVED: (MarkKind.GONE, "removed, as it did not come in time"),
}
_ENDED = {MarkKind.LEFT: "left", MarkKind.GONE: "removed"}


@dataclass(slots=True)
class _Life:
    """One life of a process as a member."""

    member_id: str
    from_ms: int
    to_ms: int | None = None
    silent_ms: int | None = None
    marks: list[Mark] = field(default_factory=list)

    def is_there(self, at_ms: int) -> bool:
        return self.from_ms <= at_ms and (self.to_ms is None or at_ms < self.to_ms)


@dataclass(slots=True)
class _Row:
    """A lane to be: lives that follow each other."""

    name: str
    lives: list[_Life] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)


def picture(
    group: GroupNow,
    *,
    href: Callable[[int], str],
    from_ms: int | None = None,
    to_ms: int | None = None,
    chosen: int | None = None,
    culprits: frozenset[str] = frozenset(),
    lanes_shown: int = LANES_SHOWN,
    focus: tuple[int, int] | None = None,
) -> Picture:
    """All of a group between two times, or since its first event; culprits come first, then whatever stands out.

    `focus`: when the incident was that is told beside the picture.
    """
    begin_ms = from_ms if from_ms is not None else _first_ms(group)
    end_ms = group.now_ms if to_ms is None else to_ms
    rows = _rows(group, begin_ms)
    for turn in group.turns:
        _mark_turn(turn, rows, group.now_ms)
    lanes = [_member_lane(row, begin_ms, end_ms, culprits) for row in rows]
    lanes = [lane for lane in lanes if lane.bars or lane.marks]
    kept = sorted(lanes, key=_remarkable)[:lanes_shown]
    parts = sorted(_partition_lanes(group, rows, begin_ms, end_ms), key=_remarkable)
    bands = [
        Band(turn.number, turn.began_ms, turn.ended_ms, f"Rebalance {turn.number}: {turn.explanation}", href(turn.number), turn.number == chosen)
        for turn in group.turns
        if turn.began_ms <= end_ms and (turn.ended_ms is None or turn.ended_ms >= begin_ms)
    ]  # fmt: skip
    return Picture(
        begin_ms,
        end_ms,
        tuple(kept),
        tuple(parts[:lanes_shown]),
        tuple(bands),
        members_omitted=len(lanes) - len(kept),
        partitions_omitted=max(len(parts) - lanes_shown, 0),
        focus=focus,
    )


def _first_ms(group: GroupNow) -> int:
    times = [fact.ts_ms for fact in group.facts[:1]] + [turn.began_ms for turn in group.turns[:1]]
    return min(times, default=group.now_ms)


def _remarkable(lane: Lane) -> tuple[object, ...]:
    kinds = {bar.kind for bar in lane.bars}
    marks = {mark.kind for mark in lane.marks}
    return (
        not lane.is_culprit,
        not kinds & {BarKind.LATE, BarKind.UNOWNED},
        BarKind.SILENT not in kinds,
        MarkKind.FAULT not in marks,
        not marks - {MarkKind.COMMITTED},
        lane.name,
    )


# Members


def _rows(group: GroupNow, begin_ms: int) -> list[_Row]:
    rows: list[_Row] = []
    open_lives: dict[str, tuple[_Row, _Life]] = {}

    def begin(member: Member | None, member_id: str, name: str, at_ms: int) -> _Life:
        free = (row for row in rows if row.name == name and all(life.to_ms is not None for life in row.lives))
        row = next(free, None)
        if row is None:
            row = _Row(name)
            rows.append(row)
        life = _Life(member_id, at_ms)
        row.lives.append(life)
        open_lives[member_id] = row, life
        return life

    def life_of(member: Member) -> _Life:
        """Also of one that was a member before anything is known."""
        found = open_lives.get(member.member_id)
        return found[1] if found is not None else begin(member, member.member_id, member.name, begin_ms)

    for fact in group.facts:
        member = fact.member
        match fact.kind:
            case Kind.JOINED | Kind.REPLACED if member is not None:
                if fact.kind is Kind.REPLACED and fact.other_id in open_lives:
                    open_lives.pop(fact.other_id)[1].to_ms = fact.ts_ms
                kind = MarkKind.REPLACED if fact.kind is Kind.REPLACED else MarkKind.JOINED
                if member.member_id not in open_lives:
                    begin(member, member.member_id, member.name, fact.ts_ms).marks.append(Mark(kind, fact.ts_ms))
            case Kind.LEFT | Kind.EXPIRED | Kind.REMOVED if member is not None:
                life = life_of(member)
                kind, text = _ENDS[fact.kind]
                reason = f": {fact.client_reason}" if fact.client_reason else ""
                life.marks.append(Mark(kind, fact.ts_ms, text + reason))
                life.to_ms = fact.ts_ms
                if fact.kind is Kind.EXPIRED:
                    life.silent_ms = _silent_ms(fact, group)
                open_lives.pop(member.member_id, None)
            case Kind.REQUESTED if member is not None:
                life_of(member).marks.append(Mark(MarkKind.ASKED, fact.ts_ms, _asked(fact)))
            case Kind.EMPTIED:
                for _, life in open_lives.values():
                    life.to_ms = fact.ts_ms
                open_lives.clear()
            case _:
                pass
    for now in group.members:
        if now.member_id not in open_lives:
            begin(None, now.member_id, now.name, begin_ms)
    for member_id in open_lives.keys() - {now.member_id for now in group.members}:
        open_lives[member_id][1].to_ms = group.now_ms
    return rows


def _silent_ms(fact: Fact, group: GroupNow) -> int:
    """Since when nothing was heard of a member whose session expired; its session timeout before, where nothing says so."""
    if fact.activity is not None:
        return min(fact.activity.last_request_ms, fact.ts_ms)
    member_id = "" if fact.member is None else fact.member.member_id
    return fact.ts_ms - group.sessions.get(member_id, DEFAULT_SESSION_MS)


def _asked(fact: Fact) -> str:
    return "asked for a rebalance" + (
        f": {fact.client_reason or fact.reason}" if fact.client_reason or fact.reason else ""
    )


def _mark_turn(turn: Turn, rows: Iterable[_Row], now_ms: int) -> None:
    """Bars of those who waited in a rebalance, and of those for whom the others did."""
    joined_ms = turn.joined_ms
    until_ms = joined_ms if joined_ms is not None else turn.ended_ms if turn.ended_ms is not None else now_ms
    waits = {wait.member_id: wait for wait in turn.waits}
    late = _late(turn)
    first_kind = BarKind.REVOKING if turn.has_epochs else BarKind.WAITING
    for row in rows:
        for life in row.lives:
            end_ms = until_ms if life.to_ms is None else min(life.to_ms, until_ms)
            begin_ms = max(turn.began_ms, life.from_ms)
            if begin_ms > end_ms or (life.to_ms is not None and life.to_ms <= turn.began_ms):
                continue
            wait = waits.get(life.member_id)
            came_ms = begin_ms if wait is None else min(max(turn.began_ms + wait.wait_ms, begin_ms), end_ms)
            if late is not None and wait is late:
                row.bars.append(Bar(BarKind.LATE, begin_ms, came_ms, "let the others wait"))
            elif life.to_ms is not None and life.to_ms <= until_ms and life.to_ms - begin_ms >= _LATE_MS:
                row.bars.append(Bar(BarKind.LATE, begin_ms, life.to_ms, "let the others wait, and was removed or left"))
                continue
            row.bars.append(Bar(first_kind, came_ms, end_ms))
            if life.silent_ms is not None and came_ms <= life.silent_ms < end_ms:
                life.silent_ms = end_ms  # who waits for an answer has nothing to say
            if joined_ms is not None and (life.to_ms is None or life.to_ms > joined_ms):
                is_slow = life.member_id == turn.leader_id and (turn.ended_ms or now_ms) - joined_ms >= 1_000
                kind = BarKind.LATE if is_slow else BarKind.SYNCING
                text = "leads, and let the others wait for the assignment" if is_slow else ""
                row.bars.append(Bar(kind, joined_ms, turn.ended_ms, text))


def _late(turn: Turn) -> Wait | None:
    """Whom the others waited for: one that came much later than the rest, which learn of a rebalance by their heartbeats."""
    waits = sorted((wait for wait in turn.waits if not wait.is_new), key=lambda wait: -wait.wait_ms)
    usual_ms = waits[1].wait_ms if len(waits) > 1 else HEARTBEAT_MS
    return waits[0] if waits and waits[0].wait_ms > max(_UNUSUAL * usual_ms, _LATE_MS) else None


def _member_lane(row: _Row, begin_ms: int, end_ms: int, culprits: frozenset[str]) -> Lane:
    bars: list[Bar] = []
    marks: list[Mark] = []
    for life in row.lives:
        bars.append(Bar(BarKind.MEMBER, life.from_ms, life.to_ms))
        if life.silent_ms is not None:
            bars.append(Bar(BarKind.SILENT, max(life.silent_ms, life.from_ms), life.to_ms))
        marks += life.marks
    last = row.lives[-1]
    ended = _ended(last, end_ms)
    return Lane(
        row.name,
        tuple(_within([*bars, *row.bars], begin_ms, end_ms)),
        tuple(mark for mark in marks if begin_ms <= mark.at_ms <= end_ms),
        ended,
        note_ms=last.to_ms if ended else None,
        is_culprit=row.name in culprits,
    )


def _ended(life: _Life, end_ms: int) -> str:
    """How the last life of a process as a member was over; empty: it is a member, or nothing says how."""
    if life.to_ms is None or life.to_ms > end_ms:
        return ""
    return next((_ENDED[mark.kind] for mark in life.marks if mark.at_ms == life.to_ms and mark.kind in _ENDED), "")


def _within(bars: Iterable[Bar], begin_ms: int, end_ms: int) -> Iterator[Bar]:
    """Those between two times, cut at both."""
    for bar in bars:
        if bar.from_ms <= end_ms and (bar.to_ms is None or bar.to_ms >= begin_ms):
            until_ms = bar.to_ms if bar.to_ms is None else min(bar.to_ms, end_ms)
            yield bar._replace(from_ms=max(bar.from_ms, begin_ms), to_ms=until_ms)


# Partitions


def _partition_lanes(group: GroupNow, rows: Sequence[_Row], begin_ms: int, end_ms: int) -> Iterator[Lane]:
    names = {life.member_id: row.name for row in rows for life in row.lives}
    lives = {life.member_id: life for row in rows for life in row.lives}
    offsets = {(each.topic, each.partition): each for each in group.offsets}
    places = {place for owners in group.owners for place in owners.by_partition} | offsets.keys()
    places |= {place for member in group.members for place in member.partitions}
    history = _history(group)
    for place in sorted(places):
        spans = list(_ownership(place, history, names, lives, group.now_ms))
        bars = sorted([*spans, *_pauses(place, group, history)], key=lambda bar: bar.kind is BarKind.UNOWNED)
        marks = [Mark(MarkKind.COMMITTED, at_ms) for at_ms in group.commits.get(place, ())[-_COMMITS_SHOWN:]]
        offset = offsets.get(place)
        yield Lane(
            f"{place[0]}-{place[1]}",
            tuple(_within(bars, begin_ms, end_ms)),
            tuple(mark for mark in marks if begin_ms <= mark.at_ms <= end_ms),
            "" if offset is None or offset.lag is None else f"lag {offset.lag:,}",
            owner=_owner_at(spans, end_ms),
        )


def _history(group: GroupNow) -> list[Owners]:
    """Who had what, in order, at last what members have now."""
    now = {place: member.member_id for member in group.members for place in member.partitions}
    history = list(group.owners)
    if not any(turn.is_open for turn in group.turns) and (not history or dict(history[-1].by_partition) != now):
        last = max((turn.ended_ms or 0 for turn in group.turns), default=0) or _first_ms(group)
        history.append(Owners(max(last, history[-1].at_ms if history else 0), now))
    return history


def _ownership(
    place: TopicPartition, history: Sequence[Owners], names: dict[str, str], lives: dict[str, _Life], now_ms: int
) -> Iterator[Bar]:
    """By each owner in turn; without one since the last sign of an owner that was gone."""
    spans: list[Bar] = []
    unowned_ms: int | None = None
    for owners, following in pairwise([*history, Owners(now_ms, {})]):
        owner = owners.by_partition.get(place)
        is_last = following is not history[-1] and owners is history[-1]
        if owner is None:
            continue
        if unowned_ms is not None:
            if owners.at_ms > unowned_ms:
                spans.append(Bar(BarKind.UNOWNED, unowned_ms, owners.at_ms))
            unowned_ms = None
        life = lives.get(owner)
        name = names.get(owner, owner)
        gone_ms = None
        if life is not None and life.to_ms is not None and life.to_ms <= following.at_ms:
            gone_ms = life.to_ms if life.silent_ms is None else life.silent_ms
        if gone_ms is None and not is_last and following.by_partition.get(place) is None:
            gone_ms = following.at_ms
        end_ms = (None if is_last else following.at_ms) if gone_ms is None else max(gone_ms, owners.at_ms)
        if (
            spans
            and spans[-1].kind is BarKind.OWNED
            and spans[-1].to_ms == owners.at_ms
            and spans[-1].text == f"{_BELONGS}{name}"
        ):
            spans[-1] = spans[-1]._replace(to_ms=end_ms)
        else:
            spans.append(Bar(BarKind.OWNED, owners.at_ms, end_ms, f"{_BELONGS}{name}"))
        unowned_ms = end_ms if gone_ms is not None else None
    if unowned_ms is not None:
        spans.append(Bar(BarKind.UNOWNED, unowned_ms, None))
    return iter(spans)


def _owner_at(spans: Sequence[Bar], at_ms: int) -> str:
    """Who has a partition at a time."""
    last = next((span for span in reversed(spans) if span.from_ms <= at_ms), None)
    if last is None:
        return ""
    return last.text.removeprefix(_BELONGS) if last.kind is BarKind.OWNED else "no owner"


def _pauses(place: TopicPartition, group: GroupNow, history: Sequence[Owners]) -> Iterator[Bar]:
    """Classic members give up everything while they rebalance, unless their assignor is a cooperative one."""
    first_ms = next((owners.at_ms for owners in history if place in owners.by_partition), None)
    for turn in group.turns:
        is_stopping = not turn.has_epochs and "cooperative" not in (turn.protocol or "")
        if is_stopping and first_ms is not None and turn.began_ms >= first_ms:
            yield Bar(BarKind.PAUSED, turn.began_ms, turn.ended_ms)
