"""What is wrong with a topology whatever topics there are. The sentences are those of a live Kafka 4.4."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.streams.topology import (
    Subtopology,
    TopicInfo,
    Topology,
    require_no_expressions,
    require_permitted_names,
    require_valid,
)
from kshim_protocol.errors import ErrorCode, KafkaError
from tests.coordinator.groups.streams.topologies import CHANGELOG, REPARTITION, word_count

INTERNAL = {"__consumer_offsets", "__transaction_state"}


def problem(name: str) -> str | None:
    return "a space" if " " in name else None


def one(subtopology: Subtopology) -> Topology:
    return Topology(0, (subtopology,))


def test_a_word_count_is_valid_and_names_its_topics_in_kafkas_order() -> None:
    topology = word_count()
    require_permitted_names(topology, INTERNAL, problem)
    require_no_expressions(topology)
    require_valid(topology)
    assert topology.named_topics() == ("lines", REPARTITION, CHANGELOG)
    assert topology.topics() == {"lines", REPARTITION, CHANGELOG}


def test_a_topic_that_is_only_written_to_is_named_but_not_among_the_topics_of_the_metadata_hash() -> None:
    topology = one(Subtopology("0", source_topics=("a",), repartition_sink_topics=("b",)))
    assert topology.named_topics() == ("a", "b")
    assert topology.topics() == {"a"}


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (
            ("__consumer_offsets",),
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        (
            ("a b", "__consumer_offsets", "__transaction_state"),
            "Use of Kafka internal topics __consumer_offsets,__transaction_state in a Kafka Streams topology is prohibited.",
        ),
        (("a b",), "Topic names a b are not valid topic names."),
        (("a b", "c", "d e", "a b"), "Topic names a b,d e are not valid topic names."),
    ],
)
def test_internal_topics_and_impossible_names_are_refused(names: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(KafkaError) as refused:
        require_permitted_names(one(Subtopology("0", source_topics=names)), INTERNAL, problem)
    assert (refused.value.code, refused.value.message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence)


def test_source_topics_cannot_be_expressions() -> None:
    with pytest.raises(KafkaError) as refused:
        require_no_expressions(one(Subtopology("0", source_topic_regex=("in.*",))))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.message == "Regular expressions for source topics are not supported yet."


def test_a_changelog_topic_cannot_have_a_number_of_partitions() -> None:
    with pytest.raises(KafkaError) as refused:
        require_valid(one(Subtopology("0", state_changelog_topics=(TopicInfo("X", 3),))))
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert refused.value.message == "Changelog topic X must have an undefined partition count, but it is set to 3."
