"""OffsetCommit: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import ZERO_UUID, Request, Struct, array, int16, int32, int64, message, string, struct, uuid

__all__ = [
    "OffsetCommitRequest",
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitResponse",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
]

# fmt: off


@struct
class OffsetCommitRequestPartition(Struct):
    """Part of OffsetCommitRequest."""

    partition_index:        int        = int32("2+")
    committed_offset:       int        = int64("2+")
    committed_leader_epoch: int        = int32("6+", default=-1, ignorable=True)
    committed_metadata:     str | None = string("2+", nullable="2+")


@struct
class OffsetCommitRequestTopic(Struct):
    """Part of OffsetCommitRequest."""

    name:       str                                      = string("2-9", default="", ignorable=True)
    topic_id:   bytes                                    = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[OffsetCommitRequestPartition, ...] = array(OffsetCommitRequestPartition, "2+")


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    """@@DOC OffsetCommitRequest@@"""

    group_id:                      str                                  = string("2+")
    generation_id_or_member_epoch: int                                  = int32("2+", default=-1, ignorable=True)
    member_id:                     str                                  = string("2+", ignorable=True)
    group_instance_id:             str | None                           = string("7+", nullable="7+", default=None)
    retention_time_ms:             int                                  = int64("2-4", default=-1, ignorable=True)
    topics:                        tuple[OffsetCommitRequestTopic, ...] = array(OffsetCommitRequestTopic, "2+")


@struct
class OffsetCommitResponsePartition(Struct):
    """Part of OffsetCommitResponse."""

    partition_index: int = int32("2+")
    error_code:      int = int16("2+")


@struct
class OffsetCommitResponseTopic(Struct):
    """Part of OffsetCommitResponse."""

    name:       str                                       = string("2-9", default="", ignorable=True)
    topic_id:   bytes                                     = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[OffsetCommitResponsePartition, ...] = array(OffsetCommitResponsePartition, "2+")


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse(Struct):
    """@@DOC OffsetCommitResponse@@"""

    throttle_time_ms: int                                   = int32("3+", default=0, ignorable=True)
    topics:           tuple[OffsetCommitResponseTopic, ...] = array(OffsetCommitResponseTopic, "2+")

# fmt: on
