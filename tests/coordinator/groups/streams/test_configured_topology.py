"""Tasks, internal topics and faults of topologies. Beside Kafka's classes: `integration/assignors`."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.streams.configured_topology import ConfiguredTopology, TopologyStatus, configure
from kshim.coordinator.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from kshim_protocol.errors import ErrorCode, KafkaError
from tests.coordinator.groups.streams.topologies import CHANGELOG, REPARTITION, word_count

TWICE = ("cleanup.policy", "compact"), ("cleanup.policy", "compact")


def join(*sources: str, repartition: tuple[TopicInfo, ...] = ()) -> Topology:
    """One subtopology that joins all of its sources; another one writes to the repartition topics."""
    group = CopartitionGroup(tuple(range(len(sources))), (), tuple(range(len(repartition))))
    return Topology(
        0,
        (
            Subtopology("0", source_topics=("s",), repartition_sink_topics=tuple(topic.name for topic in repartition)),
            Subtopology("1", sources, repartition_source_topics=repartition, copartition_groups=(group,)),
        ),
    )


def task_counts(topology: ConfiguredTopology) -> dict[str, int]:
    assert topology.subtopologies is not None
    return {name: each.task_count for name, each in topology.subtopologies.items()}


def test_internal_topics_of_a_word_count_get_as_many_partitions_as_its_source_and_are_missing_at_first() -> None:
    configured = configure(word_count(), {"lines": 3})
    assert (configured.status, configured.is_ready) == (TopologyStatus.MISSING_INTERNAL_TOPICS, False)
    assert configured.detail == f"Internal topics are missing: {REPARTITION}, {CHANGELOG}"
    assert configured.missing_internal_topics == (
        TopicInfo(REPARTITION, 3),
        TopicInfo(CHANGELOG, 3, topic_configs=(("cleanup.policy", "compact"),)),
    )
    assert task_counts(configured) == {"0": 3, "1": 3}


def test_a_topology_is_ready_when_its_internal_topics_are_there() -> None:
    configured = configure(word_count(), {"lines": 3, REPARTITION: 3, CHANGELOG: 3})
    assert configured.is_ready
    assert configured.missing_internal_topics == ()
    assert configured.subtopologies is not None
    assert [each.is_stateful for each in configured.subtopologies.values()] == [False, True]
    assert [topic.partitions for topic in configured.subtopologies["1"].internal_topics()] == [3, 3]


def test_a_given_number_of_partitions_decides_for_its_subtopology() -> None:
    configured = configure(word_count(repartition_partitions=5), {"lines": 3, REPARTITION: 5, CHANGELOG: 5})
    assert task_counts(configured) == {"0": 3, "1": 5}


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        (
            {REPARTITION: 1, CHANGELOG: 3},
            f"Existing topic {REPARTITION} has different number of partitions: expected 3, found 1",
        ),
        ({CHANGELOG: 2}, f"Existing topic {CHANGELOG} has different number of partitions: expected 3, found 2"),
    ],
)
def test_an_internal_topic_with_another_number_of_partitions_is_a_fault(counts: dict[str, int], sentence: str) -> None:
    configured = configure(word_count(), {"lines": 3, **counts})
    assert configured.status is TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert configured.detail == sentence
    assert configured.subtopologies is None


def test_problems_have_the_codes_that_kafka_sends() -> None:
    configured = configure(word_count(), {})
    assert (configured.status, configured.detail) == (1, "Source topics lines are missing.")
    assert configure(word_count(), {"lines": 3, CHANGELOG: 2}).status == 2
    assert configure(word_count(), {"lines": 3}).status == 3


def test_missing_internal_topics_are_named_three_at_most() -> None:
    names = ("w", "x", "y", "z")

    def detail(count: int) -> str:
        changelogs = tuple(map(TopicInfo, names[:count]))
        return configure(Topology(0, (Subtopology("0", ("in",), state_changelog_topics=changelogs),)), {"in": 1}).detail

    assert detail(3) == "Internal topics are missing: w, x, y"
    assert detail(4) == "Internal topics are missing: w, x, y and 1 additional topics"


def test_missing_source_topics_are_named_three_at_most() -> None:
    assert configure(join("b", "a"), {"s": 1}).detail == "Source topics a, b are missing."
    configured = configure(join("c", "b", "a"), {"s": 1})
    assert configured.detail == "Source topics a, b, c are missing."
    configured = configure(join("d", "c", "b", "a"), {"s": 1})
    assert configured.detail == "Source topics a, b, c and 1 additional topics are missing."
    configured = configure(join("e", "d", "c", "b", "a"), {})
    assert configured.status is TopologyStatus.MISSING_SOURCE_TOPICS
    assert configured.detail == "Source topics a, b, c and 3 additional topics are missing."


def test_sources_that_are_joined_need_equally_many_partitions() -> None:
    configured = configure(join("s1", "in2"), {"s": 1, "s1": 1, "in2": 2})
    assert configured.status is TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert configured.detail == "Following topics do not have the same number of partitions: [{in2=2, s1=1}]"


def test_a_repartition_topic_follows_the_source_that_it_is_joined_with() -> None:
    configured = configure(join("in2", repartition=(TopicInfo("r"),)), {"s": 1, "in2": 4})
    assert [(topic.name, topic.partitions) for topic in configured.missing_internal_topics] == [("r", 4)]
    configured = configure(join("in2", repartition=(TopicInfo("r", 2),)), {"s": 1, "in2": 4})
    assert configured.detail == (
        "Number of partitions [2] of repartition topic [r] doesn't match number of partitions [4] of the source topic."
    )


def test_repartition_topics_that_are_joined_follow_a_given_number_and_else_the_largest() -> None:
    r1, r2 = TopicInfo("r1"), TopicInfo("r2")
    topology = join(repartition=(r1, r2))
    other = Subtopology("2", source_topics=("t",), repartition_sink_topics=("r2",))
    # Subtopology 0 comes first, and says 1; what 2 writes to r2 does not count any more.
    configured = configure(Topology(0, (*topology.subtopologies, other)), {"s": 1, "t": 4})
    assert {topic.partitions for topic in configured.missing_internal_topics} == {1}
    configured = configure(join(repartition=(r1, TopicInfo("r2", 6))), {"s": 1})
    assert {topic.partitions for topic in configured.missing_internal_topics} == {6}
    configured = configure(join(repartition=(TopicInfo("r1", 2), TopicInfo("r2", 6))), {"s": 1})
    assert configured.detail == "Following topics do not have the same number of partitions: [{r1=2, r2=6}]"


def test_the_number_of_partitions_goes_from_one_repartition_topic_to_the_next() -> None:
    chain = tuple(
        Subtopology(
            str(number),
            repartition_source_topics=(TopicInfo(f"r{number}"),),
            repartition_sink_topics=(f"r{number + 1}",) if number < 3 else (),
        )
        for number in (3, 2, 1)
    )
    first = Subtopology("4", source_topics=("in",), repartition_sink_topics=("r1",))
    assert task_counts(configure(Topology(0, (*chain, first)), {"in": 5})) == {"1": 5, "2": 5, "3": 5, "4": 5}


@pytest.mark.parametrize(
    ("subtopologies", "sentence"),
    [
        (
            (Subtopology("0", ("in",), repartition_source_topics=(TopicInfo("r"),)),),
            "Failed to compute number of partitions for all repartition topics, "
            "because a repartition source topic is never used as a sink topic.",
        ),
        (
            (Subtopology("0", repartition_source_topics=(TopicInfo("r"),), repartition_sink_topics=("r",)),),
            "Failed to compute number of partitions for all repartition topics. "
            "There may be loops in the topology that cannot be resolved.",
        ),
        ((Subtopology("0"),), "No source topics found for subtopology 0"),
    ],
)
def test_what_no_topics_could_make_right_is_refused(subtopologies: tuple[Subtopology, ...], sentence: str) -> None:
    with pytest.raises(KafkaError) as refused:
        configure(Topology(0, subtopologies), {"in": 1})
    assert (refused.value.code, refused.value.message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence)


@pytest.mark.parametrize(
    "subtopologies",
    [
        (Subtopology("0", ("in",)), Subtopology("0", ("in",))),
        (Subtopology("0", ("in",), copartition_groups=(CopartitionGroup((1,)),)),),
        (Subtopology("0", ("in",), copartition_groups=(CopartitionGroup((-1,)),)),),
        (Subtopology("0", ("in",), state_changelog_topics=(TopicInfo("c"), TopicInfo("c"))),),
        (Subtopology("0", ("in",), state_changelog_topics=(TopicInfo("c", topic_configs=TWICE),)),),
        (Subtopology("0", ("in",), repartition_source_topics=(TopicInfo("r", 1, topic_configs=TWICE),)),),
        (Subtopology("0", ("in",), repartition_source_topics=(TopicInfo("r", -1),)),),
        (Subtopology("0", ("in",), copartition_groups=(CopartitionGroup((), (), (0,)),)),),
    ],
)
def test_what_contradicts_itself_is_refused(subtopologies: tuple[Subtopology, ...]) -> None:
    with pytest.raises(KafkaError) as refused:
        configure(Topology(0, subtopologies), {"in": 1})
    assert (refused.value.code, refused.value.message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
