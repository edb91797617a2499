"""ReadShareGroupStateSummary: the start offsets of share partitions (KIP-932). Between brokers."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, message, string, struct, uuid

# fmt: off


@struct
class PartitionData(Struct):
    """One partition."""

    partition:    int = int32("0+")
    leader_epoch: int = int32("0+")


@struct
class ReadStateSummaryData(Struct):
    """One topic."""

    topic_id:   bytes                     = uuid("0+")
    partitions: tuple[PartitionData, ...] = array(PartitionData, "0+")


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest(Request["ReadShareGroupStateSummaryResponse"]):
    """Ask for partitions. v1 equals v0."""

    group_id: str                              = string("0+")
    topics:   tuple[ReadStateSummaryData, ...] = array(ReadStateSummaryData, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ReadShareGroupStateSummaryResponse:
        return ReadShareGroupStateSummaryResponse(
            results=tuple(
                ReadStateSummaryResult(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        PartitionResult(
                            partition=one.partition,
                            error_code=error,
                            error_message=message,
                            state_epoch=0,
                            leader_epoch=0,
                            start_offset=0,
                        )
                        for one in topic.partitions
                    ),
                )
                for topic in self.topics
            )
        )


@struct
class PartitionResult(Struct):
    """One partition."""

    partition:               int        = int32("0+")
    error_code:              int        = int16("0+")
    error_message:           str | None = string("0+", nullable="0+", default=None)
    state_epoch:             int        = int32("0+")
    leader_epoch:            int        = int32("0+")
    start_offset:            int        = int64("0+")
    delivery_complete_count: int        = int32("1+", default=-1, ignorable=True)     # offsets from the start offset on that are done; -1: not known


@struct
class ReadStateSummaryResult(Struct):
    """One topic."""

    topic_id:   bytes                       = uuid("0+")
    partitions: tuple[PartitionResult, ...] = array(PartitionResult, "0+")


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse(Struct):
    """What is known of each partition. v1 delivery complete count (KIP-1226)."""

    results: tuple[ReadStateSummaryResult, ...] = array(ReadStateSummaryResult, "0+")

# fmt: on
