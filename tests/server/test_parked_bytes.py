"""One bound for the input of all connections that waits."""

from __future__ import annotations

from kshim.server.parked_bytes import ParkedBytes


class Holder:
    def __init__(self) -> None:
        self.parked_bytes = 0
        self.resumed_with: list[int] = []

    def resume_reading(self) -> None:
        self.resumed_with.append(self.parked_bytes)


def test_there_is_room_while_anything_is_free_whatever_is_asked_for() -> None:
    total = ParkedBytes(100)
    small, large, late = Holder(), Holder(), Holder()
    assert total.charge(small, 99)
    assert total.charge(large, 1_000)
    assert not total.charge(late, 1)
    assert total.total_bytes == 1_099


def test_those_in_line_are_let_in_in_order_as_room_comes_free() -> None:
    total = ParkedBytes(100)
    first, second, third = Holder(), Holder(), Holder()
    total.charge(first, 100)
    total.charge(second, 150)
    total.charge(third, 10)
    total.charge(first, 0)
    assert second.resumed_with == [150]
    assert third.resumed_with == []
    total.charge(second, 0)
    assert third.resumed_with == [10]
    assert total.total_bytes == 10


def test_one_that_leaves_the_line_is_not_let_in() -> None:
    total = ParkedBytes(100)
    first, second = Holder(), Holder()
    total.charge(first, 100)
    total.charge(second, 10)
    assert total.charge(second, 0)
    total.charge(first, 0)
    assert second.resumed_with == []
    assert total.total_bytes == 0


def test_growth_is_what_needs_room_and_shrinking_never_does() -> None:
    total = ParkedBytes(100)
    holder = Holder()
    assert total.charge(holder, 200)
    assert not total.charge(holder, 201)
    assert total.charge(holder, 150)
    assert total.total_bytes == 150
