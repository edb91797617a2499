"""DeleteShareGroupState: forget the state of share partitions (KIP-932). Between brokers."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct, uuid

# fmt: off


@struct
class PartitionData(Struct):
    """One partition."""

    partition: int = int32("0+")


@struct
class DeleteStateData(Struct):
    """One topic."""

    topic_id:   bytes                     = uuid("0+")
    partitions: tuple[PartitionData, ...] = array(PartitionData, "0+")


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest(Request["DeleteShareGroupStateResponse"]):
    """Forget partitions."""

    group_id: str                         = string("0+")
    topics:   tuple[DeleteStateData, ...] = array(DeleteStateData, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DeleteShareGroupStateResponse:
        return DeleteShareGroupStateResponse(
            results=tuple(
                DeleteStateResult(
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
class DeleteStateResult(Struct):
    """One topic."""

    topic_id:   bytes                       = uuid("0+")
    partitions: tuple[PartitionResult, ...] = array(PartitionResult, "0+")


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Struct):
    """An error a partition."""

    results: tuple[DeleteStateResult, ...] = array(DeleteStateResult, "0+")

# fmt: on
