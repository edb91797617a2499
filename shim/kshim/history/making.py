"""The history of a cluster, put together from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.history.history import History
from kshim.history.names import EVENTS_TOPIC
from kshim.history.ring import Ring
from kshim.history.topic import EventsTopic

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.groups.classic.group import Group


def make_history(cluster: Cluster, *, run: str) -> History:
    """The history that `cluster.config` asks for; `run` identifies this life of the process."""
    config = cluster.config
    topic = None
    if config.kshim_history_topic_enable:
        topic = EventsTopic(
            lambda: cluster.topics.named(EVENTS_TOPIC),
            cluster.append,
            cluster.timers.after,
            lambda error: cluster.report(error, EVENTS_TOPIC),
        )

    def find_group(group_id: str) -> Group | None:
        shard = cluster.coordinator.shard_of(group_id)
        return None if shard is None else shard.groups.get(group_id)

    return History(
        Ring(max_events=config.kshim_history_max_events, max_bytes=config.kshim_history_max_bytes),
        topic,
        run=run,
        broker_of=lambda partition: cluster.offsets_partition(partition).leader.leader_id,
        initial_delay_ms=config.group_initial_rebalance_delay_ms,
        find_group=find_group,
        on_defect=cluster.report,
    )
