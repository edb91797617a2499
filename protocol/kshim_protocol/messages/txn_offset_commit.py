"""TxnOffsetCommit: offsets that count once a transaction commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import (
    ZERO_UUID,
    Request,
    Struct,
    array,
    int16,
    int32,
    int64,
    message,
    rows,
    string,
    struct,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# fmt: off


@struct
class TxnOffsetCommitRequestPartition(Struct):
    """One offset."""

    partition_index:        int        = int32("0+")
    committed_offset:       int        = int64("0+")
    committed_leader_epoch: int        = int32("2+", default=-1, ignorable=True)
    committed_metadata:     str | None = string("0+", nullable="0+")


@struct
class TxnOffsetCommitRequestTopic(Struct):
    """Offsets of one topic."""

    name:       str                                         = string("0-5", default="", ignorable=True)
    topic_id:   bytes                                       = uuid("6+", default=ZERO_UUID, ignorable=True)
    partitions: Sequence[TxnOffsetCommitRequestPartition]   = rows(TxnOffsetCommitRequestPartition, "0+")


@message(api_key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    """Commit offsets inside a transaction (KIP-98).

    v2 leader epochs. v3 flexible, member and generation (KIP-447). v4 TRANSACTION_ABORTABLE. v5 adds the group to the
    transaction by itself (KIP-890). v6 topic ids.
    """

    transactional_id:              str                                     = string("0+")
    group_id:                      str                                     = string("0+")
    producer_id:                   int                                     = int64("0+")
    producer_epoch:                int                                     = int16("0+")
    generation_id_or_member_epoch: int                                     = int32("3+", default=-1)
    member_id:                     str                                     = string("3+", default='')
    group_instance_id:             str | None                              = string("3+", nullable="3+", default=None)
    topics:                        tuple[TxnOffsetCommitRequestTopic, ...] = array(TxnOffsetCommitRequestTopic, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> TxnOffsetCommitResponse:
        return TxnOffsetCommitResponse(
            topics=tuple(
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                        for partition in topic.partitions
                    ),
                )
                for topic in self.topics
            )
        )


@struct
class TxnOffsetCommitResponsePartition(Struct):
    """The result of one partition."""

    partition_index: int = int32("0+")
    error_code:      int = int16("0+")


@struct
class TxnOffsetCommitResponseTopic(Struct):
    """Results of one topic."""

    name:       str                                          = string("0-5", default="", ignorable=True)
    topic_id:   bytes                                        = uuid("6+", default=ZERO_UUID, ignorable=True)
    partitions: Sequence[TxnOffsetCommitResponsePartition]   = rows(TxnOffsetCommitResponsePartition, "0+")


@message(api_key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse(Struct):
    """One error a partition. v3 flexible. v6 topic ids."""

    throttle_time_ms: int                                      = int32("0+", default=0)
    topics:           tuple[TxnOffsetCommitResponseTopic, ...] = array(TxnOffsetCommitResponseTopic, "0+")

# fmt: on
