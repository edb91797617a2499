"""The ring keeps the newest events, within its bounds."""

from __future__ import annotations

from kshim.history.event import HistoryEvent
from kshim.history.ring import Ring
from tests.coordinator.peers import a_group
from tests.history.told import told_of


def events() -> list[HistoryEvent]:
    return told_of(a_group().stable("a", "b", "c").events)


def filled(ring: Ring) -> Ring:
    for event in events():
        ring.append(event)
    return ring


def numbers(found: list[HistoryEvent]) -> list[int]:
    return [event.number for event in found]


def test_within_its_bounds_it_keeps_everything_from_old_to_new() -> None:
    ring = filled(Ring(max_events=100, max_bytes=1 << 20))
    assert numbers(list(ring)) == numbers(events())
    assert (len(ring), ring.dropped_count) == (len(events()), 0)
    assert ring.size_bytes == sum(event.size_bytes for event in events())


def test_beyond_a_number_of_events_the_oldest_go() -> None:
    ring = filled(Ring(max_events=3, max_bytes=1 << 20))
    assert numbers(list(ring)) == numbers(events())[-3:]
    assert ring.dropped_count == len(events()) - 3


def test_beyond_its_bytes_the_oldest_go() -> None:
    newest = sum(event.size_bytes for event in events()[-2:])
    ring = filled(Ring(max_events=100, max_bytes=newest))
    assert numbers(list(ring)) == numbers(events())[-2:]
    assert ring.size_bytes == newest


def test_it_may_keep_nothing_at_all() -> None:
    ring = filled(Ring(max_events=0, max_bytes=1 << 20))
    assert (list(ring), ring.size_bytes, ring.dropped_count) == ([], 0, len(events()))


def test_what_came_after_a_number_can_be_asked_for_group_by_group() -> None:
    ring = filled(Ring(max_events=100, max_bytes=1 << 20))
    assert numbers(ring.after(4)) == numbers(events())[4:]
    assert numbers(ring.after(4, group_id="g")) == numbers(events())[4:]
    assert ring.after(4, group_id="h") == []
    assert ring.after(len(events())) == []


def test_larger_groups_take_more_of_it() -> None:
    small, large = (told_of(a_group().stable(*names).events) for names in ("ab", "abcdefgh"))
    ends = [[event for event in found if event.type == "rebalance_completed"][-1] for found in (small, large)]
    assert ends[1].size_bytes - ends[0].size_bytes > 6 * 200
