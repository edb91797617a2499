"""What one partition knows of one producer. Kafka: ProducerStateEntry, ProducerAppendInfo."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kshim.storage.producer_snapshot import SavedProducer
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim_protocol.records.batch import BatchHeader


REMEMBERED_BATCHES = 5
"""As many as a client may have under way; Kafka's producers rely on it."""
SEQUENCE_MASK = 0x7FFFFFFF  # 2^31-1 is followed by 0
_NO_EPOCH = -1


class RememberedBatch(NamedTuple):
    """One batch in the log: its sequence numbers, its base offset and its greatest timestamp."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp_ms: int


class ProducerEntry:
    """Epoch, last batches and open transaction of one producer.

    `first_offset` is where its open transaction begins in this partition, -1 when none is open; `coordinator_epoch` that
    of the last marker, -1 before the first. `last_timestamp_ms` is that of the last batch or marker, `seen_ms` when it
    was last heard of (both Unix time).
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "first_offset", "last_timestamp_ms", "producer_id", "seen_ms")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[RememberedBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.coordinator_epoch = -1
        self.first_offset = -1
        self.last_timestamp_ms = -1
        self.seen_ms = -1

    @classmethod
    def restored(cls, saved: SavedProducer) -> ProducerEntry:
        """As a snapshot has it, with one batch at most."""
        entry = cls(saved.producer_id, saved.epoch)
        entry.coordinator_epoch = saved.coordinator_epoch
        entry.first_offset = saved.first_offset
        entry.last_timestamp_ms = entry.seen_ms = saved.timestamp_ms
        if saved.last_offset >= 0:
            entry.batches.append(
                RememberedBatch(
                    (saved.last_sequence - saved.offset_delta) & SEQUENCE_MASK,
                    saved.last_sequence,
                    saved.last_offset - saved.offset_delta,
                    saved.timestamp_ms,
                )
            )
        return entry

    def saved(self) -> SavedProducer:
        """What a snapshot keeps of it. Kafka: ProducerStateManager.writeSnapshot."""
        offset_delta, last_offset = 0, -1
        if self.batches:
            first_sequence, last_sequence, base_offset, _ = self.batches[-1]
            offset_delta = (last_sequence - first_sequence) & SEQUENCE_MASK
            last_offset = base_offset + offset_delta
        return SavedProducer(
            self.producer_id,
            self.epoch,
            self.last_sequence,
            last_offset,
            offset_delta,
            self.last_timestamp_ms,
            self.coordinator_epoch,
            self.first_offset,
        )

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record in this epoch; -1 when there is none."""
        return self.batches[-1].last_sequence if self.batches else -1

    def duplicate_of(self, header: BatchHeader) -> RememberedBatch | None:
        """The batch in the log that a producer sends once more; None when this one is new."""
        if header.producer_epoch != self.epoch:
            return None
        first, last = header.base_sequence, last_sequence_of(header)
        for batch in self.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return None

    def check_epoch(self, epoch: int) -> None:
        """Raises KafkaError INVALID_PRODUCER_EPOCH for one that was replaced."""
        if epoch < self.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {epoch} of producer {self.producer_id} is older than {self.epoch}",
            )

    def check_sequence(self, header: BatchHeader) -> None:
        """A new epoch begins with 0, also after a marker. Raises KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER."""
        if self.epoch == _NO_EPOCH:
            return
        expected = (self.last_sequence + 1) & SEQUENCE_MASK if header.producer_epoch == self.epoch else 0
        if header.base_sequence != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id}, epoch {header.producer_epoch}: "
                f"sequence {header.base_sequence}, expected {expected}",
            )

    def begin_epoch(self, epoch: int) -> None:
        """The next batch or marker has this epoch: sequence numbers of another one mean nothing any more."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """A batch of records is in the log at `base_offset`."""
        self.begin_epoch(header.producer_epoch)
        self.batches.append(
            RememberedBatch(header.base_sequence, last_sequence_of(header), base_offset, header.max_timestamp_ms)
        )
        self.last_timestamp_ms = header.max_timestamp_ms


def last_sequence_of(header: BatchHeader) -> int:
    """Sequence number of a batch's last record."""
    return (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK
