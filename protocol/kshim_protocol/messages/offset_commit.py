"""OffsetCommit: store consumed positions of a group."""

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
class OffsetCommitRequestPartition(Struct):
    """One position to store."""

    partition_index:        int        = int32("2+")
    committed_offset:       int        = int64("2+")
    committed_leader_epoch: int        = int32("6+", default=-1, ignorable=True)  # -1: unknown
    committed_metadata:     str | None = string("2+", nullable="2+")


@struct
class OffsetCommitRequestTopic(Struct):
    """One topic: by name up to v9, by id from v10."""

    name:       str                                      = string("2-9", default="", ignorable=True)
    topic_id:   bytes                                    = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: Sequence[OffsetCommitRequestPartition]   = rows(OffsetCommitRequestPartition, "2+")


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    """Commit offsets of a group.

    v5 drops the retention time (KIP-211). v6 leader epoch (KIP-320). v7 group instance id (KIP-345). v8 flexible.
    v9 for the new protocol too (KIP-848). v10 topic ids instead of names. v0-1 went away with Kafka 4.0 (KIP-896).
    """

    group_id:                      str                                  = string("2+")
    generation_id_or_member_epoch: int                                  = int32("2+", default=-1, ignorable=True)    # -1: outside any membership
    member_id:                     str                                  = string("2+", ignorable=True)
    group_instance_id:             str | None                           = string("7+", nullable="7+", default=None)
    retention_time_ms:             int                                  = int64("2-4", default=-1, ignorable=True)   # -1: the broker's
    topics:                        tuple[OffsetCommitRequestTopic, ...] = array(OffsetCommitRequestTopic, "2+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=tuple(
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                        for partition in topic.partitions
                    ),
                )
                for topic in self.topics
            )
        )


@struct
class OffsetCommitResponsePartition(Struct):
    """What became of one position."""

    partition_index: int = int32("2+")
    error_code:      int = int16("2+")


@struct
class OffsetCommitResponseTopic(Struct):
    """One topic: by name up to v9, by id from v10."""

    name:       str                                       = string("2-9", default="", ignorable=True)
    topic_id:   bytes                                     = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: Sequence[OffsetCommitResponsePartition]   = rows(OffsetCommitResponsePartition, "2+")


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse(Struct):
    """One error a partition; there is no error for the whole. v3 throttle time. v8 flexible. v10 ids."""

    throttle_time_ms: int                                   = int32("3+", default=0, ignorable=True)
    topics:           tuple[OffsetCommitResponseTopic, ...] = array(OffsetCommitResponseTopic, "2+")

# fmt: on
