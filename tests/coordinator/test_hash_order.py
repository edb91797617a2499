"""The order of Java's hash tables and heaps. Beside a JVM: `integration/assignors/test_streams_like_kafka.py`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.coordinator.hash_order import (
    Heap,
    computed_hash_map_order,
    hash_map_order,
    hash_set_order,
    scala_map_order,
    text_hash,
    timeline_order,
    topic_id_partition_hash,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("Aa", 2112), ("BB", 2112), ("polygenelubricants", -(2**31)), ("😀", 1772899)],
)
def test_texts_have_javas_hash(text: str, value: int) -> None:
    assert text_hash(text) == value


def test_a_table_is_read_by_slots_and_grows_when_it_is_three_quarters_full() -> None:
    numbers = [str(number) for number in range(13)]
    assert hash_map_order(reversed(numbers[:10])) == numbers[:10]
    assert hash_map_order(["10", "0", "1"]) == ["0", "1", "10"]
    assert hash_map_order(["p", "A", "a", "1"]) == ["p", "A", "a", "1"]  # "p" is in slot 0, the others share slot 1
    assert hash_map_order(["p", "A", "a", "1", *"bcdefghij"]) == ["A", "a", *"bcdefghij", "p", "1"]  # of 32 slots


def test_a_set_that_is_made_of_twelve_at_once_has_room_for_more_than_sixteen() -> None:
    assert hash_set_order("0ABCDEFGHIJK") == list("ABCDEFGHIJK0")  # "0" is in slot 16 of 32
    assert hash_set_order("0ABCDEFGHIJ") == list("0ABCDEFGHIJ")  # in slot 0 of 16


def test_of_one_slot_the_first_that_came_is_read_first_and_where_values_are_computed_the_last() -> None:
    assert hash_map_order(["BB", "Aa", "BB"]) == ["BB", "Aa"]
    assert computed_hash_map_order(["BB", "Aa", "BB"]) == ["Aa", "BB"]
    assert timeline_order(["BB", "Aa"], most=2) == ["Aa", "BB"]


def test_a_table_of_computed_values_grows_when_it_is_asked_again() -> None:
    assert computed_hash_map_order(["a", "b"], capacity=2) == ["b", "a"]  # two slots
    assert computed_hash_map_order(["a", "b", "a"], capacity=2) == ["a", "b"]  # four


texts = st.lists(st.text(max_size=3), unique=True, max_size=40)


@given(texts)
def test_orders_hold_every_text_once(found: list[str]) -> None:
    for order in (hash_map_order(found), computed_hash_map_order(found), timeline_order(found, most=len(found))):
        assert sorted(order) == sorted(found)


@given(st.lists(st.integers(0, 5)))
def test_a_heap_gives_the_least_first(weights: list[int]) -> None:
    heap = Heap(float, weights)
    taken = []
    while heap:
        taken.append(heap.pop())
    assert taken == sorted(weights)


def test_of_equals_the_heap_of_java_gives_the_first_and_then_the_last() -> None:
    heap = Heap(lambda item: 0.0, "abcde")
    assert [heap.pop() for _ in range(5)] == ["a", "e", "d", "c", "b"]
    with pytest.raises(IndexError):
        heap.pop()


def test_a_table_of_timelines_grows_when_another_text_would_fill_more_than_three_quarters_of_it_put_again_or_new() -> (
    None
):
    texts = [f"m{number}" for number in range(8)]
    orders = {most: "".join(text[1] for text in timeline_order(texts, most=most)) for most in range(21)}
    assert {orders[most] for most in (0, 1)} == {"75420631"}  # two slots
    assert {orders[most] for most in (2, 3, 4)} == {"52074613"}  # four
    assert {orders[most] for most in (5, 6, 7, 8, 9)} == {"50274163"}  # eight
    assert {orders[most] for most in range(10, 21)} == {"05274163"}  # sixteen


def test_a_table_of_timelines_multiplies_by_the_golden_ratio_to_its_last_bit() -> None:
    """The first text of each would be in the slot before, or after, if the factor were less, or more, by one."""
    assert timeline_order(["CR]VZNM", "a"], most=2) == ["a", "CR]VZNM"]  # the last of four slots
    assert timeline_order(["ls", "CJKEVJZ"], most=90) == ["CJKEVJZ", "ls"]  # slot 32 of 128


SCALA_ORDERS = {
    3: "1 0 2",
    11: "4 3 8 7 6 1 0 2 10 9 5",
    12: "8 11 10 4 3 7 6 1 0 2 9 5",
    30: "22 8 21 16 15 14 27 10 20 3 23 7 1 29 28 2 9 11 19 18 13 17 24 4 6 26 0 12 25 5",
}
"""What scala.collection.mutable.HashMap of 2.13.18 said, asked for the TopicIdPartitions that `hash_of_key` is about."""


def hash_of_key(number: int) -> int:
    """Of the partition `number` of one of three topics."""
    high = 0x0123456789ABCDEF * (number % 3 + 1) & 0xFFFFFFFFFFFFFFFF
    topic_id = high.to_bytes(8, "big") + (77 - number % 3).to_bytes(8, "big")
    return topic_id_partition_hash(topic_id, f"topic{number % 3}", number)


def test_partitions_with_ids_have_the_hash_that_java_says() -> None:
    assert [hash_of_key(number) for number in range(3)] == [0x54CB703E, 0xDD53FAC6, 0xFB2F5CF3]


@pytest.mark.parametrize("count", SCALA_ORDERS)
def test_a_map_of_scala_is_gone_through_as_scala_does(count: int) -> None:
    assert " ".join(map(str, scala_map_order(range(count), hash_of_key))) == SCALA_ORDERS[count]
