"""The cluster: topics, logs, the coordinator and the configuration. Nodes are views of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kshim.broker.chores import Chores
from kshim.broker.fetch_waits import FetchWaits
from kshim.broker.topics import OFFSETS_TOPIC, Partition, Storage, Topic, Topics
from kshim.coordinator.step import Now, Step
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kshim.broker.config import BrokerConfig
    from kshim.broker.node import Node
    from kshim.coordinator.coordinator import GroupCoordinator
    from kshim.coordinator.events import Event
    from kshim_protocol.schema import Request

__all__ = ["Cluster", "Identities"]


# APIs whose handlers change a shard's state: those of groups and offsets, and DeleteTopics.
_SHARD_APIS = frozenset({8, 9, 11, 12, 13, 14, 15, 16, 20, 42, 47})


class Identities:
    """Where fresh identities come from; randomness is injected here and nowhere else.

    `new_member_suffix() -> str` is a UUID in text form, `new_topic_id() -> bytes` 16 random bytes.
    """

    __slots__ = ("new_member_suffix", "new_topic_id")

    def __init__(self, new_member_suffix: Callable[[], str], new_topic_id: Callable[[], bytes]) -> None:
        self.new_member_suffix = new_member_suffix
        self.new_topic_id = new_topic_id


class Cluster:
    """Everything nodes share. `on_event` gets each coordinator event; `on_defect` each exception that should not be."""

    def __init__(
        self,
        config: BrokerConfig,
        storage: Storage,
        identities: Identities,
        *,
        cluster_id: str,
        on_event: Callable[[Event], None] = lambda event: None,
        on_defect: Callable[[BaseException, object], None] = lambda error, request: None,
    ) -> None:
        self.config = config
        self.cluster_id = cluster_id
        self.storage = storage
        self.topics = Topics(storage, identities.new_topic_id)
        self._identities = identities
        self._coordinator: GroupCoordinator | None = None
        self.fetch_waits = FetchWaits()
        self.chores = Chores()
        self.nodes: list[Node] = []
        self.on_event = on_event
        self._on_defect = on_defect
        # Logs of an earlier run remember its producers: ids begin where that run's did not.
        self._next_producer_id = int.from_bytes(identities.new_topic_id()[:6], "big") << 8 if len(self.topics) else 0

    # The coordinator

    @property
    def coordinator(self) -> GroupCoordinator:
        """The group coordinator. Its modules are half the start-up, so it is made when first asked for."""
        if self._coordinator is None:
            from kshim.coordinator.coordinator import GroupCoordinator

            group_config = self.config.group_config()
            topic = self.topics.named(OFFSETS_TOPIC)
            if topic is not None:  # made by an earlier run, perhaps with another configuration
                group_config.offsets_topic_num_partitions = len(topic.partitions)
            self._coordinator = GroupCoordinator(
                group_config, topics=self.topics, new_id=self._identities.new_member_suffix
            )
        return self._coordinator

    def next_group_deadline(self) -> int | None:
        """When the coordinator's next timer is due (ms, `Now.mono_ms`), or None."""
        return None if self._coordinator is None else self._coordinator.next_deadline()

    def advance(self, now: Now) -> None:
        """Fire the group timers that are due. The coordinator stops at each write: what follows depends on its fate."""
        step = self.coordinator.advance(now)
        self.apply(step)
        while step.appends:
            step = self.coordinator.advance(now)
            self.apply(step)

    # Appending and answering

    def apply(self, step: Step) -> None:
        """Carry out a Step: append, tell the coordinator how it went, then release replies, then publish events."""
        for append in step.appends:  # grows when what follows from an append brings another
            self.coordinator.partition_at_work = append.partition
            try:
                base_offset = self.append(self.offsets_partition(append.partition), append.batch)
            except LogError as error:
                self._on_defect(error, append)
                append.failed(ErrorCode.KAFKA_STORAGE_ERROR, step)
            else:
                append.written(base_offset, step)
        for ticket, response in step.replies:
            ticket.complete(response)  # type: ignore[attr-defined]
        for event in step.events:
            try:
                self.on_event(event)
            except Exception as error:  # whoever listens must not disturb the group
                self._on_defect(error, event)

    def append(self, partition: Partition, batch: bytes) -> int:
        """Append one batch and wake the Fetches that waited for it. Returns its base offset. Raises LogError."""
        base_offset = partition.log.append(batch)
        if self.fetch_waits:
            self.fetch_waits.appended(partition, len(batch))
        return base_offset

    def defect(self, error: BaseException, request: Request[Any] | None) -> None:
        """An exception nobody planned for: report it, and load the shard it may have left half changed again.

        `request` is what was being handled, None for a timer.
        """
        self._on_defect(error, request)
        if self._coordinator is None or (request is not None and request.info.api_key not in _SHARD_APIS):
            return
        partition = self._coordinator.partition_at_work
        if partition is not None:
            self.reload_shard(partition)

    # The offsets topic

    def offsets_topic(self) -> Topic:
        """`__consumer_offsets`, made when it is first needed."""
        topic = self.topics.named(OFFSETS_TOPIC)
        if topic is None:
            topic = self.topics.create(
                OFFSETS_TOPIC,
                self.config.offsets_topic_num_partitions,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(self.config.offsets_topic_segment_bytes),
                },
            )
        return topic

    def offsets_partition(self, index: int) -> Partition:
        """One partition of the offsets topic."""
        return self.offsets_topic().partitions[index]

    def begin_loading(self) -> list[int]:
        """After a restart: refuse requests of every shard that has records until `load_shard` has read them."""
        topic = self.topics.named(OFFSETS_TOPIC)
        if topic is None:
            return []
        pending = [partition.index for partition in topic.partitions if partition.log.end_offset > 0]
        for index in pending:
            self.coordinator.begin_load(index)
        return pending

    def load_shard(self, index: int, now: Now) -> None:
        """Replay one partition of the offsets topic and open its shard for requests."""
        self.coordinator.replay(index, self._batches(index))
        self.apply(self.coordinator.finish_load(index, now))

    def reload_shard(self, index: int) -> None:
        """Forget a shard's state; the next idle turn reads it from its log again."""
        step = self.coordinator.unload(index)
        # The request that met the defect may be parked in there and is answered already.
        step.replies = [(ticket, response) for ticket, response in step.replies if not ticket.is_answered]  # type: ignore[attr-defined]
        self.apply(step)
        self.coordinator.begin_load(index)
        for node in self.nodes:
            node.load_later(index)
            break

    def _batches(self, index: int) -> Iterator[bytes]:
        return self.offsets_partition(index).log.batches()

    # Topics

    def create_topic(self, name: str, partition_count: int, configs: dict[str, str] | None = None) -> Topic:
        """Make a topic that was checked before. Raises LogError."""
        return self.topics.create(name, partition_count, configs)

    def delete_topic(self, topic: Topic, now: Now) -> None:
        """Remove a topic: waiting Fetches are answered, its committed offsets are forgotten. Raises LogError."""
        self.topics.delete(topic)
        for partition in topic.partitions:
            self.fetch_waits.release(partition)
        self.apply(self.coordinator.topics_deleted([topic.name], now))

    def next_producer_id(self) -> int:
        """A fresh producer id."""
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def close(self) -> None:
        """Close every log and give up the storage."""
        self.topics.close()
        self.storage.close()
