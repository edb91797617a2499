"""Reading a shard of transactions back from its log: the last record of each id is what is known of it.

Source: Kafka's TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterator

from kshim.coordinator.transactions.shard import TransactionShard
from kshim.coordinator.transactions.transaction import Transaction, facts_of
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.transaction_records import parse_transaction_key, parse_transaction_value
from kshim_protocol.records.batch import iter_batches, parse_batch_header
from kshim_protocol.records.record import Record, iter_records

_SLICE_RECORDS = 128


class TransactionReplay:
    """Fed with one run of whole batches after the other. `feed` and `finish` give way at each None, as those of groups.

    Records of another type are skipped and counted in `shard.skipped`. Raises ProtocolError, which names the offset.
    """

    def __init__(self, shard: TransactionShard) -> None:
        self._shard = shard
        self._live: dict[bytes, Record] = {}  # the last record of each key

    def feed(self, run: bytes) -> Iterator[None]:
        """Take the next whole batches."""
        left = _SLICE_RECORDS
        for batch in iter_batches(run):
            if parse_batch_header(batch).is_control:
                continue
            for record in iter_records(batch):
                self._take(record)
                left -= 1
                if not left:
                    left = _SLICE_RECORDS
                    yield None

    def _take(self, record: Record) -> None:
        if record.key is None:
            raise ProtocolError("no key", message=f"offset {record.offset}: TransactionLogKey", field="key", offset=0)
        if record.value is None:
            self._live.pop(record.key, None)
        else:
            self._live[record.key] = record

    def finish(self) -> Iterator[None]:
        """Put what has come into the shard."""
        left = _SLICE_RECORDS
        for key_bytes, record in self._live.items():
            try:
                self._put(key_bytes, record)
            except ProtocolError as error:
                raise ProtocolError(
                    error.reason,
                    message=f"offset {record.offset}: {error.message}",
                    version=error.version,
                    field=error.field,
                    offset=error.offset,
                ) from None
            left -= 1
            if not left:
                left = _SLICE_RECORDS
                yield None
        self._live.clear()

    def _put(self, key_bytes: bytes, record: Record) -> None:
        shard = self._shard
        key = parse_transaction_key(key_bytes)
        if isinstance(key, int):
            shard.skipped[key] = shard.skipped.get(key, 0) + 1
            return
        assert record.value is not None
        facts = facts_of(parse_transaction_value(record.value))
        shard.transactions[key.transactional_id] = Transaction(key.transactional_id, facts)
