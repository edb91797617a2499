"""The topic of the history: its name, its settings. Light, for a start needs no more of the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster


EVENTS_TOPIC: Final = "__kshim_events"


def create_events_topic(cluster: Cluster) -> None:
    """Make the topic if the configuration asks for it and it is not there. Raises LogError.

    To be called before clients come, so that nobody who subscribes by pattern is rebalanced because of it.
    """
    if cluster.config.kshim_history_topic_enable and EVENTS_TOPIC not in cluster.topics:
        cluster.create_topic(EVENTS_TOPIC, 1, {"cleanup.policy": "delete", "retention.ms": "604800000"})
