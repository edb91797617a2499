"""The cluster: topics, logs, the coordinator and the configuration. Nodes are views of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kshim.broker.coordinator_loader import CoordinatorLoader
from kshim.broker.producer_ids import ProducerIds
from kshim.broker.warmup import COORDINATOR, TRANSACTIONS
from kshim.config.dynamic import DynamicConfig
from kshim.coordinator.step import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Append, Now, Step
from kshim.partitions.durability import Durability, FsyncPolicy
from kshim.partitions.fetch_purgatory import FetchPurgatory
from kshim.partitions.internal_topics import make_internal_topic
from kshim.partitions.leadership import Leadership
from kshim.partitions.log_cleaner import LogCleaner
from kshim.partitions.log_recovery import LogRecovery
from kshim.partitions.producer_snapshots import SAVE_BYTES, ProducerSnapshots
from kshim.partitions.topics import Partition, Storage, Topic, Topics
from kshim.scheduling.background_tasks import BackgroundTasks
from kshim.scheduling.timers import Timers
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.broker.transactions import Transactions
    from kshim.config.broker_config import BrokerConfig
    from kshim.coordinator.groups.coordinator import GroupCoordinator
    from kshim.coordinator.groups.events import Event
    from kshim.coordinator.transactions.coordinator import TransactionCoordinator
    from kshim.history.history import History
    from kshim.security.authentication.credentials import ScramCredentials
    from kshim.security.authorizer.authorizer import Authorizer
    from kshim.storage.log import Log
    from kshim_protocol.schema import Request


# APIs whose handlers change a shard's state: those of groups and offsets, DeleteTopics and WriteTxnMarkers; those of
# transactions.
_SHARD_APIS = frozenset({8, 9, 11, 12, 13, 14, 15, 16, 20, 27, 28, 42, 47})
_TRANSACTION_APIS = frozenset({22, 24, 25, 26, 65, 66})

_PRODUCER_ID_AT = 43  # in a batch; its first byte says whether there is one


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
        self.dynamic_configs = DynamicConfig(config, storage, self.leadership.node_ids, self._broker_configured)
        self.background_tasks = BackgroundTasks()
        self.timers = Timers()
        self.log_recovery = LogRecovery(self)
        self.durability = Durability(
            fsync,
            fsync_interval_ms,
            timers=self.timers,
            start=lambda task: self.background_tasks.add(task, urgent=True),
            on_durable=self._became_durable,
            on_lost=self.log_recovery.begin,
            report=on_defect,
        )
        self.log_cleaner = LogCleaner(self)
        self.producer_snapshots = ProducerSnapshots(self)
        self.topics = Topics(
            storage,
            identities.new_topic_id,
            on_open=self._opened,
            on_close=self._closing,
            hides_undurable=self.durability.replies_wait,
            leadership=self.leadership,
        )
        self.coordinator_loader = CoordinatorLoader(
            self, OFFSETS_TOPIC, COORDINATOR, lambda: self.coordinator, lambda: self._coordinator
        )
        self.transaction_loader = CoordinatorLoader(
            self, TRANSACTIONS_TOPIC, TRANSACTIONS, lambda: self.transactions, lambda: self.made_transactions
        )
        self._identities = identities
        self._coordinator: GroupCoordinator | None = None
        self.fetch_purgatory = FetchPurgatory()
        self._history: History | None = None
        self.nodes: list[Node] = []
        self.known_nodes: dict[int, Node] = {}  # the others, too
        self.on_event, self.on_corrupt = on_event, on_corrupt
        self.report = on_defect
        self.authorizer = _authorizer(config, storage)
        """Decides who may do what; None: everybody may do everything."""
        self._scram_credentials: ScramCredentials | None = None
        self._producer_ids = _producer_ids(storage, identities, is_new=not len(self.topics))
        self._transactions: Transactions | None = None

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
            from kshim.security.authentication.stored import stored_credentials

            self._scram_credentials = stored_credentials(self.storage)
        return self._scram_credentials

    @property
    def history(self) -> History:
        """Why groups rebalanced: see `docs/design/events.md`. Made with the first event, as the coordinator is."""
        if self._history is None:
            from kshim.history.making import make_history

            self._history = make_history(self, run=self._identities.new_topic_id().hex())
        return self._history

    def next_group_deadline(self) -> int | None:
        """When the next timer of a coordinator or of the retention is due (ms, `Now.mono_ms`), or None."""
        retention_ms = self.log_cleaner.next_ms
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
        self.log_cleaner.advance(now)
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
                base_offset = self.append(self._shard_partition(append), append.batch)
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

    def append(self, partition: Partition, batch: bytes, now_ms: int = -1) -> int:
        """Append one batch and wake the Fetches that waited for it. Returns its base offset. Raises LogError.

        What it says of producers and transactions is remembered; `now_ms` (Unix time) is when they were heard of.
        """
        base_offset = partition.log.append(batch)
        self.durability.appended(partition)
        self.log_cleaner.appended(partition, len(batch))
        stable_bytes = len(batch)
        producers = partition.producers
        if producers is not None:
            if producers.transactions or batch[_PRODUCER_ID_AT] < 0x80:
                stable_bytes = producers.after_append(partition, batch, base_offset, now_ms)
            producers.unsaved_bytes += len(batch)
            if producers.unsaved_bytes > SAVE_BYTES:
                self.producer_snapshots.save(partition)
        if self.fetch_purgatory and not self.durability.replies_wait:
            self.fetch_purgatory.appended(partition, len(batch), stable_bytes)
        return base_offset

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

    # Logs

    def _opened(self, partition: Partition) -> None:
        self.durability.opened(partition)
        self.log_cleaner.opened(partition)
        self.producer_snapshots.opened(partition)

    def _closing(self, partition: Partition) -> None:
        self.durability.closing(partition)
        self.log_cleaner.closing(partition)
        self.producer_snapshots.closing(partition)

    def _became_durable(self, partition: Partition, log: Log, before: int) -> None:
        """More of a log is safe from power loss: where only that is shown, Fetches may have waited for it."""
        self.log_cleaner.became_durable(partition, log)
        if not self.fetch_purgatory or not self.durability.replies_wait:
            return
        try:
            size_bytes = log.bytes_from(max(before, log.start_offset)) - log.bytes_from(log.durable_offset)
            stable_bytes = size_bytes
            producers = partition.producers
            if producers is not None and producers.transactions:
                stable_bytes = producers.after_sync(log, before)
        except LogError:  # its beginning was deleted meanwhile
            self.fetch_purgatory.release(partition)
        else:
            self.fetch_purgatory.appended(partition, size_bytes, stable_bytes)

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

    def add_node(self, node: Node) -> None:
        """A node is there, and live. To be called before requests come. Raises ValueError for an id not foreseen."""
        if node.node_id not in self.leadership.node_ids:
            raise ValueError(f"no node {node.node_id}: the nodes of this cluster are {self.leadership.node_ids}")
        self.known_nodes[node.node_id] = node
        self.nodes = [self.known_nodes[node_id] for node_id in sorted(self.known_nodes)]

    def leader_of(self, topic: str, partition: int) -> int:
        """The id of the node that leads a partition. Raises LookupError for one there is not."""
        found = self.topics.partition(topic, partition)
        if found is None:
            raise LookupError(f"there is no partition {topic}-{partition}")
        return found.leader.leader_id

    def stop_node(self, node_id: int) -> None:
        """End a node: live ones lead in its place, its clients are cut off. See `moves.stop_node`."""
        from kshim.broker.leader_election import stop_node

        stop_node(self, node_id)

    def start_node(self, node_id: int) -> None:
        """Have a node that was stopped serve again. See `moves.start_node`."""
        from kshim.broker.leader_election import start_node

        start_node(self, node_id)

    def move(self, topic: str, partition: int, to: int) -> None:
        """Have the node `to` lead a partition. See `moves.move`."""
        from kshim.broker.leader_election import move

        move(self, topic, partition, to)

    # Topics

    def create_topic(
        self,
        name: str,
        partition_count: int,
        configs: dict[str, str] | None = None,
        leader_ids: Sequence[int] | None = None,
    ) -> Topic:
        """Make a topic that was checked before; see `Topics.create`. Raises LogError."""
        return self.topics.create(name, partition_count, configs, leader_ids)

    def delete_topic(self, topic: Topic, now: Now) -> None:
        """Remove a topic: waiting Fetches are answered, its committed offsets are forgotten. Raises LogError."""
        self.delete_topics([topic], now)

    def delete_topics(self, topics: Sequence[Topic], now: Now) -> None:
        """`delete_topic` of many at once, or of none. Raises LogError."""
        self.topics.delete_all(topics)
        for topic in topics:
            for partition in topic.partitions:
                self.fetch_purgatory.release(partition)
        self.apply(self.coordinator.topics_deleted([topic.name for topic in topics], now))

    def _broker_configured(self) -> None:
        """What topics have from the configuration of brokers may have changed."""
        for topic in self.topics:
            topic.batch_validator = None
            self.log_cleaner.configured(topic)

    def delete_before(self, partition: Partition, offset: int) -> None:
        """Move a partition's start up to `offset`, which lies behind it. Who waits there is answered. Raises LogError."""
        partition.log.delete_before(offset)
        if partition.producers is not None:
            partition.producers.transactions.start_moved(offset)
        self.log_cleaner.start_moved(partition)
        self.fetch_purgatory.release(partition)

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
        self.durability.stop()
        self.log_cleaner.compact_before_end()
        self.log_recovery.close()
        try:
            self.topics.close()
        finally:
            self.storage.close()


def _authorizer(config: BrokerConfig, storage: Storage) -> Authorizer | None:
    if not config.given.get("authorizer.class.name", "").strip():
        return None
    from kshim.security.authorizer.making import make_authorizer

    return make_authorizer(config, storage)


def _producer_ids(storage: Storage, identities: RandomIds, *, is_new: bool) -> ProducerIds:
    """Logs that came from elsewhere remember producers nobody has counted: ids begin where theirs will not be."""
    return ProducerIds(storage, lambda: 0 if is_new else int.from_bytes(identities.new_topic_id()[:6], "big") << 8)
