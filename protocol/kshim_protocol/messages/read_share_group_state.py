"""ReadShareGroupState: the state of share partitions, for the broker that begins to lead them (KIP-932). Between brokers."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int8, int16, int32, int64, message, string, struct, uuid

# fmt: off


@struct
class PartitionData(Struct):
    """One partition."""

    partition:    int = int32("0+")
    leader_epoch: int = int32("0+")


@struct
class ReadStateData(Struct):
    """One topic."""

    topic_id:   bytes                     = uuid("0+")
    partitions: tuple[PartitionData, ...] = array(PartitionData, "0+")


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest(Request["ReadShareGroupStateResponse"]):
    """Ask for states; a newer leader epoch is remembered."""

    group_id: str                       = string("0+")
    topics:   tuple[ReadStateData, ...] = array(ReadStateData, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ReadShareGroupStateResponse:
        return ReadShareGroupStateResponse(
            results=tuple(
                ReadStateResult(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        PartitionResult(
                            partition=one.partition,
                            error_code=error,
                            error_message=message,
                            state_epoch=0,
                            start_offset=0,
                            state_batches=(),
                        )
                        for one in topic.partitions
                    ),
                )
                for topic in self.topics
            )
        )


@struct
class StateBatch(Struct):
    """The state of a range of records."""

    first_offset:   int = int64("0+")
    last_offset:    int = int64("0+")   # inclusive
    delivery_state: int = int8("0+")    # 0 available, 2 acknowledged, 3 archiving, 4 archived
    delivery_count: int = int16("0+")


@struct
class PartitionResult(Struct):
    """One partition."""

    partition:     int                    = int32("0+")
    error_code:    int                    = int16("0+")
    error_message: str | None             = string("0+", nullable="0+", default=None)
    state_epoch:   int                    = int32("0+")
    start_offset:  int                    = int64("0+")
    state_batches: tuple[StateBatch, ...] = array(StateBatch, "0+")


@struct
class ReadStateResult(Struct):
    """One topic."""

    topic_id:   bytes                       = uuid("0+")
    partitions: tuple[PartitionResult, ...] = array(PartitionResult, "0+")


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse(Struct):
    """The state of each partition."""

    results: tuple[ReadStateResult, ...] = array(ReadStateResult, "0+")

# fmt: on
