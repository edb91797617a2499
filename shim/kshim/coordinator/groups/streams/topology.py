"""The topology that a streams application brings to its group: which parts it has, and the topics of each (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


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
        """All topics it needs. Those of them that exist are covered by the metadata hash of the group."""
        return frozenset(
            name
            for subtopology in self.subtopologies
            for name in (*subtopology.sources(), *(topic.name for topic in subtopology.state_changelog_topics))
        )


def require_valid(topology: Topology) -> None:
    """What a topology must be before it is stored; which topics exist does not matter here.

    Raises KafkaError: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY.
    """
    raise NotImplementedError
