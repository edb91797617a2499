"""OffsetForLeaderEpoch: where a leader epoch ended, so that clients notice truncation (KIP-320)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, message, string, struct

# fmt: off


@struct
class OffsetForLeaderPartition(Struct):
    """One partition and the epoch asked about."""

    partition:            int = int32("2+")
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)  # -1: not checked
    leader_epoch:         int = int32("2+")


@struct
class OffsetForLeaderTopic(Struct):
    """One topic."""

    topic:      str                                  = string("2+")
    partitions: tuple[OffsetForLeaderPartition, ...] = array(OffsetForLeaderPartition, "2+")


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    """Ask for the end offset of leader epochs. v3 replica id. v4 flexible."""

    replica_id: int                              = int32("3+", default=-2, ignorable=True)  # -2: a consumer that sees past the high watermark
    topics:     tuple[OffsetForLeaderTopic, ...] = array(OffsetForLeaderTopic, "2+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(
            topics=tuple(
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=tuple(
                        EpochEndOffset(error_code=error, partition=partition.partition) for partition in topic.partitions
                    ),
                )
                for topic in self.topics
            )
        )


@struct
class EpochEndOffset(Struct):
    """The answer for one partition."""

    error_code:   int = int16("2+")
    partition:    int = int32("2+")
    leader_epoch: int = int32("2+", default=-1, ignorable=True)
    end_offset:   int = int64("2+", default=-1)


@struct
class OffsetForLeaderTopicResult(Struct):
    """One topic."""

    topic:      str                        = string("2+")
    partitions: tuple[EpochEndOffset, ...] = array(EpochEndOffset, "2+")


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Struct):
    """End offset of the largest epoch not above the one asked for; -1, -1 where unknown. v4 flexible."""

    throttle_time_ms: int                                    = int32("2+", default=0, ignorable=True)
    topics:           tuple[OffsetForLeaderTopicResult, ...] = array(OffsetForLeaderTopicResult, "2+")

# fmt: on
