"""What an incident did to a group: rebalances, how long they took, and how long partitions had no owner."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kshim.explain.disturbances import Disturbance, What
from kshim.explain.facts import SHARE, Fact, Kind, Moved
from kshim.explain.lives import Group


class MovedTask(NamedTuple):
    """A task that had no living owner for a time: from which client it went to which, and whether that had kept its state."""

    task: str
    from_client: str
    to_client: str
    unowned_ms: int
    had_state: bool


class Effect(NamedTuple):
    """In one group. `None`: the source does not contain it. `join_ms` and `sync_ms` are the longest."""

    group: str
    rebalance_count: int
    join_ms: int | None
    sync_ms: int | None
    last_to_join: str | None
    last_wait_ms: int | None
    unowned_ms: int | None
    """From the time when a departed member was last heard of to the assignment of its partitions to others."""
    is_observed: bool
    has_epochs: bool = False
    """A group of the new protocol, whose phase revoke takes the place of JOIN in these fields."""
    group_type: str | None = None
    """As the broker says it; None: the source does not contain it."""
    moved: tuple[MovedTask, ...] = ()
    """Its active tasks that nobody ran for a time, the longest first."""


def effect_object(effect: Effect) -> dict[str, Any]:
    """As in the document."""
    return {**effect._asdict(), "moved": [each._asdict() for each in effect.moved]}


def effect_of(row: Mapping[str, Any]) -> Effect:
    """Of an element of the document, which may be older, or of a table that lacks some fields."""
    moved = tuple(MovedTask(**each) for each in row.get("moved") or ())
    return Effect(**{**row, "moved": moved})


def effects(explained: Iterable[Disturbance], groups: Mapping[str, Group]) -> Iterator[Effect]:
    """One for each group with a rebalance in that time, or just after it."""
    by_group: dict[str, list[Disturbance]] = {}
    for each in explained:
        if each.fact.records is not None or each.what is What.NOT_ADMITTED:
            continue  # nobody waits for these
        by_group.setdefault(each.group, []).append(each)
    for name, mine in by_group.items():
        group = groups[name]
        last = bisect_left(group.completed_ms, max(each.to_ms for each in mine))
        first = min(bisect_left(group.completed_ms, min(each.fact.ts_ms for each in mine)), last)
        if rebalances := group.completed[first : last + 1]:
            yield _effect(group, mine, rebalances)


def _effect(group: Group, mine: list[Disturbance], rebalances: list[Fact]) -> Effect:
    phases = [fact.phases for fact in rebalances if fact.phases is not None]
    group_type = next((each.group_type for each in phases if each.group_type is not None), None)
    slowest = max(phases, key=lambda each: each.last_wait_ms or 0, default=None)
    if any(each.fact.kind is Kind.REMOVED for each in mine):
        slowest = None  # the others waited for one that did not join
    silent = {
        each.member.member_id: each.fact.ts_ms - each.from_ms
        for each in mine
        if each.what is What.DEPARTED and each.member is not None
    }
    moved = [_way(each, group, silent.get(each.from_member_id, 0)) for phase in phases for each in phase.moved]
    unowned = [
        end_ms - each.from_ms
        for each in mine
        if each.what is What.DEPARTED
        and group_type != SHARE  # whose partitions have other readers
        and (end_ms := _completed_ms(group, each.fact.ts_ms)) is not None
    ]
    return Effect(
        group=group.name,
        rebalance_count=len(rebalances),
        join_ms=max((each.join_ms for each in phases if each.join_ms is not None), default=None),
        sync_ms=max((each.sync_ms for each in phases if each.sync_ms is not None), default=None),
        last_to_join=slowest.last_to_join.name if slowest is not None and slowest.last_to_join is not None else None,
        last_wait_ms=None if slowest is None else slowest.last_wait_ms,
        unowned_ms=max([*unowned, *(each.unowned_ms for each in phases if each.unowned_ms)], default=None),
        is_observed=all(fact.is_observed for fact in rebalances) and all(each.is_last_observed for each in phases),
        has_epochs=any(each.has_epochs for each in phases),
        group_type=group_type,
        moved=tuple(sorted(moved, key=lambda each: -each.unowned_ms)),
    )


def _completed_ms(group: Group, since_ms: int) -> int | None:
    """When the first rebalance was completed since then; None: none was."""
    place = bisect_left(group.completed_ms, since_ms)
    return group.completed_ms[place] if place < len(group.completed_ms) else None


def _way(moved: Moved, group: Group, silent_ms: int) -> MovedTask:
    """Where a task went, from a member that had been silent for so long when it was gone."""
    from_life, to_life = map(group.life_with, (moved.from_member_id, moved.to_member_id))
    return MovedTask(
        task=moved.task,
        from_client=moved.from_member_id if from_life is None else from_life.member.name,
        to_client=moved.to_member_id if to_life is None else to_life.member.name,
        unowned_ms=silent_ms + moved.unowned_ms,
        had_state=moved.had_state,
    )
