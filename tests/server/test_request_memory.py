"""One bound for the input of all connections that waits."""

from __future__ import annotations

from kshim.server.limits import READ_BYTES
from kshim.server.request_memory import RequestMemory


class Holder:
    def __init__(self, total: RequestMemory) -> None:
        self.request_memory_bytes = 0
        self.resumed = 0
        self._total = total

    def resume_reading(self) -> None:
        self.resumed += 1

    def holds(self, held_bytes: int) -> bool:
        """Whether it may have more."""
        self._total.hold(self, held_bytes)
        return self._total.may_grow(self)


def test_below_the_bound_everybody_may_grow() -> None:
    total = RequestMemory(100)
    first, second = Holder(total), Holder(total)
    assert first.holds(60)
    assert second.holds(39)
    assert total.total_bytes == 99
    assert not total.has_line


def test_over_the_bound_one_goes_on_and_the_others_stand_in_line() -> None:
    total = RequestMemory(100)
    first, second, third = (Holder(total) for _ in range(3))
    assert first.holds(100)
    assert not second.holds(1)
    assert not third.holds(1)
    assert first.holds(200)
    assert first.holds(300)
    assert total.total_bytes == 302
    assert total.has_line


def test_who_has_finished_lets_the_next_one_go_on() -> None:
    total = RequestMemory(100)
    first, second, third = (Holder(total) for _ in range(3))
    first.holds(50)
    second.holds(60)
    assert not first.holds(50)
    assert not third.holds(50)
    total.hold(second, 0)
    # 100 bytes are held still, so only the first in line may go on, over the bound.
    assert (first.resumed, third.resumed) == (1, 0)
    assert first.holds(70)
    total.hold(first, 0)
    assert third.resumed == 1
    assert third.holds(50)


def test_as_many_are_let_in_as_one_read_of_each_has_room_and_one_more_that_may_go_on() -> None:
    total = RequestMemory(10 * READ_BYTES)
    large, *small = (Holder(total) for _ in range(5))
    large.holds(10 * READ_BYTES)
    for holder in small:
        assert not holder.holds(1)
    total.hold(large, 8 * READ_BYTES)
    assert [holder.resumed for holder in small] == [1, 1, 1, 0]


def test_one_that_leaves_the_line_is_not_let_in() -> None:
    total = RequestMemory(100)
    first, second = Holder(total), Holder(total)
    first.holds(100)
    second.holds(10)
    total.hold(second, 0)
    total.hold(first, 0)
    assert second.resumed == 0
    assert total.total_bytes == 0


def test_who_stands_in_line_keeps_his_place() -> None:
    total = RequestMemory(100)
    first, second, third = (Holder(total) for _ in range(3))
    first.holds(100)
    second.holds(1)
    third.holds(1)
    assert not second.holds(1)
    total.hold(first, 98)
    assert (second.resumed, third.resumed) == (1, 0)


def test_the_beginning_of_a_line_is_told() -> None:
    told = []
    total = RequestMemory(100)
    total.on_line = lambda: told.append(True)
    Holder(total).holds(100)
    assert told == []
    Holder(total).holds(1)
    assert told == [True]
