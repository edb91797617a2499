"""What a topology is with the topics that there are: its tasks, and the internal topics still to be made (KIP-1071).

Source: Kafka's InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer and ChangelogTopics. Where the order of
subtopologies and topics decides a number or a sentence, it is that of Kafka's hash tables (`hash_order`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import chain

from kshim.coordinator.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from kshim.coordinator.hash_order import hash_map_order
from kshim_protocol.errors import ErrorCode, KafkaError

_MOST_NAMES = 3
"""So many topics are named in a sentence, the others counted."""


class TopologyStatus(IntEnum):
    """Why a topology is not ready: codes of the statuses in a StreamsGroupHeartbeat's answer."""

    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology whose tasks are known. Its internal topics have the numbers of partitions that were found for them."""

    subtopology_id: str
    task_count: int
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[TopicInfo, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[TopicInfo, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, so that standby tasks make sense."""
        return bool(self.state_changelog_topics)

    def internal_topics(self) -> Iterator[TopicInfo]:
        """The topics that the broker makes for it."""
        return chain(self.repartition_source_topics, self.state_changelog_topics)


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology and what is known of its topics."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None  # by id, in order of ids; None: they cannot be configured
    missing_internal_topics: tuple[TopicInfo, ...] = ()  # to be created
    status: TopologyStatus | None = None
    detail: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether its tasks can be assigned."""
        return self.status is None


class _NotConfigurableError(Exception):
    def __init__(self, status: TopologyStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def configure(topology: Topology, partition_counts: Mapping[str, int]) -> ConfiguredTopology:
    """Tasks and internal topics of a topology. `partition_counts`: of the topics that exist, by name.

    Raises KafkaError: STREAMS_INVALID_TOPOLOGY where no topics could make it right; UNKNOWN_SERVER_ERROR where Kafka, too,
    does not say what is wrong with it.
    """
    _require_coherent(topology)
    try:
        configuration = _Configuration(topology, partition_counts)
        configured = configuration.configured()
        missing = configuration.missing_topics(configured)
    except _NotConfigurableError as problem:
        return ConfiguredTopology(topology.epoch, None, (), problem.status, problem.detail)
    if not missing:
        return ConfiguredTopology(topology.epoch, configured)
    detail = f"Internal topics are missing: {_summary([topic.name for topic in missing])}"
    return ConfiguredTopology(topology.epoch, configured, missing, TopologyStatus.MISSING_INTERNAL_TOPICS, detail)


class _Configuration:
    def __init__(self, topology: Topology, partition_counts: Mapping[str, int]) -> None:
        by_id = {subtopology.subtopology_id: subtopology for subtopology in topology.subtopologies}
        self._subtopologies = [by_id[name] for name in hash_map_order(by_id)]
        self._existing = partition_counts
        self._decided: dict[str, int] = {}

    def configured(self) -> dict[str, ConfiguredSubtopology]:
        self._require_sources()
        self._decided = self._repartition_counts()
        for subtopology in self._subtopologies:
            for group in subtopology.copartition_groups:
                self._decided.update(self._copartitioned(_topics_of(subtopology, group)))
        for subtopology in self._subtopologies:
            count = self._source_count(subtopology)
            self._decided.update((topic.name, count) for topic in subtopology.state_changelog_topics)
        found = {subtopology.subtopology_id: self._subtopology(subtopology) for subtopology in self._subtopologies}
        return dict(sorted(found.items()))

    def missing_topics(self, configured: Mapping[str, ConfiguredSubtopology]) -> tuple[TopicInfo, ...]:
        """Internal topics that do not exist, in Kafka's order."""
        expected = {topic.name: topic for each in configured.values() for topic in each.internal_topics()}
        names = chain.from_iterable(
            (*each.sources(), *(topic.name for topic in each.state_changelog_topics)) for each in self._subtopologies
        )
        for name in hash_map_order(names):
            if name in expected and self._existing.get(name, expected[name].partitions) != expected[name].partitions:
                raise _NotConfigurableError(
                    TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {name} has different number of partitions: "
                    f"expected {expected[name].partitions}, found {self._existing[name]}",
                )
        return tuple(expected[name] for name in hash_map_order(expected) if name not in self._existing)

    def _require_sources(self) -> None:
        names = chain.from_iterable(subtopology.source_topics for subtopology in self._subtopologies)
        if missing := sorted(set(names).difference(self._existing)):
            sentence = f"Source topics {_summary(missing)} are missing."
            raise _NotConfigurableError(TopologyStatus.MISSING_SOURCE_TOPICS, sentence)

    def _repartition_counts(self) -> dict[str, int]:
        """Of each repartition topic: as given, or as many as the largest source of a subtopology that writes to it."""
        counts = {
            topic.name: topic.partitions
            for subtopology in self._subtopologies
            for topic in subtopology.repartition_source_topics
            if topic.partitions != 0
        }
        unknown = True
        while unknown:
            known_before = len(counts)
            unknown = False
            for subtopology in self._subtopologies:
                for sink in subtopology.repartition_sink_topics:
                    if sink in counts:
                        continue
                    upstream = [
                        counts[topic.name] for topic in subtopology.repartition_source_topics if topic.name in counts
                    ]
                    upstream += [self._existing[topic] for topic in subtopology.source_topics]
                    if upstream:
                        counts[sink] = max(upstream)
                    else:
                        unknown = True
            if unknown and len(counts) == known_before:
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics. "
                    "There may be loops in the topology that cannot be resolved."
                )
        for subtopology in self._subtopologies:
            if any(topic.name not in counts for topic in subtopology.repartition_source_topics):
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics, "
                    "because a repartition source topic is never used as a sink topic."
                )
        return counts

    def _copartitioned(self, group: list[str]) -> dict[str, int]:
        """New counts of the repartition topics among topics that need equally many partitions."""
        if not group:
            return {}
        repartition_topics = [topic for each in self._subtopologies for topic in each.repartition_source_topics]
        names = {topic.name for topic in repartition_topics}
        fixed = {topic.name for topic in repartition_topics if topic.partitions != 0}
        counts = {name: self._count(name) for name in hash_map_order(name for name in group if name in names)}
        if len(counts) < len(group):
            count = _only_count({name: self._count(name) for name in group if name not in names})
        elif fixed:
            # Kafka compares all that are fixed in the whole topology, and shows those of the group.
            count = _only_count({name: self._count(name) for name in fixed}, shown=counts)
        else:
            count = max(counts.values(), default=0)
            if count < 1:
                names_of_group = ", ".join(counts)
                raise _invalid(
                    f"All topics in the copartition group had undefined partition number: [{names_of_group}]"
                )
        for name, own_count in counts.items():
            if name in fixed and own_count != count:
                raise _NotConfigurableError(
                    TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{own_count}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{count}] of the source topic.",
                )
        return dict.fromkeys(counts, count)

    def _count(self, name: str) -> int:
        return self._existing[name] if name in self._existing else self._decided[name]

    def _source_count(self, subtopology: Subtopology) -> int:
        counts = [self._count(name) for name in subtopology.sources()]
        if not counts:
            raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
        return max(counts)

    def _subtopology(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        return ConfiguredSubtopology(
            subtopology.subtopology_id,
            self._source_count(subtopology),
            subtopology.source_topics,
            self._with_counts(subtopology.repartition_source_topics),
            subtopology.repartition_sink_topics,
            self._with_counts(subtopology.state_changelog_topics),
        )

    def _with_counts(self, topics: Sequence[TopicInfo]) -> tuple[TopicInfo, ...]:
        """The topics in Kafka's order, each with its number of partitions."""
        found = {
            topic.name: replace(topic, partitions=topic.partitions or self._decided[topic.name]) for topic in topics
        }
        if len(found) < len(topics) or not all(map(_is_coherent, found.values())):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return tuple(found[name] for name in hash_map_order(found))


def _topics_of(subtopology: Subtopology, group: CopartitionGroup) -> list[str]:
    names = [subtopology.source_topics[place] for place in group.source_topics]
    names += [subtopology.repartition_source_topics[place].name for place in group.repartition_source_topics]
    return hash_map_order(names)


def _only_count(counts: Mapping[str, int], shown: Mapping[str, int] | None = None) -> int:
    """The number of partitions that all of them have."""
    found = set(counts.values())
    if len(found) > 1:
        pairs = ", ".join(f"{name}={count}" for name, count in sorted((counts if shown is None else shown).items()))
        raise _NotConfigurableError(
            TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{pairs}}}]",
        )
    return found.pop()


def _summary(names: list[str]) -> str:
    """Three names at most, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} additional topics" if more > 0 else "")


def _require_coherent(topology: Topology) -> None:
    ids = [subtopology.subtopology_id for subtopology in topology.subtopologies]
    coherent = len(set(ids)) == len(ids) and all(
        _are_places(group.source_topics, subtopology.source_topics)
        and _are_places(group.repartition_source_topics, subtopology.repartition_source_topics)
        for subtopology in topology.subtopologies
        for group in subtopology.copartition_groups
    )
    if not coherent:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _is_coherent(topic: TopicInfo) -> bool:
    return topic.partitions > 0 and len(dict(topic.topic_configs)) == len(topic.topic_configs)


def _are_places(places: Iterable[int], sequence: Sequence[object]) -> bool:
    return all(0 <= place < len(sequence) for place in places)


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence)
