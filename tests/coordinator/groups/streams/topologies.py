"""Topologies that tests share."""

from __future__ import annotations

from typing import Final

from kshim.coordinator.groups.streams.topology import Subtopology, TopicInfo, Topology

REPARTITION: Final = "app-counts-repartition"
CHANGELOG: Final = "app-counts-changelog"


def word_count(*, repartition_partitions: int = 0) -> Topology:
    """Words are written to a repartition topic by one subtopology and counted by another."""
    return Topology(
        0,
        (
            Subtopology("0", source_topics=("lines",), repartition_sink_topics=(REPARTITION,)),
            Subtopology(
                "1",
                repartition_source_topics=(TopicInfo(REPARTITION, repartition_partitions),),
                state_changelog_topics=(TopicInfo(CHANGELOG, topic_configs=(("cleanup.policy", "compact"),)),),
            ),
        ),
    )
