"""The markers that end transactions, as the broker writes them to partitions (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.storage.log import LogError
from kshim_protocol.errors import KafkaError
from kshim_protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch

if TYPE_CHECKING:
    from kshim.partitions.partition import Partition


def check_marker(
    partition: Partition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    transaction_version: int = 0,
) -> None:
    """Raises KafkaError for a marker that is outdated, and LogError, both as `append_marker`."""
    try:
        producers = partition.require_producers()
    except KafkaError as error:  # they are being read: the next try will find them
        raise LogError(str(error)) from error
    producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)


def append_marker(
    partition: Partition,
    *,
    producer_id: int,
    producer_epoch: int,
    is_commit: bool,
    coordinator_epoch: int,
    now_ms: int,
    transaction_version: int = 0,
) -> int:
    """End what a producer has open in a partition: write the control batch. Returns its offset.

    A marker for a producer without open transaction is written all the same, and fences epochs before its own; it
    changes nothing of what readers see. Waiting Fetches that read what is committed are woken. `now_ms` is Unix time.
    Raises LogError, also while the partition's producers are being read after a start: to be tried again. Raises
    KafkaError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED when the partition knows later epochs: nothing is
    written, and no later try will do better.
    Kafka: UnifiedLog.appendAsLeader with AppendOrigin.COORDINATOR, ProducerAppendInfo.appendEndTxnMarker.
    """
    check_marker(partition, producer_id, producer_epoch, coordinator_epoch, transaction_version)
    batch = build_end_transaction_batch(
        EndTransactionMarker(ControlType.COMMIT if is_commit else ControlType.ABORT, coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp_ms=now_ms,
    )
    return partition.append(batch, now_ms)
