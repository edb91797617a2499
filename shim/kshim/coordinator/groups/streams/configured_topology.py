"""What a topology is with the topics that there are: its tasks, and the internal topics still to be made (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from kshim.coordinator.groups.streams.topology import Topology


class TopologyStatus(IntEnum):
    """Why a topology is not ready: codes of the statuses in a StreamsGroupHeartbeat's answer."""

    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic with the number of partitions that was found for it."""

    name: str
    partitions: int
    replication_factor: int  # 0: the broker's default
    topic_configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology whose number of tasks is known."""

    subtopology_id: str
    task_count: int
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, so that standby tasks make sense."""
        return bool(self.state_changelog_topics)


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology and what is known of its topics."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None  # by id, in order of ids; None: they cannot be configured
    missing_internal_topics: tuple[InternalTopic, ...] = ()  # to be created, by name
    status: TopologyStatus | None = None
    detail: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.status is None

    def task_counts(self) -> dict[str, int]:
        """Number of tasks by id of the subtopology; empty when they cannot be configured."""
        return {name: each.task_count for name, each in (self.subtopologies or {}).items()}


def configure(topology: Topology, partition_counts: Mapping[str, int]) -> ConfiguredTopology:
    """Tasks and internal topics of a topology. `partition_counts`: of the topics that exist, by name."""
    raise NotImplementedError
