"""The assignors of the server, by what holds for any group."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshim.coordinator.groups.consumer.assignors.range import assign_ranges
from kshim.coordinator.groups.consumer.assignors.subscribers import (
    Assignor,
    PartitionCounts,
    Subscriber,
    Target,
    TopicPartition,
    partitions_of,
)
from kshim.coordinator.groups.consumer.assignors.uniform import assign_uniformly

TOPICS = tuple(bytes([number]) * 16 for number in range(1, 5))
ASSIGNORS = (assign_uniformly, assign_ranges)
over_assignors = pytest.mark.parametrize("assign", ASSIGNORS)

Members = dict[str, Subscriber]

counts_of_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9))
some_topics = st.frozensets(st.sampled_from(TOPICS))
names = st.sampled_from([f"m{number}" for number in range(7)])


@st.composite
def groups(draw: st.DrawFn, *, same_topics: bool | None = None) -> tuple[Members, PartitionCounts]:
    """Members with a target of before, in which nothing is owned twice but perhaps topics that are gone."""
    counts = draw(counts_of_topics)
    same = draw(st.booleans()) if same_topics is None else same_topics
    common = draw(some_topics)
    members = {name: common if same else draw(some_topics) for name in sorted(draw(st.sets(names, min_size=1)))}
    before: dict[str, set[TopicPartition]] = {name: set() for name in members}
    for topic in TOPICS:
        for index in range(draw(st.integers(0, 9))):
            owner = draw(st.sampled_from([None, *members]))
            if owner is not None:
                before[owner].add((topic, index))
    return {
        name: Subscriber(topics, frozenset(before[name]), draw(st.sampled_from([None, f"i-{name}"])))
        for name, topics in members.items()
    }, counts


def with_target(members: Members, target: Target) -> Members:
    return {name: member._replace(assigned=target[name]) for name, member in members.items()}


@over_assignors
@given(group=groups())
def test_every_partition_goes_to_exactly_one_of_its_subscribers(
    assign: Assignor, group: tuple[Members, PartitionCounts]
) -> None:
    members, counts = group
    target = assign(members, counts)
    assert target.keys() == members.keys()
    given_out = [partition for partitions in target.values() for partition in partitions]
    subscribed = {topic for member in members.values() for topic in member.topics}
    assert sorted(given_out) == partitions_of(subscribed, counts)
    for name, partitions in target.items():
        assert {topic for topic, _ in partitions} <= members[name].topics


@over_assignors
@given(group=groups())
def test_asked_again_an_assignor_moves_nothing(assign: Assignor, group: tuple[Members, PartitionCounts]) -> None:
    members, counts = group
    target = assign(members, counts)
    assert assign(with_target(members, target), counts) == target


@over_assignors
@given(group=groups())
def test_the_order_of_the_members_does_not_matter(assign: Assignor, group: tuple[Members, PartitionCounts]) -> None:
    members, counts = group
    assert assign(dict(reversed(members.items())), counts) == assign(members, counts)


@given(group=groups(same_topics=True))
def test_uniform_gives_members_of_equal_subscriptions_equally_many(group: tuple[Members, PartitionCounts]) -> None:
    sizes = [len(partitions) for partitions in assign_uniformly(*group).values()]
    assert max(sizes) - min(sizes) <= 1


@given(group=groups(same_topics=True))
def test_uniform_moves_no_more_than_balance_needs(group: tuple[Members, PartitionCounts]) -> None:
    members, counts = group
    target = assign_uniformly(members, counts)
    topics = next(iter(members.values())).topics
    partitions = set(partitions_of(topics, counts))
    size, larger_count = divmod(len(partitions), len(members))
    had = sorted((len(member.assigned & partitions) for member in members.values()), reverse=True)
    most_kept = sum(min(had_count, size + (place < larger_count)) for place, had_count in enumerate(had))
    assert sum(len(target[name] & member.assigned) for name, member in members.items()) == most_kept


@settings(max_examples=300)
@given(group=groups(same_topics=False))
def test_uniform_leaves_no_move_that_would_make_two_members_more_equal(
    group: tuple[Members, PartitionCounts],
) -> None:
    members, counts = group
    target = assign_uniformly(members, counts)
    for giver, partitions in target.items():
        for topic in {topic for topic, _ in partitions}:
            for taker, member in members.items():
                assert topic not in member.topics or len(target[taker]) + 2 > len(partitions), (giver, taker)


@settings(max_examples=300)
@given(group=groups(same_topics=False))
def test_uniform_leaves_no_chain_of_moves_that_would_make_two_members_more_equal(
    group: tuple[Members, PartitionCounts],
) -> None:
    members, counts = group
    target = assign_uniformly(members, counts)
    for first in target:
        reached, waiting = {first}, [first]
        while waiting:
            topics = {topic for topic, _ in target[waiting.pop()]}
            found = {name for name, member in members.items() if member.topics & topics} - reached
            reached |= found
            waiting += found
        assert min(len(target[name]) for name in reached) + 2 > len(target[first])


def test_uniform_passes_partitions_on_to_a_member_that_the_largest_shares_no_topic_with() -> None:
    one, two, three = TOPICS[:3]
    members = {
        "a": Subscriber(frozenset({one}), frozenset((one, index) for index in range(6))),
        "b": Subscriber(frozenset({one, two}), frozenset((two, index) for index in range(5))),
        "c": Subscriber(frozenset({two, three}), frozenset((three, index) for index in range(4))),
    }
    target = assign_uniformly(members, {one: 6, two: 5, three: 4})
    assert {name: len(partitions) for name, partitions in target.items()} == {"a": 5, "b": 5, "c": 5}


def test_uniform_gives_what_is_free_to_the_smallest_subscriber_so_that_nothing_else_moves() -> None:
    one, two = TOPICS[:2]
    members = {
        "a": Subscriber(frozenset({one}), frozenset({(one, 0), (one, 1)})),
        "b": Subscriber(frozenset({one, two})),
    }
    assert assign_uniformly(members, {one: 3}) == {"a": {(one, 0), (one, 1)}, "b": {(one, 2)}}


@given(group=groups())
def test_ranges_have_no_gaps_and_differ_by_one_at_most(group: tuple[Members, PartitionCounts]) -> None:
    members, counts = group
    target = assign_ranges(members, counts)
    for topic, count in counts.items():
        sizes = []
        for name, member in members.items():
            found = sorted(index for assigned, index in target[name] if assigned == topic)
            assert found == list(range(found[0], found[0] + len(found))) if found else True
            if topic in member.topics:
                sizes.append(len(found))
        assert not sizes or (max(sizes) - min(sizes) <= 1 and sum(sizes) == count)


@given(group=groups(same_topics=True), count=st.integers(1, 9))
def test_of_equally_partitioned_topics_ranges_give_equal_numbers_to_a_member(
    group: tuple[Members, PartitionCounts], count: int
) -> None:
    members, _ = group
    target = assign_ranges(members, dict.fromkeys(TOPICS, count))
    for name, member in members.items():
        numbers = {topic: {index for found, index in target[name] if found == topic} for topic in member.topics}
        assert len({frozenset(found) for found in numbers.values()}) <= 1


def test_a_static_member_keeps_its_range_under_a_new_member_id() -> None:
    topics = frozenset(TOPICS[:1])
    before = {"zzz": Subscriber(topics, instance_id="first"), "b": Subscriber(topics)}
    after = {"aaa": Subscriber(topics, instance_id="first"), "b": Subscriber(topics)}
    counts = {TOPICS[0]: 5}
    assert (
        assign_ranges(before, counts)["zzz"]
        == assign_ranges(after, counts)["aaa"]
        == {(TOPICS[0], n) for n in (0, 1, 2)}
    )
