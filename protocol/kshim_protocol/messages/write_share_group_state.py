"""WriteShareGroupState: what has changed in the state of share partitions (KIP-932). Between brokers."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int8, int16, int32, int64, message, string, struct, uuid

# fmt: off


@struct
class StateBatch(Struct):
    """The state of a range of records."""

    first_offset:   int = int64("0+")
    last_offset:    int = int64("0+")   # inclusive
    delivery_state: int = int8("0+")    # 0 available, 2 acknowledged, 3 archiving, 4 archived
    delivery_count: int = int16("0+")


@struct
class PartitionData(Struct):
    """One partition."""

    partition:               int                    = int32("0+")
    state_epoch:             int                    = int32("0+")
    leader_epoch:            int                    = int32("0+")
    start_offset:            int                    = int64("0+")                               # -1: none
    delivery_complete_count: int                    = int32("1+", default=-1, ignorable=True)   # offsets from the start offset on that are done; -1: not known
    state_batches:           tuple[StateBatch, ...] = array(StateBatch, "0+")


@struct
class WriteStateData(Struct):
    """One topic."""

    topic_id:   bytes                     = uuid("0+")
    partitions: tuple[PartitionData, ...] = array(PartitionData, "0+")


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest(Request["WriteShareGroupStateResponse"]):
    """States of ranges of records. v1 delivery complete count (KIP-1226)."""

    group_id: str                        = string("0+")
    topics:   tuple[WriteStateData, ...] = array(WriteStateData, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> WriteShareGroupStateResponse:
        return WriteShareGroupStateResponse(
            results=tuple(
                WriteStateResult(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        PartitionResult(partition=one.partition, error_code=error, error_message=message)
                        for one in topic.partitions
                    ),
                )
                for topic in self.topics
            )
        )


@struct
class PartitionResult(Struct):
    """One partition."""

    partition:     int        = int32("0+")
    error_code:    int        = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@struct
class WriteStateResult(Struct):
    """One topic."""

    topic_id:   bytes                       = uuid("0+")
    partitions: tuple[PartitionResult, ...] = array(PartitionResult, "0+")


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse(Struct):
    """An error a partition. v1 equals v0."""

    results: tuple[WriteStateResult, ...] = array(WriteStateResult, "0+")

# fmt: on
