"""OffsetForLeaderEpoch: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, message, string, struct

__all__ = [
    "EpochEndOffset",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "OffsetForLeaderPartition",
    "OffsetForLeaderTopic",
    "OffsetForLeaderTopicResult",
]

# fmt: off


@struct
class OffsetForLeaderPartition(Struct):
    """Part of OffsetForLeaderEpochRequest."""

    partition:            int = int32("2+")
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch:         int = int32("2+")


@struct
class OffsetForLeaderTopic(Struct):
    """Part of OffsetForLeaderEpochRequest."""

    topic:      str                                  = string("2+")
    partitions: tuple[OffsetForLeaderPartition, ...] = array(OffsetForLeaderPartition, "2+")


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    """@@DOC OffsetForLeaderEpochRequest@@"""

    replica_id: int                              = int32("3+", default=-2, ignorable=True)
    topics:     tuple[OffsetForLeaderTopic, ...] = array(OffsetForLeaderTopic, "2+")


@struct
class EpochEndOffset(Struct):
    """Part of OffsetForLeaderEpochResponse."""

    error_code:   int = int16("2+")
    partition:    int = int32("2+")
    leader_epoch: int = int32("2+", default=-1, ignorable=True)
    end_offset:   int = int64("2+", default=-1)


@struct
class OffsetForLeaderTopicResult(Struct):
    """Part of OffsetForLeaderEpochResponse."""

    topic:      str                        = string("2+")
    partitions: tuple[EpochEndOffset, ...] = array(EpochEndOffset, "2+")


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Struct):
    """@@DOC OffsetForLeaderEpochResponse@@"""

    throttle_time_ms: int                                    = int32("2+", default=0, ignorable=True)
    topics:           tuple[OffsetForLeaderTopicResult, ...] = array(OffsetForLeaderTopicResult, "2+")

# fmt: on
