"""What one partition remembers of the producers that write to it, so that a batch sent twice is stored once (KIP-98)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.records.batch import parse_batch_header

if TYPE_CHECKING:
    from kshim.broker.topics import Partition
    from kshim_protocol.records.batch import BatchHeader

__all__ = ["PartitionProducers", "RememberedBatch"]

REMEMBERED_BATCHES = 5
"""As many as a client may have under way; Kafka's producers rely on it."""
EXPIRATION_MS = 86_400_000
"""Kafka's default of producer.id.expiration.ms."""
_FIRST_SWEEP_AT = 1024
_SEQUENCE_MASK = 0x7FFFFFFF  # 2^31-1 is followed by 0


class RememberedBatch(NamedTuple):
    """One batch in the log: its sequence numbers, its base offset and its greatest timestamp."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp_ms: int


class _Producer:
    __slots__ = ("batches", "epoch", "seen_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[RememberedBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.seen_ms = 0


class PartitionProducers:
    """Epoch and last batches of every idempotent producer of one partition.

    Nothing is kept apart from the log: after a restart it is read from the batches again, when the first idempotent
    producer writes. Kafka: ProducerStateManager, ProducerAppendInfo; all outcomes checked live on 4.4.
    """

    __slots__ = ("_producers", "_sweep_at")

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self._sweep_at = _FIRST_SWEEP_AT

    def __len__(self) -> int:
        return len(self._producers)

    @classmethod
    def of(cls, partition: Partition) -> PartitionProducers:
        """Those of a partition, read from its log when asked for first. Raises LogError."""
        producers = partition.producers
        if producers is None:
            producers = cls()
            producers.replay(partition.log.batches())
            partition.producers = producers
        return producers

    def replay(self, batches: Iterable[bytes]) -> None:
        """Learn from batches that are in the log, in order. Only headers are read."""
        for batch in batches:
            header = parse_batch_header(batch)
            if header.producer_id >= 0 and not header.is_control:
                self.appended(header, header.base_offset, header.max_timestamp_ms)

    def check(self, header: BatchHeader) -> RememberedBatch | None:
        """None when a batch with a producer id may be appended; the earlier batch when it is in the log already.

        A producer that is not known may begin with any sequence number, a new epoch begins with 0.
        Raises KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        first = header.base_sequence
        if header.producer_epoch == producer.epoch:
            last = _last_sequence(header)
            for batch in producer.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
            expected = (producer.batches[-1].last_sequence + 1) & _SEQUENCE_MASK
        elif header.producer_epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {producer.epoch} by now, not {header.producer_epoch}",
            )
        else:
            expected = 0
        if first != expected and producer.epoch >= 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id}, epoch {header.producer_epoch}: sequence {first}, expected {expected}",
            )
        return None

    def appended(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """A batch that `check` let pass is in the log. `now_ms` is Unix time."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            if len(self._producers) >= self._sweep_at:
                self._forget_idle(now_ms)
            producer = self._producers[header.producer_id] = _Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.seen_ms = now_ms
        producer.batches.append(
            RememberedBatch(header.base_sequence, _last_sequence(header), base_offset, header.max_timestamp_ms)
        )

    def _forget_idle(self, now_ms: int) -> None:
        # Each sweep looks at all producers, so it waits until they are twice as many as the last one left.
        oldest_ms = now_ms - EXPIRATION_MS
        self._producers = {key: value for key, value in self._producers.items() if value.seen_ms > oldest_ms}
        self._sweep_at = max(_FIRST_SWEEP_AT, 2 * len(self._producers))


def _last_sequence(header: BatchHeader) -> int:
    return (header.base_sequence + header.last_offset_delta) & _SEQUENCE_MASK
