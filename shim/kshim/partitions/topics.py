"""Topics and partitions: what exists, under which name and id, and the log behind each partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from kshim.coordinator.step import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kshim.partitions.leadership import Leadership
from kshim.storage.log import Log, LogError
from kshim.storage.topic_spec import PartitionLeader, TopicSpec

if TYPE_CHECKING:
    from kshim.partitions.batch_validator import BatchValidator
    from kshim.partitions.producer_state import ProducerState


INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})


class Storage(Protocol):
    """Where logs and the list of topics live: memory, or a data directory. Calls block; LogError when they fail."""

    def open_log(self, topic: str, partition: int) -> Log:
        """The log of one partition, made when it does not exist."""

    def load_topics(self) -> Iterable[TopicSpec]:
        """The topics of an earlier run."""

    def save_topics(self, topics: Iterable[TopicSpec]) -> None:
        """Remember the topics; whole or not at all."""

    def delete_topic(self, topic: str) -> None:
        """Forget the records of a topic whose logs are closed."""

    def clean_offset(self, topic: str, partition: int) -> int:
        """Up to where a log was compacted, by what an earlier run has saved; 0 when nothing is known."""

    def note_clean_offset(self, topic: str, partition: int, offset: int) -> None:
        """A log was compacted up to there: to be saved one day."""

    def clean_offsets_to_save(self) -> Callable[[], None] | None:
        """Saves what was noted so far: to be called in any thread; it blocks. None when there is nothing to save."""

    def read_document(self, name: str) -> str | None:
        """Something small of the broker's own, e.g. its access rules; None when there is none."""

    def write_document(self, name: str, text: str) -> None:
        """Replace it; whole or not at all."""

    def volume(self) -> tuple[str, int, int]:
        """(directory of the logs, bytes of its volume, bytes of it that are free); -1 where there is no volume."""

    def close(self) -> None:
        """Give up the directory."""


class Partition:
    """One partition: `log` is opened on first use. `leader` says which node answers for it, in which epoch."""

    __slots__ = ("_failure", "_log", "_topics", "index", "leader", "producers", "topic")

    def __init__(self, topic: Topic, index: int, topics: Topics, leader: PartitionLeader) -> None:
        self.topic = topic
        self.index = index
        self.leader = leader
        self._topics = topics
        self._log: Log | None = None
        self._failure: LogError | None = None
        self.producers: ProducerState | None = None
        """See `ProducerState.of`."""

    @property
    def log(self) -> Log:
        """The records. Raises LogError when the files cannot be opened, and while they are repaired."""
        if self._log is None:
            if self._failure is not None:
                raise LogError(str(self._failure))
            self._log = self._topics.storage.open_log(self.topic.name, self.index)
            try:
                self._topics.on_open(self)
            except LogError:
                self._log = None
                raise
            if self.leader.leader_epoch:
                self._use_epoch(self._log)
        return self._log

    def begin_epoch(self, leader_id: int, *, preferred_id: int) -> None:
        """Have `leader_id` lead from now on. Where the log cannot be opened now, its epoch begins when it can."""
        old = self.leader
        self.leader = PartitionLeader(preferred_id, leader_id, old.leader_epoch + 1, old.epochs)
        with suppress(LogError):
            self._use_epoch(self.log)

    def end_epoch(self, leader: PartitionLeader) -> None:
        """Take `begin_epoch` back: `leader` is what was before. Nothing was appended since."""
        self.leader = leader
        if self._log is not None:
            self._log.leader_epoch = leader.leader_epoch

    def _use_epoch(self, log: Log) -> None:
        """Stamp batches with the leader's epoch, which begins here if it has not begun, or began in what was lost."""
        leader = self.leader
        log.leader_epoch = leader.leader_epoch
        last_epoch, first_offset = leader.epochs[-1] if leader.epochs else (0, 0)
        if last_epoch < leader.leader_epoch or first_offset > log.end_offset:
            from kshim.partitions.leader_epochs import begun  # which a node that is alone never needs

            self.leader = leader._replace(epochs=begun(leader.epochs, leader.leader_epoch, log.end_offset))

    def epoch_at(self, offset: int) -> int:
        """The leader epoch in which the record at `offset` was written, or will be."""
        if not self.leader.epochs:
            return 0
        from kshim.partitions.leader_epochs import epoch_at

        return epoch_at(self.leader.epochs, offset)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """See `leader_epochs.end_of_epoch`; the newest ends at the high watermark. Raises LogError."""
        from kshim.partitions.leader_epochs import end_of_epoch

        start_offset = self.log.start_offset
        return end_of_epoch(self.leader.epochs, epoch, start_offset=start_offset, end_offset=self.high_watermark)

    @property
    def opened_log(self) -> Log | None:
        """The log, if it has been used."""
        return self._log

    @property
    def is_failed(self) -> bool:
        """Whether the log has been taken out for repair."""
        return self._failure is not None

    @property
    def high_watermark(self) -> int:
        """End of what consumers may read: with one replica, the end of the log, or of what is durable in it."""
        log = self.log
        return log.durable_offset if self._topics.hides_undurable else log.end_offset

    @property
    def last_stable_offset(self) -> int:
        """Up to where consumers read that want committed records only.

        Where the start of the log was moved into an open transaction, that is the start; or, as in Kafka, the base
        offset of the batch that holds it. Raises LogError, KafkaError: see `ProducerState.of`.
        """
        high_watermark = self.high_watermark
        producers = self.producers
        if producers is None:
            from kshim.partitions.producer_state import ProducerState

            producers = ProducerState.of(self)
        transactions = producers.transactions
        if not transactions:
            return high_watermark
        stable_offset = transactions.last_stable_offset(high_watermark)
        start_offset = self.log.start_offset
        if stable_offset >= start_offset:
            return stable_offset
        first_batch = self.log.read(start_offset, 1)
        return max(stable_offset, int.from_bytes(first_batch[:8], "big") if first_batch else start_offset)

    def readable_bytes(self, offset: int, end_offset: int) -> int:
        """Bytes from the batch holding `offset` up to that which holds `end_offset`. Raises OffsetOutOfRange, LogError."""
        log = self.log
        size_bytes = log.bytes_from(offset)
        if end_offset < log.end_offset:
            size_bytes -= log.bytes_from(max(end_offset, log.start_offset))
        return max(size_bytes, 0)

    def read(self, offset: int, end_offset: int, max_bytes: int, *, at_least_one_batch: bool) -> bytes:
        """As `Log.read`, up to the batch that holds `end_offset`. Raises OffsetOutOfRange, LogError."""
        log = self.log
        if end_offset < log.end_offset:
            readable_bytes = self.readable_bytes(offset, end_offset)
            if not readable_bytes:
                return b""
            max_bytes = min(max_bytes, readable_bytes)
        return log.read(offset, max_bytes, at_least_one_batch=at_least_one_batch)

    def take_log(self, failure: LogError) -> Log | None:
        """Take the log out for repair, None when it is not open. Until `give_back` or `close`, `log` raises `failure`."""
        log, self._log = self._log, None
        if log is not None:
            self._failure = failure
            self.producers = None
        return log

    def give_back(self, log: Log) -> bool:
        """The log that was taken can be used again; False when nobody wants it any more."""
        if self._failure is None:
            return False
        self._failure = None
        self._log = log
        self._use_epoch(log)
        return True

    def close(self) -> None:
        """Close the log if it is open."""
        self._failure = None
        if self._log is not None:
            self._topics.on_close(self)
            log, self._log = self._log, None
            log.close()

    def __repr__(self) -> str:
        return f"<{self.topic.name}-{self.index}>"


class Topic:
    """A topic with its partitions in index order. `configs` holds only what was set for this topic."""

    __slots__ = ("batch_validator", "configs", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, configs: dict[str, str]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs = configs
        self.partitions: list[Partition] = []
        self.batch_validator: BatchValidator | None = None
        """See `BatchValidator.of`."""

    @property
    def is_internal(self) -> bool:
        """Whether clients should hide it (Kafka marks its two internal topics)."""
        return self.name in INTERNAL_TOPICS


def _nothing(_partition: Partition) -> None:
    pass


class NewTopic:
    """A topic to be made, every check passed. `leader_ids` names a node for each partition; None: in turn."""

    __slots__ = ("configs", "leader_ids", "name", "partition_count")

    def __init__(
        self, name: str, partition_count: int, configs: dict[str, str], leader_ids: Sequence[int] | None = None
    ) -> None:
        self.name = name
        self.partition_count = partition_count
        self.configs = configs
        self.leader_ids = leader_ids


class Topics:
    """All topics, by name and by id. Also the coordinator's `TopicCatalog`.

    `on_open` is called when the log of a partition is used first and may raise LogError, `on_close` before it is
    closed. `hides_undurable`: consumers see of a log only what survives power loss.
    """

    def __init__(
        self,
        storage: Storage,
        new_topic_id: Callable[[], bytes],
        *,
        on_open: Callable[[Partition], None] = _nothing,
        on_close: Callable[[Partition], None] = _nothing,
        hides_undurable: bool = False,
        leadership: Leadership | None = None,
    ) -> None:
        self.storage = storage
        self.on_open = on_open
        self.on_close = on_close
        self.hides_undurable = hides_undurable
        self._new_topic_id = new_topic_id
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._alike: dict[str, list[str]] = {}
        self._leadership = leadership or Leadership((1,))
        is_changed = False
        for spec in storage.load_topics():
            topic = self._add(spec)
            is_changed = is_changed or self._spec(topic).leaders != spec.leaders
        if is_changed:
            self._save()

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def named(self, name: str) -> Topic | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def with_id(self, topic_id: bytes) -> Topic | None:
        """The topic of that id (16 bytes)."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        """One partition, or None when topic or index do not exist."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def create(
        self,
        name: str,
        partition_count: int,
        configs: dict[str, str] | None = None,
        leader_ids: Sequence[int] | None = None,
    ) -> Topic:
        """Make a topic. The caller has checked name, count and that it does not exist. Raises LogError.

        `leader_ids` names a node for each partition; None: nodes get them in turn.
        """
        (topic,) = self.create_all([NewTopic(name, partition_count, configs or {}, leader_ids)])
        return topic

    def create_all(self, new_topics: Sequence[NewTopic]) -> list[Topic]:
        """`create` many, or none. All topics are written down each time, so many are made together. Raises LogError."""
        topics = [
            self._add(TopicSpec(new.name, self._new_topic_id(), new.partition_count, new.configs), new.leader_ids)
            for new in new_topics
        ]
        if topics:
            try:
                self._save()
            except LogError:
                for topic in topics:
                    self._drop(topic)
                raise
        return topics

    def alike(self, name: str) -> Iterable[str]:
        """Names of topics that differ from `name` in '.' and '_' at most."""
        return self._alike.get(name.replace(".", "_"), ())

    def grow(self, topic: Topic, partition_count: int, leader_ids: Sequence[int] | None = None) -> None:
        """Add partitions up to `partition_count`; `leader_ids` as in `create`, of the new ones. Raises LogError."""
        old_count = len(topic.partitions)
        self._extend(topic, self._leaders_of_new(partition_count - old_count, leader_ids))
        try:
            self._save()
        except LogError:
            del topic.partitions[old_count:]
            raise

    def delete_all(self, topics: Sequence[Topic]) -> None:
        """Remove topics and their records, or none. Raises LogError."""
        for topic in topics:
            self._drop(topic)
        try:
            self._save()
        except LogError:
            for topic in topics:
                self._enter(topic)
            raise
        for topic in topics:
            for partition in topic.partitions:
                with suppress(LogError):  # what cannot be synced is not wanted any more
                    partition.close()
            self.storage.delete_topic(topic.name)

    def save(self) -> None:
        """Remember topics whose configuration changed. Raises LogError."""
        self._save()

    def close(self) -> None:
        """Close every log. Raises LogError, when all are closed."""
        failure = None
        for topic in self._by_name.values():
            for partition in topic.partitions:
                try:
                    partition.close()
                except LogError as error:
                    failure = failure or error
        if failure is not None:
            raise failure

    def partition_count(self, name: str) -> int | None:
        """Number of partitions, or None when there is no such topic."""
        topic = self._by_name.get(name)
        return None if topic is None else len(topic.partitions)

    def topic_id(self, name: str) -> bytes | None:
        """Id (16 bytes) of a topic."""
        topic = self._by_name.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        """Name of a topic."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def _add(self, spec: TopicSpec, leader_ids: Sequence[int] | None = None) -> Topic:
        topic = Topic(spec.name, spec.topic_id, dict(spec.configs))
        if spec.leaders:
            self._extend(topic, map(self._leadership.restored, spec.leaders))
        else:
            self._extend(topic, self._leaders_of_new(spec.partition_count, leader_ids))
        self._enter(topic)
        return topic

    def _enter(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._alike.setdefault(topic.name.replace(".", "_"), []).append(topic.name)

    def _drop(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        self._alike[topic.name.replace(".", "_")].remove(topic.name)
        if not self._alike[topic.name.replace(".", "_")]:
            del self._alike[topic.name.replace(".", "_")]

    def _leaders_of_new(self, count: int, leader_ids: Sequence[int] | None) -> Iterable[PartitionLeader]:
        return map(self._leadership.of_new, [None] * count if leader_ids is None else leader_ids)

    def _extend(self, topic: Topic, leaders: Iterable[PartitionLeader]) -> None:
        for leader in leaders:
            topic.partitions.append(Partition(topic, len(topic.partitions), self, leader))

    def _spec(self, topic: Topic) -> TopicSpec:
        """What to remember of a topic. Of a node that was alone all along nothing need be said."""
        leaders = tuple(partition.leader for partition in topic.partitions)
        if not self._leadership.is_spread and not any(leader.leader_epoch for leader in leaders):
            leaders = ()
        return TopicSpec(topic.name, topic.topic_id, len(topic.partitions), topic.configs, leaders)

    def _save(self) -> None:
        self.storage.save_topics([self._spec(topic) for topic in self._by_name.values()])
