"""A topic and its partitions, each with its log and what must be known of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from kshim.coordinator.step import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from kshim.storage.log import Log, LogError
from kshim.storage.topic_spec import PartitionLeader
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.records.layout import PRODUCER_ID_AT

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.partitions.batch_validator import BatchValidator
    from kshim.partitions.fetch_purgatory import FetchPurgatory
    from kshim.partitions.producer_state import ProducerState

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})

SNAPSHOT_BYTES: Final = 16 << 20
"""So much may be appended before the next snapshot of the producers is due."""


class PartitionServices(Protocol):
    """What all partitions of a cluster share; `partitions.Partitions` implements it.

    `hides_undurable`: consumers see of a log only what survives power loss. `fetch_purgatory` holds the Fetches that
    wait for data.
    """

    hides_undurable: bool
    fetch_purgatory: FetchPurgatory
    before_append: Callable[[Partition], None] | None
    """Called with each partition that something is about to be appended to. Raises LogError, which fails the append."""
    leaders_version: int
    """Another one after each change of a leader."""

    def open_log(self, topic: str, index: int) -> Log:
        """See `Storage.open_log`. Raises LogError."""

    def opened(self, partition: Partition) -> None:
        """The log is used for the first time, or again after it was closed. Raises LogError."""

    def closing(self, partition: Partition) -> None:
        """The log is about to be closed."""

    def appended(self, partition: Partition, size_bytes: int) -> None:
        """A batch was appended. Called for each one, so brief."""

    def snapshot_due(self, partition: Partition) -> None:
        """`SNAPSHOT_BYTES` were appended since the last snapshot of the producers."""

    def start_moved(self, partition: Partition) -> None:
        """The beginning of the log was deleted."""

    def report(self, error: BaseException, subject: object) -> None:
        """Something failed that nobody waits for."""


class Partition:
    """One partition: its log, the state of its producers, and the requests that wait for its records.

    `log` is opened on first use. `leader` says which node answers for it, in which epoch. Kafka: Partition, UnifiedLog.
    """

    __slots__ = (  # there may be many thousands that are never opened, and it saves a quarter of their memory
        "_failure",
        "_log",
        "_services",
        "index",
        "leader",
        "producers",
        "topic",
    )

    def __init__(self, topic: Topic, index: int, services: PartitionServices, leader: PartitionLeader) -> None:
        self.topic = topic
        self.index = index
        self.leader = leader
        self._services = services
        self._log: Log | None = None
        self._failure: LogError | None = None
        self.producers: ProducerState | None = None
        """None until the log was opened, and while a long one is being read; see `require_producers`."""

    @property
    def log(self) -> Log:
        """The records. Raises LogError when the files cannot be opened, and while they are repaired."""
        if self._log is None:
            if self._failure is not None:
                raise LogError(str(self._failure))
            self._log = self._services.open_log(self.topic.name, self.index)
            try:
                self._services.opened(self)
            except LogError:
                self._log = None
                raise
            if self.leader.leader_epoch:
                self._use_epoch(self._log)
        return self._log

    # Appending and deleting

    def append(self, batch: bytes, now_ms: int = -1) -> int:
        """Append one batch and wake the Fetches that waited for it. Returns its base offset.

        Raises LogError when the batch is not in the log; what fails after that is reported.
        What it says of producers and transactions is remembered; `now_ms` (Unix time) is when they were heard of.
        """
        services = self._services
        if services.before_append is not None:
            services.before_append(self)
        log = self._log
        if log is None:
            log = self.log
        base_offset = log.append(batch)
        size_bytes = stable_bytes = len(batch)
        services.appended(self, size_bytes)
        producers = self.producers
        if producers is not None:
            if batch[PRODUCER_ID_AT] < 0x80 or producers.transactions:
                try:
                    stable_bytes = producers.after_append(log, self.high_watermark, batch, base_offset, now_ms)
                except LogError as error:  # how much may be read now is not known
                    services.report(error, self)
                    services.fetch_purgatory.release(self)
            producers.unsaved_bytes += size_bytes
            if producers.unsaved_bytes > SNAPSHOT_BYTES:
                services.snapshot_due(self)
        if not services.hides_undurable:
            services.fetch_purgatory.appended(self, size_bytes, stable_bytes)
        return base_offset

    def became_durable(self, before: int) -> None:
        """More of the log than up to `before` is safe from power loss: where only that is shown, Fetches may have
        waited for it."""
        services, log = self._services, self._log
        if log is None or not services.hides_undurable or not services.fetch_purgatory:
            return
        try:
            size_bytes = log.bytes_from(max(before, log.start_offset)) - log.bytes_from(log.durable_offset)
            stable_bytes = size_bytes
            if self.producers is not None and self.producers.transactions:
                stable_bytes = self.producers.after_sync(log, before)
        except LogError:  # its beginning was deleted meanwhile
            services.fetch_purgatory.release(self)
        else:
            services.fetch_purgatory.appended(self, size_bytes, stable_bytes)

    def delete_before(self, offset: int) -> None:
        """Move the start up to `offset`, which lies behind it. Fetches that wait go on waiting, as in Kafka. Raises LogError."""
        self.log.delete_before(offset)
        if self.producers is not None:
            self.producers.transactions.start_moved(offset)
        self._services.start_moved(self)

    def release_fetches(self) -> None:
        """Answer the Fetches that wait here: the partition goes away, or another node leads it."""
        self._services.fetch_purgatory.release(self)

    def require_producers(self) -> ProducerState:
        """The state of the producers. Raises LogError; KafkaError NOT_LEADER_OR_FOLLOWER while a long log is read."""
        if self.producers is None:
            _ = self.log  # opening it reads them, or begins to
            if self.producers is None:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the producers of the partition are being loaded")
        return self.producers

    # Epochs of leaders

    def begin_epoch(self, leader_id: int, *, preferred_id: int) -> None:
        """Have `leader_id` lead from now on. Where the log cannot be opened now, its epoch begins when it can."""
        old = self.leader
        self._set_leader(PartitionLeader(preferred_id, leader_id, old.leader_epoch + 1, old.epochs))
        if self.producers is not None:
            self.producers.unverified.clear()  # which Kafka's new leader does not know
        with suppress(LogError):
            self._use_epoch(self.log)

    def _set_leader(self, leader: PartitionLeader) -> None:
        self.leader = leader
        self._services.leaders_version += 1

    def end_epoch(self, leader: PartitionLeader) -> None:
        """Take `begin_epoch` back: `leader` is what was before. Nothing was appended since."""
        self._set_leader(leader)
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

    # The log and what may be read of it

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
        log = self._log
        if log is None:
            log = self.log
        return log.durable_offset if self._services.hides_undurable else log.end_offset

    @property
    def last_stable_offset(self) -> int:
        """Up to where consumers read that want committed records only.

        Where the start of the log was moved into an open transaction, that is the start; or, as in Kafka, the base
        offset of the batch that holds it. Raises LogError, KafkaError: see `require_producers`.
        """
        high_watermark = self.high_watermark
        transactions = (self.require_producers() if self.producers is None else self.producers).transactions
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
        """The log that was taken can be used again; False if it is no longer needed."""
        if self._failure is None:
            return False
        self._failure = None
        self._log = log
        self._use_epoch(log)
        return True

    def close(self) -> None:
        """Close the log if it is open. Raises LogError."""
        log = self._let_go()
        if log is not None:
            log.close()

    def forget(self) -> None:
        """Close the log without a sync: its topic is deleted."""
        log = self._let_go()
        if log is not None:
            log.forget()

    def _let_go(self) -> Log | None:
        self._failure = None
        if self._log is not None:
            self._services.closing(self)
        log, self._log = self._log, None
        return log

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.index}"

    def __repr__(self) -> str:
        return f"<{self}>"


class Topic:
    """A topic with its partitions in index order. `configs` holds only what was set for this topic; it is replaced as a
    whole, never changed in place.
    """

    def __init__(self, name: str, topic_id: bytes, configs: dict[str, str]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs = configs
        self.partitions: list[Partition] = []
        self.kept_rows: dict[object, tuple[object, bytes]] = {}
        """What handlers keep of answers that tell of it: by what was asked, what it says and its bytes."""
        self._batch_validator: BatchValidator | None = None

    @property
    def is_internal(self) -> bool:
        """Whether clients should hide it (Kafka marks its three internal topics)."""
        return self.name in INTERNAL_TOPICS

    def batch_validator(self, config: BrokerConfig) -> BatchValidator:
        """What the configuration asks of batches, made again when that of the topic has changed."""
        found = self._batch_validator
        if found is None or found.configs is not self.configs:
            from kshim.partitions.batch_validator import BatchValidator  # brings the record batches along

            found = self._batch_validator = BatchValidator(config, self.configs)
        return found

    def broker_configured(self) -> None:
        """The configuration of brokers has changed, and with it what the topic has from there."""
        self._batch_validator = None
