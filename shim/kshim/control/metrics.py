"""Metrics for Prometheus.

What Kafka has as MBeans is named as the usual rules of its JMX exporter name it (lower case, `kafka_<domain>_<type>_<name>`); what
kafka_exporter has of groups is named as there; everything else begins with `kshim_`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer.state import ConsumerGroupState
from kshim.coordinator.groups.events import EpochRaised, MemberAdded, MemberRemoved, RebalanceCompleted, Transition
from kshim.coordinator.groups.kinds import GroupKind

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.groups.kinds import AnyGroup
    from kshim.coordinator.groups.shard import Shard
    from kshim.coordinator.step import Event
    from kshim.faults.faults import Faults

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
GROUPS_MAX: Final = 200
"""Groups with series of their own: those that come first by id."""
PARTITIONS_MAX: Final = 2_000
"""Partitions with series of their own, of logs, and again of groups."""

_STATES: Final = {
    GroupState.PREPARING_REBALANCE: "preparingrebalance",
    GroupState.COMPLETING_REBALANCE: "completingrebalance",
    GroupState.STABLE: "stable",
    GroupState.EMPTY: "empty",
    GroupState.DEAD: "dead",
}


_EPOCH_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
"""Of groups of the new protocol, which Kafka counts in one metric with a label."""


class EventCounts:
    """Counts what happened to groups since the brokers started."""

    def __init__(self) -> None:
        self.completed_rebalances = 0
        self.rebalances = 0
        self.epochs = 0
        self.members_added = 0
        self.members_removed = 0

    def on_event(self, event: Event) -> None:
        """See `Cluster.event_listeners`."""
        match event:
            case Transition(new=GroupState.PREPARING_REBALANCE):
                self.rebalances += 1
            case EpochRaised(previous=ConsumerGroupState()):
                self.epochs += 1
            case RebalanceCompleted():
                self.completed_rebalances += 1
            case MemberAdded():
                self.members_added += 1
            case MemberRemoved():
                self.members_removed += 1
            case _:
                pass


class _Located(NamedTuple):
    group: AnyGroup
    shard: Shard


class ClusterCollector(Collector):
    """Reads everything from the cluster at each scrape."""

    def __init__(self, cluster: Cluster, faults: Faults, open_streams: Callable[[], int], counts: EventCounts) -> None:
        self._cluster = cluster
        self._faults = faults
        self._open_streams = open_streams
        self._counts = counts
        self._left_out: Counter[str] = Counter()

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        self._left_out = Counter({"groups": 0, "group_partitions": 0, "log_partitions": 0})
        yield from self._nodes()
        groups = self._groups()
        yield from self._coordinator(groups)
        yield from self._each_group(groups)
        yield from self._logs()
        yield from self._own()
        yield _gauge("kshim_metrics_left_out", "Series left out because there are too many", "kind", self._left_out)

    def _groups(self) -> list[_Located]:
        coordinator = self._cluster.groups.made
        found = []
        for group_id in sorted(coordinator.group_ids()) if coordinator is not None else ():
            shard = coordinator.shard_of(group_id) if coordinator is not None else None
            if shard is not None and group_id in shard.groups:
                found.append(_Located(shard.groups[group_id], shard))
        return found

    def _nodes(self) -> Iterator[Metric]:
        cluster = self._cluster
        live_ids = cluster.leadership.live_ids
        leads = Counter({str(node_id): 0 for node_id in cluster.leadership.node_ids})
        partition_count = 0
        for topic in cluster.topics:
            partition_count += len(topic.partitions)
            leads.update(str(partition.leader.leader_id) for partition in topic.partitions)
        controller = "kafka_controller_kafkacontroller"
        yield GaugeMetricFamily(f"{controller}_globaltopiccount", "Topics", value=len(cluster.topics))
        yield GaugeMetricFamily(f"{controller}_globalpartitioncount", "Partitions", value=partition_count)
        yield GaugeMetricFamily(f"{controller}_activebrokercount", "Brokers that are live", value=len(live_ids))
        replicas = "kafka_server_replicamanager"
        yield _gauge(f"{replicas}_leadercount", "Partitions that a broker leads", "broker", leads)
        yield GaugeMetricFamily(
            "kafka_server_delayedoperationpurgatory_purgatorysize_fetch",
            "Fetches that wait for records",
            value=len(cluster.fetch_purgatory),
        )

    def _coordinator(self, groups: list[_Located]) -> Iterator[Metric]:
        manager = "kafka_coordinator_group_groupmetadatamanager"
        states = Counter(located.group.state for located in groups)
        kinds = Counter({kind.value: 0 for kind in GroupKind})
        kinds.update(located.group.kind.value for located in groups)
        classic_count = kinds[GroupKind.CLASSIC.value]
        yield GaugeMetricFamily(f"{manager}_numgroups", "Classic groups", value=classic_count)
        for state, name in _STATES.items():
            yield GaugeMetricFamily(f"{manager}_numgroups{name}", f"Groups that are {state}", value=states[state])
        offset_count = sum(shard.offsets.count(group.group_id) for group, shard in groups)
        yield GaugeMetricFamily(f"{manager}_numoffsets", "Committed offsets", value=offset_count)
        coordinator = "kafka_server_group_coordinator_metrics"
        yield _gauge(f"{coordinator}_group_count", "Groups by the protocol of their members", "protocol", kinds)
        of_epochs = Counter({state.lower(): 0 for state in _EPOCH_STATES})
        of_epochs.update(
            located.group.state.value.lower() for located in groups if located.group.kind is GroupKind.CONSUMER
        )
        yield _gauge(
            f"{coordinator}_consumer_group_count", "Groups of the new protocol by their state", "state", of_epochs
        )
        yield CounterMetricFamily(
            f"{coordinator}_consumer_group_rebalance_count",
            "New epochs of groups of the new protocol",
            value=self._counts.epochs,
        )
        yield CounterMetricFamily(
            f"{coordinator}_group_completed_rebalance_count",
            "Rebalances that were completed",
            value=self._counts.completed_rebalances,
        )
        yield CounterMetricFamily("kshim_group_rebalances", "Rebalances that began", value=self._counts.rebalances)
        yield CounterMetricFamily("kshim_group_members_added", "Members that joined", value=self._counts.members_added)
        yield CounterMetricFamily(
            "kshim_group_members_removed", "Members that left or were removed", value=self._counts.members_removed
        )

    def _each_group(self, groups: list[_Located]) -> Iterator[Metric]:
        members = GaugeMetricFamily("kafka_consumergroup_members", "Members of a group", labels=["consumergroup"])
        state = GaugeMetricFamily("kshim_group_state", "1 for the state of a group", labels=["consumergroup", "state"])
        generation = GaugeMetricFamily(
            "kshim_group_generation", "Generation or epoch of a group", labels=["consumergroup"]
        )
        places = ["consumergroup", "topic", "partition"]
        offset = GaugeMetricFamily("kafka_consumergroup_current_offset", "Committed offset of a group", labels=places)
        lag = GaugeMetricFamily("kafka_consumergroup_lag", "Offsets behind the end of the partition", labels=places)
        left = PARTITIONS_MAX
        for group, shard in groups[:GROUPS_MAX]:
            group_id = _label(group.group_id)
            members.add_metric([group_id], group.member_count)
            state.add_metric([group_id, group.state.value], 1)
            generation.add_metric([group_id], group.epoch)
            for topic, partitions in sorted(shard.offsets.of_group(group.group_id).items()):
                for index, committed in sorted(partitions.items())[:left]:
                    found = self._cluster.topics.partition(topic, index)
                    labels = [group_id, _label(topic), str(index)]
                    offset.add_metric(labels, committed.offset)
                    if found is not None:
                        lag.add_metric(labels, max(found.high_watermark - committed.offset, 0))
                self._left_out["group_partitions"] += max(len(partitions) - left, 0)
                left = max(left - len(partitions), 0)
        self._left_out["groups"] += max(len(groups) - GROUPS_MAX, 0)
        yield from (members, state, generation, offset, lag)

    def _logs(self) -> Iterator[Metric]:
        places = ["topic", "partition"]
        start = GaugeMetricFamily("kafka_log_log_logstartoffset", "First offset of a log", labels=places)
        end = GaugeMetricFamily("kafka_log_log_logendoffset", "Offset that the next record gets", labels=places)
        left = PARTITIONS_MAX
        for topic in self._cluster.topics:
            for partition in topic.partitions:
                log = partition.opened_log
                if log is None:
                    continue  # not used yet: a scrape is no reason to open it
                if not left:
                    self._left_out["log_partitions"] += 1
                    continue
                left -= 1
                labels = [_label(topic.name), str(partition.index)]
                start.add_metric(labels, log.start_offset)
                end.add_metric(labels, log.end_offset)
        yield from (start, end)

    def _own(self) -> Iterator[Metric]:
        ring = self._cluster.history.ring
        yield CounterMetricFamily("kshim_history_events", "Events of the history", value=ring.last_number)
        yield CounterMetricFamily("kshim_history_events_dropped", "Events no longer kept", value=ring.dropped_count)
        faults = self._faults
        yield GaugeMetricFamily("kshim_faults_active", "Faults that are in force", value=len(faults.active))
        yield CounterMetricFamily(
            "kshim_faults_fired", "Times that faults fired", value=sum(fault.fired_count for fault in faults.all)
        )
        yield GaugeMetricFamily("kshim_control_streams", "Event streams open", value=self._open_streams())


class Metrics:
    """The text of `/metrics` for one cluster. `open_streams` counts the event streams."""

    def __init__(self, cluster: Cluster, faults: Faults, open_streams: Callable[[], int]) -> None:
        counts = EventCounts()
        cluster.event_listeners.append(counts.on_event)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(ClusterCollector(cluster, faults, open_streams, counts))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._registry)


def _gauge(name: str, help_: str, label: str, values: Counter[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family


def _label(text: str) -> str:
    """Half a surrogate pair, which Kafka's strings may hold, is no text for Prometheus."""
    return text.encode("utf-8", "replace").decode()
