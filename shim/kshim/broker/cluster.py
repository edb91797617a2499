"""The cluster: topics, logs, the coordinator and the configuration. Nodes are views of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kshim.broker.client_activity import ClientActivity
from kshim.broker.coordinator_host import C, CoordinatorHost
from kshim.broker.features import (
    GROUP_VERSION,
    LEVEL_KEYS,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    Features,
)
from kshim.broker.leader_election import ClusterNode, LeaderElection
from kshim.broker.producer_ids import ProducerIds
from kshim.broker.step_applier import StepApplier
from kshim.broker.warmup import COORDINATOR, SHARE_STATE, TRANSACTIONS
from kshim.config.dynamic import DynamicConfig
from kshim.coordinator.deadlines import Key
from kshim.coordinator.step import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, Now
from kshim.partitions.durability import FsyncPolicy
from kshim.partitions.internal_topics import (
    make_events_topic,
    make_events_topic_when_asked,
    make_internal_topic,
)
from kshim.partitions.leadership import Leadership
from kshim.partitions.partition import Partition, Topic
from kshim.partitions.partitions import Partitions
from kshim.scheduling.background_tasks import BackgroundTask, BackgroundTasks
from kshim.scheduling.pace import Pace
from kshim.scheduling.timers import Timers
from kshim.storage.log import LogError
from kshim.storage.storage import Storage
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.marker_writer import MarkerWriter
    from kshim.broker.new_topics import TopicPlace
    from kshim.broker.topic_expressions import TopicExpressions
    from kshim.config.broker_config import BrokerConfig
    from kshim.config.client_quotas import ClientQuotas
    from kshim.config.group_settings import GroupSettings
    from kshim.coordinator.groups.coordinator import GroupCoordinator
    from kshim.coordinator.groups.kinds import AnyGroup
    from kshim.coordinator.groups.share.group import ShareGroup
    from kshim.coordinator.share_state.coordinator import ShareStateCoordinator
    from kshim.coordinator.step import Errand, Event, Lookup, TopicsWanted
    from kshim.coordinator.transactions.coordinator import TransactionCoordinator
    from kshim.history.history import History
    from kshim.security.authentication.credentials import ScramCredentials
    from kshim.security.authorizer.authorizer import Authorizer
    from kshim.share_partitions.share_partitions import SharePartitions


class RandomIds:
    """Where random ids come from; randomness is injected here and nowhere else.

    `new_member_suffix() -> str` is a UUID in text form, `new_topic_id() -> bytes` 16 random bytes.
    """

    def __init__(self, new_member_suffix: Callable[[], str], new_topic_id: Callable[[], bytes]) -> None:
        self.new_member_suffix = new_member_suffix
        self.new_topic_id = new_topic_id


class Cluster:
    """Everything nodes share. `on_event` gets each coordinator event; `on_defect` each exception that should not be.

    `on_corrupt` is called with a log that cannot be loaded because records in it are damaged: an operator has to decide. There are
    `node_count` nodes, with ids from `config.node_id` on; `nodes` holds those that are live, by id.
    """

    def __init__(
        self,
        config: BrokerConfig,
        storage: Storage,
        random_ids: RandomIds,
        *,
        cluster_id: str,
        fsync: FsyncPolicy = "never",
        fsync_interval_ms: int = 100,
        on_event: Callable[[Event], None] = lambda event: None,
        on_defect: Callable[[BaseException, object], None] = lambda error, request: None,
        on_corrupt: Callable[[LogError], None] = lambda error: None,
        node_count: int = 1,
    ) -> None:
        self.config = config
        self.cluster_id = cluster_id
        self.storage = storage
        self.leadership = Leadership(range(config.node_id, config.node_id + node_count))
        self.dynamic_configs = DynamicConfig(config, storage, self.leadership.node_ids)
        self.background_tasks = BackgroundTasks()
        self.pace = Pace()
        """How often what is checked regularly is checked."""
        self.on_fired: Callable[[Key], None] = lambda key: None
        """Called with each timer that fires."""
        self.timers = Timers(pace=self.pace, on_fired=self._fired)
        self.partitions = Partitions(
            config,
            storage,
            random_ids.new_topic_id,
            self.leadership,
            fsync=fsync,
            fsync_interval_ms=fsync_interval_ms,
            timers=self.timers,
            background_tasks=self.background_tasks,
            is_loading=self._is_loading,
            on_taken=self._log_taken,
            on_repaired=self._log_repaired,
            pace=self.pace,
            on_fired=self._fired,
            report=on_defect,
        )
        self.dynamic_configs.on_broker_change.append(self.partitions.broker_configured)
        self.topics = self.partitions.topics
        self.topics.on_changed = self._topic_changed
        self.leader_election = LeaderElection(
            self.leadership, self.topics, on_moved=self._shard_moved, report=on_defect
        )
        self.known_nodes = self.leader_election.known_nodes
        self.known_node = self.leader_election.known_node
        self.durability = self.partitions.durability
        self.fetch_purgatory = self.partitions.fetch_purgatory
        self.client_activity = ClientActivity()
        self.features = Features(
            storage,
            {
                GROUP_VERSION: 1,
                SHARE_VERSION: config.kshim_share_version,
                STREAMS_VERSION: config.kshim_streams_version,
                TRANSACTION_VERSION: config.kshim_transaction_version,
            },
            given=any(key in config.given for key in LEVEL_KEYS),
        )
        self._random_ids = random_ids
        self._history: History | None = None
        self._now: Callable[[], Now] | None = None
        self.on_event, self.on_corrupt = on_event, on_corrupt
        self.event_listeners: list[Callable[[Event], None]] = []
        """Further ones, called with each event after `on_event`."""
        self.report = on_defect
        self.authorizer = _authorizer(config, storage)
        """Evaluates ACLs; None: every request is allowed."""
        self._scram_credentials: ScramCredentials | None = None
        self._client_quotas: ClientQuotas | None = None
        self._producer_ids = _producer_ids(storage, random_ids, is_new=not len(self.topics))
        self.coordinators: dict[str, CoordinatorHost[Any]] = {}
        """By the name of their topics."""
        self._marker_writer: MarkerWriter | None = None
        self._topic_expressions: TopicExpressions | None = None
        self._group_settings: GroupSettings | None = None
        self.share_partitions_made: SharePartitions | None = None
        self.steps = StepApplier(
            config,
            self.coordinators,
            self.topics,
            self.durability,
            marker_writer=lambda: self.marker_writer,
            look_up=self._look_up,
            run=self._run,
            make=self._make_topics,
            listeners=lambda: (self.history.observe, self.on_event, *self.event_listeners),
            report=on_defect,
        )
        self.apply, self.defect = self.steps.apply, self.steps.defect
        self.operation = self.topics.operation
        """Does something that no client asked for: see `Operations`."""
        self.groups = self._host(OFFSETS_TOPIC, COORDINATOR, self._new_group_coordinator)
        self.transactions = self._host(TRANSACTIONS_TOPIC, TRANSACTIONS, self._new_transaction_coordinator)
        self.share_states = self._host(SHARE_STATE_TOPIC, SHARE_STATE, self._new_share_state_coordinator)

    def start(self, now: Callable[[], Now]) -> None:
        """Begin all services, once, when every node is there. `now` is the group clock. The order, and why:

        1. The topic of the history is created before clients connect, so that it causes no rebalance of consumers that subscribe to a pattern.
        2. All coordinators begin to read their shards: a request that comes before its shard was read is refused with
           COORDINATOR_LOAD_IN_PROGRESS, never answered from less than was stored.
        3. The log cleaner and the retention begin. They leave a log alone as long as its shard is being read.

        What these begin runs as background tasks and timers: the server starts those (`kshim.server.serve`) before it
        accepts connections, and warms up codecs in idle turns after that. `close` ends all in the opposite order.
        Raises LogError.
        """
        self._now = now
        make_events_topic(self.topics, self.config)
        for host in self.coordinators.values():
            host.loader.begin(now)
        self.partitions.begin(now)

    def now(self, otherwise: Now) -> Now:
        """The group clock, for what goes on after a wait; `otherwise` is when that began, for a cluster without a clock."""
        return otherwise if self._now is None else self._now()

    # The coordinators

    def _host(self, topic_name: str, modules: Sequence[str], make: Callable[[int | None], C]) -> CoordinatorHost[C]:
        host = CoordinatorHost(
            topic_name,
            modules,
            make,
            topics=self.topics,
            make_topic=lambda: make_internal_topic(topic_name, self.topics, self.config),
            apply=self.apply,
            background_tasks=self.background_tasks,
            timers=self.timers,
            report=self.report,
            on_corrupt=self.on_corrupt,
            pace=self.pace,
            on_fired=self._fired,
        )
        self.coordinators[topic_name] = host
        return host

    def _new_group_coordinator(self, partition_count: int | None) -> GroupCoordinator:
        from kshim.coordinator.groups.coordinator import GroupCoordinator

        config = self.config.group_config()
        if partition_count is not None:  # a topic made by an earlier run, perhaps with another configuration
            config.offsets_topic_num_partitions = partition_count
        return GroupCoordinator(
            config,
            topics=self.topics,
            new_id=self._random_ids.new_member_suffix,
            require_expression=_require_topic_expression,
            settings_of=self.group_settings.of_consumers,
            share_settings_of=self.group_settings.of_share_groups,
            streams_settings_of=self.group_settings.of_streams_groups,
        )

    @property
    def group_settings(self) -> GroupSettings:
        """What holds for each group of the newer protocols."""
        if self._group_settings is None:
            from kshim.config.group_settings import GroupSettings

            self._group_settings = GroupSettings(self.config, self.dynamic_configs)
        return self._group_settings

    @property
    def share_partitions(self) -> SharePartitions:
        """Partitions as share groups see them; made when first needed."""
        if self.share_partitions_made is None:
            from kshim.share_partitions.share_partitions import SharePartitions

            self.share_partitions_made = SharePartitions(
                settings_of=self.group_settings.of_share_groups,
                ask=self._run,
                released=self.fetch_purgatory.release,
                report=self.report,
                find_group=self._find_share_group,
                tell=self._tell,
            )
        return self.share_partitions_made

    def _find_share_group(self, group_id: str) -> ShareGroup | None:
        from kshim.coordinator.groups.share.group import ShareGroup

        group = self._find_group(group_id)
        return group if isinstance(group, ShareGroup) else None

    def _tell(self, events: Sequence[Event]) -> None:
        """What happened to a group outside of its coordinator."""
        from kshim.coordinator.step import Step

        step = Step()
        step.events.extend(events)
        self.apply(step)

    def end_share_sessions(self) -> None:
        """Share groups are switched off: what their members hold in memory is gone."""
        self.share_partitions_made = None
        for node in self.nodes:
            node.end_share_sessions()

    def _new_transaction_coordinator(self, partition_count: int | None) -> TransactionCoordinator:
        from kshim.coordinator.transactions.config import TransactionConfig
        from kshim.coordinator.transactions.coordinator import TransactionCoordinator

        config = TransactionConfig(
            transaction_max_timeout_ms=self.config.transaction_max_timeout_ms,
            transactional_id_expiration_ms=self.config.transactional_id_expiration_ms,
            transaction_state_log_num_partitions=partition_count or self.config.transaction_state_log_num_partitions,
        )
        return TransactionCoordinator(
            config,
            topics=self.topics,
            new_producer_id=self._producer_id_for_transactions,
            offsets_partition_for=self.groups.coordinator.partition_for,
            coordinator_epoch_of=self._coordinator_epoch_of,
            transaction_version=lambda: self.features.transaction_version,
        )

    def _new_share_state_coordinator(self, partition_count: int | None) -> ShareStateCoordinator:
        from kshim.coordinator.share_state.config import ShareStateConfig
        from kshim.coordinator.share_state.coordinator import ShareStateCoordinator

        config = ShareStateConfig(
            self.config.share_coordinator_state_topic_num_partitions,
            self.config.share_coordinator_snapshot_update_records_per_snapshot,
            self.config.share_coordinator_state_topic_prune_interval_ms,
            self.config.share_coordinator_cold_partition_snapshot_interval_ms,
        )
        if partition_count is not None:
            config = config._replace(state_topic_num_partitions=partition_count)
        return ShareStateCoordinator(config, topics=self.topics)

    def _run(self, errand: Errand) -> None:
        """Ask a coordinator what another one wants to know."""
        from kshim.broker.errands import Errands

        def asked(request: Any) -> None:
            if self.share_partitions_made is not None:
                self.share_partitions_made.has_asked(request)

        Errands(self.coordinators, self.apply, asked=asked, defect=self.defect).run(errand)

    def _make_topics(self, wanted: TopicsWanted) -> None:
        """Topics that a group needs."""
        from kshim.broker.new_topics import make_wanted

        make_wanted(self.topic_place(), wanted)

    def topic_place(self) -> TopicPlace:
        """Here."""
        from kshim.broker.new_topics import TopicPlace

        return TopicPlace(self.topics, self.config, [node.node_id for node in self.nodes], self.report)

    def _producer_id_for_transactions(self) -> int:
        """Raises KafkaError: COORDINATOR_NOT_AVAILABLE."""
        try:
            return self.next_producer_id()
        except LogError as error:
            self.report(error, None)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    def _coordinator_epoch_of(self, index: int) -> int:
        found = self.topics.partition(TRANSACTIONS_TOPIC, index)
        return 0 if found is None else found.leader.leader_epoch

    @property
    def marker_writer(self) -> MarkerWriter:
        """What ends transactions in partitions; made when first needed."""
        if self._marker_writer is None:
            from kshim.broker.marker_writer import MarkerWriter

            self._marker_writer = MarkerWriter(
                self.topics,
                lambda: self.groups.coordinator,
                apply=self.apply,
                report=self.report,
                defect=self.defect,
            )
        return self._marker_writer

    def _look_up(self, lookup: Lookup) -> None:
        """Have the topics found that the expressions of a group stand for."""
        if self._topic_expressions is None:
            from kshim.broker.topic_expressions import TopicExpressions

            self._topic_expressions = TopicExpressions(
                self.background_tasks,
                lambda: [topic.name for topic in self.topics.listed()],
                self._expressions_resolved,
                self.report,
            )
        self._topic_expressions.look_up(lookup)

    def _expressions_resolved(self, lookup: Lookup, found: Mapping[str, frozenset[str]]) -> None:
        coordinator = self.groups.made
        if coordinator is None:
            return
        try:
            self.apply(coordinator.expressions_resolved(lookup, found))
        except Exception as error:
            self.defect(error, None)

    @property
    def scram_credentials(self) -> ScramCredentials:
        """The users' SCRAM credentials, read when they are first needed. Raises LogError."""
        if self._scram_credentials is None:
            from kshim.security.authentication.credentials import ScramCredentials

            self._scram_credentials = ScramCredentials.of(self.storage)
        return self._scram_credentials

    @property
    def client_quotas(self) -> ClientQuotas:
        """The quotas that clients have set, read when they are first needed. Raises LogError."""
        if self._client_quotas is None:
            from kshim.config.client_quotas import ClientQuotas

            self._client_quotas = ClientQuotas.of(self.storage)
        return self._client_quotas

    @property
    def history(self) -> History:
        """Why groups rebalanced: see `docs/design/events.md`. Made with the first event, as the coordinator is."""
        if self._history is None:
            from kshim.history.history import History

            self._history = History.configured(
                self.config,
                self.topics,
                self.timers,
                run=self._random_ids.new_topic_id().hex(),
                broker_of=lambda partition: self.groups.partition(partition).leader.leader_id,
                find_group=self._find_group,
                activities=self.client_activity,
                on_defect=self.report,
            )
        return self._history

    def _topic_changed(self, name: str, partitions_before: int, partitions: int) -> None:
        """What was done to topics before there was any group explains none of its rebalances."""
        if self._history is not None and self._now is not None:
            self._history.topic_changed(name, partitions_before, partitions, self._now())

    def tell_history(self) -> None:
        """A client asks for the topic of the history by name: have all in it that is known, if it may. Raises LogError."""
        if self.config.kshim_history_topic_enable == "when-asked":
            self.history.tell(is_new=make_events_topic_when_asked(self.topics))

    def _find_group(self, group_id: str) -> AnyGroup | None:
        shard = self.groups.coordinator.shard_of(group_id)
        return None if shard is None else shard.groups.get(group_id)

    def _groups_in_memory(self) -> Iterator[AnyGroup]:
        coordinator = self.groups.coordinator
        return (group for id_ in coordinator.group_ids() if (group := self._find_group(id_)) is not None)

    def next_group_deadline(self) -> int | None:
        """When the next timer of a coordinator or of the partitions is due (ms, `Now.mono_ms`), or None."""
        partitions = self.partitions
        earliest_ms, expiration_ms = partitions.retention.next_ms, partitions.producer_expiration.next_ms
        if expiration_ms is not None and (earliest_ms is None or expiration_ms < earliest_ms):
            earliest_ms = expiration_ms
        for host in self.coordinators.values():  # after every turn of the server, so without a list of them
            deadline_ms = None if host.made is None else host.made.next_deadline()
            if deadline_ms is not None and (earliest_ms is None or deadline_ms < earliest_ms):
                earliest_ms = deadline_ms
        if self.share_partitions_made is not None:
            deadline_ms = self.share_partitions_made.next_deadline()
            if deadline_ms is not None and (earliest_ms is None or deadline_ms < earliest_ms):
                earliest_ms = deadline_ms
        return earliest_ms

    def advance(self, now: Now) -> None:
        """Fire the timers that are due."""
        self.partitions.retention.advance(now)
        self.partitions.producer_expiration.advance(now)
        for host in self.coordinators.values():
            host.advance(now)
        if self.share_partitions_made is not None:
            self.share_partitions_made.advance(now)

    def _fired(self, key: Key) -> None:
        self.on_fired(key)

    # Shards and their logs

    def _is_loading(self, partition: Partition) -> bool:
        host = self.coordinators.get(partition.topic.name)
        return host is not None and host.loader.is_pending(partition.index)

    def _shard_moved(self, partition: Partition, is_led: bool) -> None:
        host = self.coordinators.get(partition.topic.name)
        if host is not None:
            host.loader.moved(partition.index, is_led=is_led)

    def _log_taken(self, partition: Partition) -> None:
        host = self.coordinators.get(partition.topic.name)
        if host is not None:
            host.loader.drop(partition.index)

    def _log_repaired(self, partition: Partition) -> None:
        host = self.coordinators.get(partition.topic.name)
        if host is not None:
            host.loader.load(partition.index)

    # Nodes

    @property
    def nodes(self) -> list[ClusterNode]:
        """The nodes that are live, by id."""
        return self.leader_election.nodes

    def leader_of(self, topic: str, partition: int) -> int:
        """The id of the node that leads a partition. Raises LookupError for one there is not."""
        found = self.topics.partition(topic, partition)
        if found is None:
            raise LookupError(f"partition {topic}-{partition} does not exist")
        return found.leader.leader_id

    # Topics

    def create_topic(
        self,
        name: str,
        partition_count: int,
        configs: dict[str, str] | None = None,
        leader_ids: Sequence[int] | None = None,
    ) -> Topic:
        """Make a topic, with the checks of CreateTopics; see `Topics.create`. Raises KafkaError, LogError."""
        from kshim.partitions.topic_validator import checked_topic

        new_topic = checked_topic(self.topics, name, partition_count, (configs or {}).items(), leader_ids)
        (topic,) = self.topics.create_all([new_topic])
        return topic

    def delete_topic(self, topic: Topic, now: Now) -> None:
        """Remove a topic: waiting Fetches are answered, its committed offsets forgotten soon. Raises LogError."""
        self.delete_topics([topic], now)

    def delete_topics(self, topics: Sequence[Topic], now: Now) -> None:
        """`delete_topic` of many at once, or of none. Raises LogError."""
        names = [topic.name for topic in topics]
        self.operation("delete-topics", {"topics": names}, lambda: self._delete_topics(topics, names, now))

    def _delete_topics(self, topics: Sequence[Topic], names: list[str], now: Now) -> None:
        ids = frozenset(topic.topic_id for topic in topics)
        if self.share_partitions_made is not None:
            self.share_partitions_made.topics_deleted(ids)
        self.topics.delete_all(topics)
        if self.share_states.made is not None:
            self.background_tasks.add(self._forget_share_states(self.share_states.made, ids, now), urgent=True)
        if self.groups.made is not None:
            forgetting = self._forget_offsets(self.groups.made, names, now)
            self.background_tasks.add(forgetting, urgent=True)

    def _forget_offsets(self, coordinator: GroupCoordinator, names: list[str], now: Now) -> BackgroundTask:
        """Remove the offsets of deleted topics. As in Kafka the deletion does not wait for it."""
        try:
            for step in coordinator.topics_deleted(names, now):
                self.apply(step)
                yield None
        except Exception as error:
            self.defect(error, None)

    def _forget_share_states(
        self, coordinator: ShareStateCoordinator, topic_ids: frozenset[bytes], now: Now
    ) -> BackgroundTask:
        """Remove what share groups made of the records of deleted topics."""
        try:
            for step in coordinator.topics_deleted(topic_ids, now):
                self.apply(step)
                yield None
        except Exception as error:
            self.defect(error, None)

    def new_session_id(self) -> int:
        """A random number of 32 bits."""
        return int.from_bytes(self._random_ids.new_topic_id()[:4], "big")

    def next_producer_id(self) -> int:
        """A fresh producer id. Raises LogError."""
        return self._producer_ids.next()

    def close(self) -> None:
        """Close every log and give up the storage. Requests that still wait for a sync are not answered."""
        if self._history is not None:
            if self._now is not None:
                self._history.stopping(self._groups_in_memory(), self._now())
            self._history.close()
        try:
            self.partitions.close()
        finally:
            self.storage.close()


def _authorizer(config: BrokerConfig, storage: Storage) -> Authorizer | None:
    if not config.given.get("authorizer.class.name", "").strip():
        return None
    from kshim.security.authorizer.authorizer import Authorizer

    return Authorizer.configured(config, storage)


def _producer_ids(storage: Storage, random_ids: RandomIds, *, is_new: bool) -> ProducerIds:
    """Logs of another broker have unknown producer ids: new ids start far from them."""
    return ProducerIds(storage, lambda: 0 if is_new else int.from_bytes(random_ids.new_topic_id()[:6], "big") << 8)


def _require_topic_expression(expression: str) -> None:
    from kshim.broker.regular_expressions import require_topic_expression

    require_topic_expression(expression)
