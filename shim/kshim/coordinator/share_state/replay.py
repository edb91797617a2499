"""Reading a shard of share state back from its log: a snapshot, and the updates behind it.

Source: Kafka's ShareCoordinatorShard.replay.
"""

from __future__ import annotations

from collections.abc import Iterator

from kshim.coordinator.share_state.shard import SharePartitionKey, ShareStateShard
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.share_state_records import parse_share_key, parse_share_value
from kshim_protocol.records.batch import iter_batches, parse_batch_header
from kshim_protocol.records.record import Record, iter_records

_SLICE_RECORDS = 128


class ShareStateReplay:
    """Fed with one run of whole batches after the other. `feed` gives way at each None.

    Records of another type are skipped and counted in `shard.skipped`. Raises ProtocolError, which names the offset.
    """

    def __init__(self, shard: ShareStateShard) -> None:
        self._shard = shard

    def feed(self, run: bytes) -> Iterator[None]:
        """Take the next whole batches."""
        left = _SLICE_RECORDS
        for batch in iter_batches(run):
            if parse_batch_header(batch).is_control:
                continue
            for record in iter_records(batch):
                try:
                    self._take(record)
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

    def finish(self) -> Iterator[None]:
        """Everything is in the shard already."""
        return iter(())

    def _take(self, record: Record) -> None:
        shard = self._shard
        if record.key is None:
            raise ProtocolError("no key", message="ShareSnapshotKey", field="key", offset=0)
        key = parse_share_key(record.key)
        if isinstance(key, int):
            shard.skipped[key] = shard.skipped.get(key, 0) + 1
            return
        value = None if record.value is None else parse_share_value(key, record.value)
        shard.apply(SharePartitionKey(key.group_id, key.topic_id, key.partition), value, record.offset)
