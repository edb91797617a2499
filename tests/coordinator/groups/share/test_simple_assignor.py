"""The `simple` assignor: even shares, and as little movement as they allow."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kshim.coordinator.groups.consumer.assignors.subscribers import Subscriber, Target
from kshim.coordinator.groups.share.simple_assignor import assign_simply

T, U = b"t" * 16, b"u" * 16


def subscribers(target: Target, *, topics: frozenset[bytes]) -> dict[str, Subscriber]:
    return {member_id: Subscriber(topics, assigned) for member_id, assigned in target.items()}


def test_shares_are_those_of_a_live_kafka() -> None:
    alone = assign_simply({"a": Subscriber(frozenset({T}))}, {T: {0, 1, 2}})
    assert {member_id: len(found) for member_id, found in alone.items()} == {"a": 3}
    two = {**subscribers(alone, topics=frozenset({T})), "b": Subscriber(frozenset({T}))}
    assert {member_id: len(found) for member_id, found in assign_simply(two, {T: {0, 1, 2}}).items()} == {
        "a": 2,
        "b": 1,
    }


def test_partitions_without_state_and_topics_nobody_wants_are_given_to_nobody() -> None:
    assert assign_simply({"a": Subscriber(frozenset({T, U}))}, {T: {1}}) == {"a": frozenset({(T, 1)})}
    assert assign_simply({"a": Subscriber(frozenset())}, {T: {1}}) == {"a": frozenset()}


def test_what_a_member_has_of_a_topic_that_nobody_wants_any_more_stays_while_others_want_another() -> None:
    members = {"a": Subscriber(frozenset(), frozenset({(U, 0)})), "b": Subscriber(frozenset({T}))}
    assert assign_simply(members, {T: {0}, U: {0}}) == {"a": frozenset({(U, 0)}), "b": frozenset({(T, 0)})}


def test_who_gets_which_of_five_partitions_follows_a_table_with_room_for_nine() -> None:
    topic_id = b"hsreltpusctapirh"
    found = assign_simply(
        {name: Subscriber(frozenset({topic_id})) for name in ("m0", "m1", "m2")}, {topic_id: range(5)}
    )
    shares = {name: sorted(index for _, index in places) for name, places in found.items()}
    assert shares == {"m0": [0, 2], "m1": [1, 4], "m2": [3]}


counts = st.integers(min_value=1, max_value=12)


@given(counts, st.lists(counts, min_size=1, max_size=6))
def test_shares_are_even_and_every_partition_is_read_however_members_come_and_go(
    partition_count: int, sizes: list[int]
) -> None:
    assignable = {T: range(partition_count)}
    target: Target = {}
    for size in sizes:
        names = [f"m{number}" for number in range(size)]
        before = {name: target.get(name, frozenset()) for name in names}
        target = assign_simply(subscribers(before, topics=frozenset({T})), assignable)
        shares = sorted(len(found) for found in target.values())
        assert shares[-1] - shares[0] <= 1
        readers = [sum((T, index) in found for found in target.values()) for index in range(partition_count)]
        assert min(readers) >= 1
        again = assign_simply(subscribers(target, topics=frozenset({T})), assignable)
        assert again == target


@given(st.lists(st.sampled_from([frozenset({T}), frozenset({U}), frozenset({T, U})]), min_size=1, max_size=8))
def test_members_get_only_what_they_want_and_every_wanted_partition_is_read(wishes: list[frozenset[bytes]]) -> None:
    members = {f"m{number}": Subscriber(wish) for number, wish in enumerate(wishes)}
    target = assign_simply(members, {T: range(5), U: range(2)})
    for member_id, found in target.items():
        assert {topic for topic, _ in found} <= members[member_id].topics
    for topic, count in ((T, 5), (U, 2)):
        if any(topic in wish for wish in wishes):
            assert {place for found in target.values() for place in found if place[0] == topic} == {
                (topic, index) for index in range(count)
            }


def test_a_step_of_one_member_moves_few_partitions() -> None:
    target: Target = {}
    for size in range(1, 7):
        before = {f"m{number}": target.get(f"m{number}", frozenset()) for number in range(size)}
        target = assign_simply(subscribers(before, topics=frozenset({T})), {T: range(12)})
    sizes = [len(found) for found in target.values()]
    assert all(abs(one - other) <= 1 for one, other in pairwise(sizes))


def of_t(*indexes: int) -> frozenset[tuple[bytes, int]]:
    return frozenset((T, index) for index in indexes)


def test_a_member_that_has_a_partition_already_is_given_another_one() -> None:
    members = subscribers({"a": of_t(0), "b": of_t(), "c": of_t()}, topics=frozenset({T}))
    assert assign_simply(members, {T: {0, 1}}) == {"a": of_t(0, 1), "b": of_t(0), "c": of_t(1)}


def test_of_two_that_have_a_partition_the_one_with_more_than_its_share_gives_it_up() -> None:
    members = subscribers({"a": of_t(0), "b": of_t(0, 1)}, topics=frozenset({T}))
    assert assign_simply(members, {T: {0, 1}}) == {"a": of_t(0), "b": of_t(1)}


def test_members_with_different_wishes_keep_what_they_have() -> None:
    members = {
        "a": Subscriber(frozenset({T, U}), of_t(1) | {(U, 0)}),
        "b": Subscriber(frozenset({T}), of_t(0)),
    }
    assert assign_simply(members, {T: {0, 1}, U: {0}}) == {"a": of_t(1) | {(U, 0)}, "b": of_t(0)}


def test_members_that_want_the_same_topics_share_all_their_partitions_together() -> None:
    members = {name: Subscriber(frozenset({T, U})) for name in "ab"}
    # In Kafka's table the partition that came last is the first of two with the same hash.
    assert assign_simply(members, {T: {0}, U: {0}}) == {"a": frozenset({(U, 0)}), "b": of_t(0)}


def test_members_without_anything_are_given_partitions_in_turn() -> None:
    members = {name: Subscriber(frozenset({T})) for name in "ab"}
    assert assign_simply(members, {T: range(4)}) == {"a": of_t(0, 2), "b": of_t(1, 3)}
