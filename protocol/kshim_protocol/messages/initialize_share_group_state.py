"""InitializeShareGroupState: begin to keep the state of share partitions (KIP-932). Between brokers."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, message, string, struct, uuid

# fmt: off


@struct
class PartitionData(Struct):
    """One partition."""

    partition:    int = int32("0+")
    state_epoch:  int = int32("0+")
    start_offset: int = int64("0+")   # -1: none


@struct
class InitializeStateData(Struct):
    """One topic."""

    topic_id:   bytes                     = uuid("0+")
    partitions: tuple[PartitionData, ...] = array(PartitionData, "0+")


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest(Request["InitializeShareGroupStateResponse"]):
    """Begin with a start offset."""

    group_id: str                             = string("0+")
    topics:   tuple[InitializeStateData, ...] = array(InitializeStateData, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> InitializeShareGroupStateResponse:
        return InitializeShareGroupStateResponse(
            results=tuple(
                InitializeStateResult(
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
class InitializeStateResult(Struct):
    """One topic."""

    topic_id:   bytes                       = uuid("0+")
    partitions: tuple[PartitionResult, ...] = array(PartitionResult, "0+")


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse(Struct):
    """An error a partition."""

    results: tuple[InitializeStateResult, ...] = array(InitializeStateResult, "0+")

# fmt: on
