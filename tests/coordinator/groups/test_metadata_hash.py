"""The hash by which a group notices that its topics have changed. Expected values are from the records of a live 4.4."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.metadata_hash import NO_TOPICS, TopicHashes, group_hash, topic_hash
from tests.coordinator.groups.consumer.members import Topics

LONG = "a" * 249
TOPICS = {
    "t1": ("793196735024460bb7bec5f9a4cd6933", 1),
    "t3": ("2e06ab786dac4e66bf943345a903ffea", 3),
    "t40": ("5dec6f26db06488084df018f15fb8b21", 40),
    "t100": ("abf345e9266a436ba3c04b667049486c", 100),
    LONG: ("87f44e958892444ab62033d7ad2f6ee5", 7),
}


RACKS = {
    "t1": ("95e05af6c7ab447ca84e4b0018fe69d6", 1),
    "t3": ("7167b93328b04cf390212a890709e475", 3),
    "t40": ("3bc53281a3994ee08098eb4b2f97c801", 40),
}
"""Topics of a broker with broker.rack=r-1."""


def hash_of(*names: str) -> int:
    return group_hash({name: topic_hash(bytes.fromhex(TOPICS[name][0]), name, TOPICS[name][1]) for name in names})


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("t1",), 847189370619444650),
        (("t3",), -150938046062954826),
        (("t40",), -938387883153395358),
        (("t100",), -8708510417041416667),
        ((LONG,), -3976929280321257942),
        (("t3", "t1", "t40", "t100", LONG), 8904789784869772847),
        (("t1", "t3"), 800172569464346606),
    ],
)
def test_the_hash_is_the_one_in_kafkas_records(names: tuple[str, ...], expected: int) -> None:
    assert hash_of(*names) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("t1",), -649756662220503006),
        (("t3",), -3815540221468276069),
        (("t40",), 3887937123561755261),
        (("t3", "t1", "t40"), -5110376730881186799),
    ],
)
def test_racks_of_replicas_are_part_of_the_hash_as_in_kafkas_records(names: tuple[str, ...], expected: int) -> None:
    hashes = {}
    for name in names:
        topic_id, count = RACKS[name]
        hashes[name] = topic_hash(bytes.fromhex(topic_id), name, count, "r-1")
    assert group_hash(hashes) == expected


def test_the_order_of_the_topics_does_not_matter() -> None:
    assert hash_of("t3", "t1") == hash_of("t1", "t3")


def test_a_group_whose_topics_do_not_exist_has_none() -> None:
    assert TopicHashes(Topics()).of_group(["nope"]) == NO_TOPICS


def test_topics_that_do_not_exist_do_not_count() -> None:
    hashes = TopicHashes(Topics(orders=3))
    assert hashes.of_group(["orders", "nope"]) == hashes.of_group(["orders"]) != NO_TOPICS


def test_more_partitions_change_the_hash() -> None:
    topics = Topics(orders=3)
    hashes = TopicHashes(topics)
    before = hashes.of_group(["orders"])
    topic_id, _ = topics.found["orders"]
    topics.found["orders"] = topic_id, 4
    assert hashes.of_group(["orders"]) != before


def test_a_topic_that_is_deleted_and_made_again_changes_the_hash() -> None:
    topics = Topics(orders=3)
    hashes = TopicHashes(topics)
    before = hashes.of_group(["orders"])
    del topics.found["orders"]
    assert hashes.of_group(["orders"]) == NO_TOPICS
    topics.make("orders", 3)
    assert hashes.of_group(["orders"]) not in (before, NO_TOPICS)
