"""`__transaction_state` records: one key a transactional id, and what the coordinator knows of it."""

from __future__ import annotations

from kshim_protocol.schema import Struct, array, int8, int16, int32, int64, message, string, struct

# fmt: off


@message(versions="0", flexible="none")
class TransactionLogKey(Struct):
    """Record key of type 0, the only one."""

    transactional_id: str = string("0")


@struct
class PartitionsSchema(Struct):
    """Partitions of one topic."""

    topic:         str             = string("0+")
    partition_ids: tuple[int, ...] = array("int32", "0+")


@message(versions="0-1", flexible="1+")
class TransactionLogValue(Struct):
    """One transactional id. Kafka 4.4 writes v1 unless transaction.version is 0.

    v1 flexible; its tags belong to transactions of the new protocol (KIP-890) and two-phase commit (KIP-939).
    """

    producer_id:                          int                                = int64("0+")
    previous_producer_id:                 int                                = int64("1+", default=-1, tag=0)
    next_producer_id:                     int                                = int64("1+", default=-1, tag=1)
    producer_epoch:                       int                                = int16("0+")
    next_producer_epoch:                  int                                = int16("1+", default=-1, tag=3)
    transaction_timeout_ms:               int                                = int32("0+")
    transaction_status:                   int                                = int8("0+")                    # id of a TransactionState
    transaction_partitions:               tuple[PartitionsSchema, ...] | None = array(PartitionsSchema, "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int                                = int64("0+")                   # ms since the epoch
    transaction_start_timestamp_ms:       int                                = int64("0+")                   # -1: none is open
    client_transaction_version:           int                                = int16("1+", default=0, tag=2)

# fmt: on
