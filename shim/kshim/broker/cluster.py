"""The cluster: topics, logs, the coordinator and the configuration. Nodes are views of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kshim.broker.coordinator_loader import CoordinatorLoader
from kshim.broker.leader_election import ClusterNode, LeaderElection
from kshim.broker.producer_ids import ProducerIds
from kshim.broker.warmup import COORDINATOR, TRANSACTIONS
from kshim.config.dynamic import DynamicConfig
from kshim.coordinator.step import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Append, Now, Step
from kshim.partitions.durability import FsyncPolicy
from kshim.partitions.internal_topics import make_events_topic, make_internal_topic
from kshim.partitions.leadership import Leadership
from kshim.partitions.partition import Partition, Topic
from kshim.partitions.partitions import Partitions
from kshim.scheduling.background_tasks import BackgroundTasks
from kshim.scheduling.timers import Timers
from kshim.storage.log import LogError
from kshim.storage.storage import Storage
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.transactions import Transactions
    from kshim.config.broker_config import BrokerConfig
    from kshim.coordinator.groups.classic.group import Group
    from kshim.coordinator.groups.coordinator import GroupCoordinator
    from kshim.coordinator.groups.events import Event
    from kshim.coordinator.transactions.coordinator import TransactionCoordinator
    from kshim.history.history import History
    from kshim.security.authentication.credentials import ScramCredentials
    from kshim.security.authorizer.authorizer import Authorizer
    from kshim_protocol.schema import Request


# APIs whose handlers change a shard's state: those of groups and offsets, DeleteTopics and WriteTxnMarkers; those of
# transactions.
_SHARD_APIS = frozenset({8, 9, 11, 12, 13, 14, 15, 16, 20, 27, 28, 42, 47})
_TRANSACTION_APIS = frozenset({22, 24, 25, 26, 65, 66})


class RandomIds:
    """Where fresh identities come from; randomness is injected here and nowhere else.

    `new_member_suffix() -> str` is a UUID in text form, `new_topic_id() -> bytes` 16 random bytes.
    """

    __slots__ = ("new_member_suffix", "new_topic_id")

    def __init__(self, new_member_suffix: Callable[[], str], new_topic_id: Callable[[], bytes]) -> None:
        self.new_member_suffix = new_member_suffix
        self.new_topic_id = new_topic_id


class Cluster:
    """Everything nodes share. `on_event` gets each coordinator event; `on_defect` each exception that should not be.

    `on_corrupt` hears of a log that cannot be loaded because records in it are damaged: somebody has to decide. There are
    `node_count` nodes, with ids from `config.node_id` on; `nodes` holds those that are live, by id.
    """

    def __init__(
        self,
        config: BrokerConfig,
        storage: Storage,
        identities: RandomIds,
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
        self.timers = Timers()
        self.partitions = Partitions(
            config,
            storage,
            identities.new_topic_id,
            self.leadership,
            fsync=fsync,
            fsync_interval_ms=fsync_interval_ms,
            timers=self.timers,
            background_tasks=self.background_tasks,
            is_loading=self._is_loading,
            on_taken=self._log_taken,
            on_repaired=self._log_repaired,
            report=on_defect,
        )
        self.dynamic_configs.on_broker_change.append(self.partitions.broker_configured)
        self.topics = self.partitions.topics
        self.leader_election = LeaderElection(
            self.leadership, self.topics, on_moved=self._shard_moved, report=on_defect
        )
        self.known_nodes = self.leader_election.known_nodes
        self.known_node = self.leader_election.known_node
        self.durability = self.partitions.durability
        self.fetch_purgatory = self.partitions.fetch_purgatory
        self.coordinator_loader = CoordinatorLoader(
            self, OFFSETS_TOPIC, COORDINATOR, lambda: self.coordinator, lambda: self._coordinator
        )
        self.transaction_loader = CoordinatorLoader(
            self, TRANSACTIONS_TOPIC, TRANSACTIONS, lambda: self.transactions, lambda: self.made_transactions
        )
        self._identities = identities
        self._coordinator: GroupCoordinator | None = None
        self._history: History | None = None
        self.on_event, self.on_corrupt = on_event, on_corrupt
        self.report = on_defect
        self.authorizer = _authorizer(config, storage)
        """Decides who may do what; None: everybody may do everything."""
        self._scram_credentials: ScramCredentials | None = None
        self._producer_ids = _producer_ids(storage, identities, is_new=not len(self.topics))
        self._transactions: Transactions | None = None

    def start(self, now: Callable[[], Now]) -> None:
        """Begin all services, once, when every node is there. `now` is the group clock. The order, and why:

        1. The topic of the history is made before clients come, so that nobody who subscribes by pattern is rebalanced.
        2. Both coordinators begin to read their shards: a request that comes before its shard was read is refused with
           COORDINATOR_LOAD_IN_PROGRESS, never answered from less than was stored.
        3. The log cleaner and the retention begin. They leave a log alone as long as its shard is being read.

        What these begin runs as background tasks and timers: the server starts those (`kshim.server.serve`) before it
        accepts connections, and warms up codecs in idle turns after that. `close` ends all in the opposite order.
        Raises LogError.
        """
        make_events_topic(self.topics, self.config)
        self.coordinator_loader.begin(now)
        self.transaction_loader.begin(now)
        self.partitions.begin(now)

    # The coordinators

    @property
    def coordinator(self) -> GroupCoordinator:
        """The group coordinator. Its modules are half the start-up, so it is made when first asked for."""
        if self._coordinator is None:
            from kshim.coordinator.groups.coordinator import GroupCoordinator

            group_config = self.config.group_config()
            topic = self.topics.named(OFFSETS_TOPIC)
            if topic is not None:  # made by an earlier run, perhaps with another configuration
                group_config.offsets_topic_num_partitions = len(topic.partitions)
            self._coordinator = GroupCoordinator(
                group_config, topics=self.topics, new_id=self._identities.new_member_suffix
            )
            self._coordinator.on_load_wanted = self.coordinator_loader.wanted
            self.coordinator_loader.coordinator_made(self._coordinator)
        return self._coordinator

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator. Made when first asked for: most clusters never are."""
        if self._transactions is None:
            from kshim.broker.transactions import Transactions

            self._transactions = Transactions(self)
            self._transactions.coordinator.on_load_wanted = self.transaction_loader.wanted
            self.transaction_loader.coordinator_made(self._transactions.coordinator)
        return self._transactions.coordinator

    @property
    def made_transactions(self) -> TransactionCoordinator | None:
        """The transaction coordinator, if anybody has needed it."""
        return None if self._transactions is None else self._transactions.coordinator

    @property
    def made_coordinator(self) -> GroupCoordinator | None:
        """The group coordinator, if anybody has needed it."""
        return self._coordinator

    @property
    def scram_credentials(self) -> ScramCredentials:
        """The users' SCRAM credentials, read when they are first needed. Raises LogError."""
        if self._scram_credentials is None:
            from kshim.security.authentication.credentials import ScramCredentials

            self._scram_credentials = ScramCredentials.of(self.storage)
        return self._scram_credentials

    @property
    def history(self) -> History:
        """Why groups rebalanced: see `docs/design/events.md`. Made with the first event, as the coordinator is."""
        if self._history is None:
            from kshim.history.history import History

            self._history = History.configured(
                self.config,
                self.topics,
                self.timers,
                run=self._identities.new_topic_id().hex(),
                broker_of=lambda partition: self.offsets_partition(partition).leader.leader_id,
                find_group=self._find_group,
                on_defect=self.report,
            )
        return self._history

    def _find_group(self, group_id: str) -> Group | None:
        shard = self.coordinator.shard_of(group_id)
        return None if shard is None else shard.groups.get(group_id)

    def next_group_deadline(self) -> int | None:
        """When the next timer of a coordinator or of the retention is due (ms, `Now.mono_ms`), or None."""
        retention_ms = self.partitions.retention.next_ms
        group_ms = None if self._coordinator is None else self._coordinator.next_deadline()
        if self._transactions is not None:
            transaction_ms = self._transactions.coordinator.next_deadline()
            if group_ms is None or (transaction_ms is not None and transaction_ms < group_ms):
                group_ms = transaction_ms
        if group_ms is None or (retention_ms is not None and retention_ms < group_ms):
            return retention_ms
        return group_ms

    def advance(self, now: Now) -> None:
        """Fire the timers that are due. A coordinator stops at each write: what follows depends on its fate."""
        self.partitions.retention.advance(now)
        for coordinator in (self._coordinator, self.made_transactions):
            if coordinator is not None:
                coordinator.partition_at_work = None
        for coordinator in (self._coordinator, self.made_transactions):
            if coordinator is not None:
                while (deadline_ms := coordinator.next_deadline()) is not None and deadline_ms <= now.mono_ms:
                    self.apply(coordinator.advance(now))
                coordinator.partition_at_work = None

    # Appending and answering

    def apply(self, step: Step) -> None:
        """Carry out a Step: append, tell the coordinator how it went, then release replies, then publish events.

        Where replies wait until they are safe from power loss, they and the events are released after that.
        """
        for append in step.appends:  # grows when what follows from an append brings another
            try:
                partition = self._shard_partition(append)
                partition.topic.batch_validator(self.config).check_coordinator_batch(append.batch)
                base_offset = partition.append(append.batch)
            except KafkaError as error:
                append.failed(error.code, step)
            except LogError as error:
                self.report(error, append)
                append.failed(ErrorCode.KAFKA_STORAGE_ERROR, step)
            else:
                append.written(base_offset, step)
        if self.durability.replies_wait and (step.replies or step.events):
            undurable = self.durability.undurable(self.partitions_of(step))
            if undurable:
                self._hold(step, undurable)
                if self._transactions is not None:
                    self._transactions.go_on(step)
                return
        for ticket, response in step.replies:
            ticket.complete(response)  # type: ignore[attr-defined]
        if step.events:
            self._publish(step.events)
        if self._transactions is not None:
            self._transactions.go_on(step)

    def _shard_partition(self, append: Append) -> Partition:
        """Where a coordinator's batch belongs. Raises LogError when its topic cannot be made."""
        if append.topic == OFFSETS_TOPIC:
            self.coordinator.partition_at_work = append.partition
            return self.offsets_partition(append.partition)
        self.transactions.partition_at_work = append.partition
        return self.transactions_topic().partitions[append.partition]

    def partitions_of(self, step: Step) -> list[Partition]:
        """Those whose state the step is made from, or that it has changed."""
        topic = self.topics.named(step.topic)
        if topic is None:
            return []
        return [topic.partitions[index] for index in {*step.partitions, *(append.partition for append in step.appends)}]

    def _hold(self, step: Step, undurable: list[Partition]) -> None:
        """Release a step once its logs are durable; where one has lost what it held, its replies become errors."""

        def release(lost: Collection[Partition]) -> None:
            for ticket, response in step.replies:
                self._complete(ticket, response, ErrorCode.COORDINATOR_NOT_AVAILABLE if lost else None)
            if len(undurable) == 1 and not lost:
                self._publish(step.events)

        self.durability.when_durable(undurable, release)
        if len(undurable) > 1:  # nobody's events wait for another shard
            for partition in undurable:
                events = [event for event in step.events if event.partition == partition.index]
                self.durability.when_durable((partition,), partial(self._publish_unless_lost, events))
            waiting = {partition.index for partition in undurable}
            self._publish(event for event in step.events if event.partition not in waiting)

    def _complete(self, ticket: Any, response: object, error: ErrorCode | None) -> None:
        """Answer a request that waited; what goes wrong must not stop the others."""
        try:
            if error is not None:
                ticket.refuse(error)
            else:
                ticket.complete(response)
        except Exception as defect:
            self.report(defect, ticket)

    def _publish_unless_lost(self, events: Iterable[Event], lost: Collection[Partition]) -> None:
        if not lost:
            self._publish(events)

    def _publish(self, events: Iterable[Event]) -> None:
        listeners = (self.history.observe, self.on_event)
        for event in events:
            for listener in listeners:
                try:
                    listener(event)
                except Exception as error:  # whoever listens must not disturb the group
                    self.report(error, event)

    # Shards and their logs

    def _is_loading(self, partition: Partition) -> bool:
        loader = self.loads_of(partition)
        return loader is not None and loader.is_pending(partition.index)

    def _shard_moved(self, partition: Partition, is_led: bool) -> None:
        loader = self.loads_of(partition)
        if loader is not None:
            loader.moved(partition.index, is_led=is_led)

    def _log_taken(self, partition: Partition) -> None:
        loader = self.loads_of(partition)
        if loader is not None:
            loader.drop(partition.index)

    def _log_repaired(self, partition: Partition) -> None:
        loader = self.loads_of(partition)
        if loader is not None:
            loader.load(partition.index)

    def defect(self, error: BaseException, request: Request[Any] | None) -> None:
        """An exception nobody planned for: report it, and load the shard it may have left half changed again.

        `request` is what was being handled, None for a timer.
        """
        self.report(error, request)
        api_key = None if request is None else request.info.api_key
        if self._coordinator is not None and (api_key is None or api_key in _SHARD_APIS):
            partition = self._coordinator.partition_at_work
            if partition is not None:
                self.reload_shard(partition)
        if self._transactions is not None and (api_key is None or api_key in _TRANSACTION_APIS):
            self._transactions.reload()

    # The topics of the coordinators

    def offsets_topic(self) -> Topic:
        """`__consumer_offsets`, made when it is first needed. Raises LogError."""
        topic = self.topics.named(OFFSETS_TOPIC)
        return make_internal_topic(OFFSETS_TOPIC, self.topics, self.config) if topic is None else topic

    def transactions_topic(self) -> Topic:
        """`__transaction_state`, made when it is first needed. Raises LogError."""
        topic = self.topics.named(TRANSACTIONS_TOPIC)
        return make_internal_topic(TRANSACTIONS_TOPIC, self.topics, self.config) if topic is None else topic

    def offsets_partition(self, index: int) -> Partition:
        """One partition of the offsets topic."""
        return self.offsets_topic().partitions[index]

    def loads_of(self, partition: Partition) -> CoordinatorLoader | None:
        """Who reads a partition into its coordinator; None for one that is no shard."""
        name = partition.topic.name
        if name == OFFSETS_TOPIC:
            return self.coordinator_loader
        return self.transaction_loader if name == TRANSACTIONS_TOPIC else None

    def reload_shard(self, index: int) -> None:
        """Forget a shard's state and read it from its log again."""
        self.coordinator_loader.drop(index, ErrorCode.NOT_COORDINATOR)
        self.coordinator_loader.load(index)

    # Nodes

    @property
    def nodes(self) -> list[ClusterNode]:
        """The nodes that are live, by id."""
        return self.leader_election.nodes

    def leader_of(self, topic: str, partition: int) -> int:
        """The id of the node that leads a partition. Raises LookupError for one there is not."""
        found = self.topics.partition(topic, partition)
        if found is None:
            raise LookupError(f"there is no partition {topic}-{partition}")
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
        """Remove a topic: waiting Fetches are answered, its committed offsets are forgotten. Raises LogError."""
        self.delete_topics([topic], now)

    def delete_topics(self, topics: Sequence[Topic], now: Now) -> None:
        """`delete_topic` of many at once, or of none. Raises LogError."""
        self.topics.delete_all(topics)
        self.apply(self.coordinator.topics_deleted([topic.name for topic in topics], now))

    def new_session_id(self) -> int:
        """A random number of 32 bits."""
        return int.from_bytes(self._identities.new_topic_id()[:4], "big")

    def next_producer_id(self) -> int:
        """A fresh producer id. Raises LogError."""
        return self._producer_ids.next()

    def close(self) -> None:
        """Close every log and give up the storage. Who still waits for a sync is not told any more."""
        if self._history is not None:
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


def _producer_ids(storage: Storage, identities: RandomIds, *, is_new: bool) -> ProducerIds:
    """Logs that came from elsewhere remember producers nobody has counted: ids begin where theirs will not be."""
    return ProducerIds(storage, lambda: 0 if is_new else int.from_bytes(identities.new_topic_id()[:6], "big") << 8)
