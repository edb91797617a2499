"""Transactions that were about to begin in a partition, until their first batch is in its log (KIP-890).

A client has several batches under way. When the first is refused for a reason that passes, the next must not be taken
in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim_protocol.records.batch import BatchHeader

MAX_PRODUCERS = 10_000
"""Then the oldest entry is removed; Kafka has no such limit."""


class _Unverified(NamedTuple):
    """`lowest_sequence`: of all batches of this epoch that were to be the first. Unix time.

    `begins_at_0`: each epoch has one transaction, which begins with sequence 0.
    """

    epoch: int
    lowest_sequence: int
    since_ms: int
    begins_at_0: bool


class UnverifiedTransactions:
    """By producer id. Kafka: VerificationStateEntry, ProducerStateManager.verificationStates; not in snapshots."""

    def __init__(self) -> None:
        self._by_producer: dict[int, _Unverified] = {}

    def begin(self, header: BatchHeader, now_ms: int, *, begins_at_0: bool = False) -> None:
        """A batch came that is to be the first of a transaction here. Whether it may be is not known yet.

        `begins_at_0`: its client is of transaction.version 2 (KIP-890).
        """
        producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        found = self._by_producer.get(producer_id)
        if found is None:
            if len(self._by_producer) >= MAX_PRODUCERS:
                del self._by_producer[next(iter(self._by_producer))]
            self._by_producer[producer_id] = _Unverified(epoch, sequence, now_ms, begins_at_0)
        elif epoch > found.epoch or (epoch == found.epoch and sequence < found.lowest_sequence):
            self._by_producer[producer_id] = found._replace(epoch=epoch, lowest_sequence=sequence)

    def check_unknown(self, header: BatchHeader) -> None:
        """`check` for a producer that the partition does not know. Its first batch may have to begin at 0."""
        found = self._by_producer.get(header.producer_id)
        if found is not None and found.begins_at_0 and header.base_sequence != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id}, epoch {header.producer_epoch}: sequence {header.base_sequence}, "
                "but its transaction begins with 0",
            )
        self.check(header)

    def check(self, header: BatchHeader) -> None:
        """Raises KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER when an earlier batch than this one was refused."""
        found = self._by_producer.get(header.producer_id)
        if found is not None and header.base_sequence > found.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id}, epoch {header.producer_epoch}: sequence {header.base_sequence}, "
                f"but {found.lowest_sequence} came before and was refused",
            )

    def end(self, producer_id: int) -> None:
        """A batch or a marker of the producer's transaction is in the log."""
        self._by_producer.pop(producer_id, None)

    def expire(self, now_ms: int, *, expiration_ms: int) -> None:
        """Forget what came longer ago. `now_ms` is Unix time."""
        for producer_id, found in list(self._by_producer.items()):
            if now_ms - found.since_ms >= expiration_ms:
                del self._by_producer[producer_id]

    def clear(self) -> None:
        """Another broker leads the partition."""
        self._by_producer.clear()
