"""What one partition remembers of the producers that write to it.

So that a batch sent twice is stored once, a replaced producer is kept out, and transactions are read whole or not at
all (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kshim.partitions.open_transactions import OpenTransactions
from kshim.partitions.producer_entry import ProducerEntry, RememberedBatch
from kshim.partitions.unverified_transactions import UnverifiedTransactions
from kshim.storage.producer_snapshot import ProducerSnapshot
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.records.batch import parse_batch_header
from kshim_protocol.records.control import ControlType, parse_control_record
from kshim_protocol.records.layout import PRODUCER_ID_AT
from kshim_protocol.records.record import iter_records

if TYPE_CHECKING:
    from kshim.storage.log import Log
    from kshim.storage.producer_snapshot import AbortedTransaction
    from kshim_protocol.records.batch import BatchHeader


class ProducerState:
    """Every idempotent or transactional producer of one partition, and its `transactions`.

    All of it can be read from the log again. Kafka: ProducerStateManager, ProducerAppendInfo; outcomes checked live on
    4.4.
    """

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        self.unverified = UnverifiedTransactions()
        self.saved_offset = -1
        """What the newest snapshot speaks of."""
        self.unsaved_bytes = 0
        """How much was appended since."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    @classmethod
    def restored(cls, snapshot: ProducerSnapshot, aborted: Iterable[AbortedTransaction]) -> ProducerState:
        """As a snapshot has them; `aborted` are those of its transactions that still matter."""
        producers = cls()
        for saved in snapshot.producers:
            producers._entries[saved.producer_id] = ProducerEntry.restored(saved)
        for entry in sorted(producers, key=lambda entry: entry.first_offset):
            if entry.first_offset >= 0:
                producers.transactions.begin(entry.producer_id, entry.first_offset)
        for each in aborted:
            producers.transactions.add_aborted(each)
        producers.saved_offset = snapshot.offset
        return producers

    def snapshot(self, offset: int) -> ProducerSnapshot:
        """All that is to be remembered of a log that ends at `offset`."""
        return ProducerSnapshot(offset, [entry.saved() for entry in self], self.transactions.aborted())

    def replay(self, batches: Iterable[bytes]) -> None:
        """Learn from batches that are in the log, in order. Only headers and markers are read."""
        for batch in batches:
            if batch[PRODUCER_ID_AT] < 0x80:
                self.appended(batch, int.from_bytes(batch[:8], "big"))

    def check(self, header: BatchHeader) -> RememberedBatch | None:
        """None when a batch with a producer id may be appended; the earlier batch when it is in the log already.

        A producer that is not known may begin with any sequence number, unless it is of transaction.version 2; a new
        epoch begins with 0.
        Raises KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE (a batch without
        transaction from a producer that has one open).
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            self.unverified.check_unknown(header)
            return None
        earlier = entry.duplicate_of(header)
        if earlier is not None:
            return earlier
        entry.check_epoch(header.producer_epoch)
        self.unverified.check(header)
        entry.check_sequence(header)
        if entry.first_offset >= 0 and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction, but the batch is not transactional",
            )
        return None

    def check_epoch(self, header: BatchHeader) -> None:
        """Raises KafkaError INVALID_PRODUCER_EPOCH for a batch of an older epoch than the newest that is known."""
        entry = self._entries.get(header.producer_id)
        if entry is not None:
            entry.check_epoch(header.producer_epoch)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer has written to this partition in a transaction that is not over."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.first_offset >= 0 and entry.epoch == producer_epoch

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int = 0
    ) -> None:
        """Raises KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.

        A marker of transaction.version 2 has the epoch after that of its transaction: one with the epoch of an open
        transaction belongs to an earlier one (KIP-1228).
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        entry.check_epoch(producer_epoch)
        if transaction_version >= 2 and producer_epoch == entry.epoch and entry.first_offset >= 0:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {producer_epoch} of producer {producer_id} is that of a transaction that is still open",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} is older than {entry.coordinator_epoch}",
            )

    def appended(self, batch: bytes, base_offset: int, now_ms: int = -1) -> None:
        """A batch of records or a marker, with a producer id, is in the log. `now_ms` is Unix time, -1 in replay."""
        header = parse_batch_header(batch)
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_id, header.producer_epoch)
        entry.seen_ms = max(entry.seen_ms, now_ms, header.max_timestamp_ms)
        if header.is_transactional:
            self.unverified.end(header.producer_id)
        if header.is_control:
            self._ended(entry, header, batch, base_offset)
            return
        entry.appended(header, base_offset)
        if header.is_transactional and entry.first_offset < 0:
            entry.first_offset = base_offset
            self.transactions.begin(header.producer_id, base_offset)

    def expire(self, now_ms: int, *, expiration_ms: int) -> None:
        """Forget the producers without an open transaction that were not heard of for `expiration_ms`.

        `now_ms` is Unix time. Kafka: ProducerStateManager.removeExpiredProducers, which counts from the timestamp of
        the producer's last record only.
        """
        for producer_id, entry in list(self._entries.items()):
            if entry.first_offset < 0 and now_ms - entry.seen_ms >= expiration_ms:
                del self._entries[producer_id]
        self.unverified.expire(now_ms, expiration_ms=expiration_ms)

    def after_append(self, log: Log, high_watermark: int, batch: bytes, base_offset: int, now_ms: int) -> int:
        """As `appended`, for any batch; returns by how many bytes the last stable offset moved on. Raises LogError."""
        transactions = self.transactions
        was_open = bool(transactions)
        before = transactions.last_stable_offset(base_offset) if was_open else base_offset
        if batch[PRODUCER_ID_AT] < 0x80:
            self.appended(batch, base_offset, now_ms)
            transactions.became_durable(high_watermark)
        if not was_open and not transactions:
            return len(batch)
        after = transactions.last_stable_offset(high_watermark)
        return _bytes_between(log, before, after)

    def after_sync(self, log: Log, before_offset: int) -> int:
        """More is durable: returns by how many bytes the last stable offset of what is moved on. Raises LogError."""
        before = self.transactions.last_stable_offset(before_offset)
        self.transactions.became_durable(log.durable_offset)
        return _bytes_between(log, before, self.transactions.last_stable_offset(log.durable_offset))

    def _ended(self, entry: ProducerEntry, header: BatchHeader, batch: bytes, base_offset: int) -> None:
        record = next(iter_records(batch), None)
        marker = None if record is None else parse_control_record(record)
        if marker is None:
            return
        if entry.first_offset >= 0:
            self.transactions.end(header.producer_id, base_offset, is_aborted=marker.control_type is ControlType.ABORT)
            entry.first_offset = -1
        entry.begin_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = header.max_timestamp_ms


def _bytes_between(log: Log, offset: int, end_offset: int) -> int:
    if end_offset <= offset:
        return 0
    return log.bytes_from(max(offset, log.start_offset)) - log.bytes_from(max(end_offset, log.start_offset))
