"""The topology that a streams application brings to its group: which parts it has, and the topics of each (KIP-1071).

What is wrong with it whatever topics there are is found here, with Kafka's sentences. Source: Kafka's
KafkaApis.handleStreamsGroupHeartbeat and GroupCoordinatorService.throwIfInvalidTopology.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from kshim_protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """An internal topic as the application describes it."""

    name: str
    partitions: int = 0  # 0: to be found
    replication_factor: int = 0  # 0: the broker's default
    topic_configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Sources of a subtopology that need the same number of partitions: positions in its own lists."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a topology whose tasks run on their own: one task for each partition of its sources."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, so that standby tasks make sense."""
        return bool(self.state_changelog_topics)

    def sources(self) -> Iterator[str]:
        """The topics that its tasks read, repartition topics among them."""
        yield from self.source_topics
        yield from (topic.name for topic in self.repartition_source_topics)


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology of a group."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    def topics(self) -> frozenset[str]:
        """All topics that its tasks read and keep their state in. The metadata hash covers those of them that exist."""
        return frozenset(
            name
            for subtopology in self.subtopologies
            for name in (*subtopology.sources(), *(topic.name for topic in subtopology.state_changelog_topics))
        )

    def named_topics(self) -> tuple[str, ...]:
        """All topics that it names, each once, in Kafka's order: who brings it has to be allowed to describe them."""
        names = dict.fromkeys(
            name
            for subtopology in self.subtopologies
            for name in (
                *subtopology.source_topics,
                *subtopology.repartition_sink_topics,
                *(topic.name for topic in subtopology.repartition_source_topics),
                *(topic.name for topic in subtopology.state_changelog_topics),
            )
        )
        return tuple(names)


def require_permitted_names(
    topology: Topology, internal_topics: Container[str], name_problem: Callable[[str], str | None]
) -> None:
    """The first check, before anybody is authorized. `name_problem`: what is wrong with the name of a topic.

    Raises KafkaError: STREAMS_INVALID_TOPOLOGY.
    """
    names = topology.named_topics()
    if prohibited := [name for name in names if name in internal_topics]:
        raise _invalid(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        )
    if wrong := [name for name in names if name_problem(name) is not None]:
        raise _invalid(f"Topic names {','.join(wrong)} are not valid topic names.")


def require_no_expressions(topology: Topology) -> None:
    """The first check of the coordinator, before those of the other fields. Raises KafkaError: INVALID_REQUEST."""
    if any(subtopology.source_topic_regex for subtopology in topology.subtopologies):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet.")


def require_valid(topology: Topology) -> None:
    """The check of a topology that a member joins with. Raises KafkaError: STREAMS_INVALID_TOPOLOGY."""
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise _invalid(
                    f"Changelog topic {topic.name} must have an undefined partition count, "
                    f"but it is set to {topic.partitions}."
                )


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence)
