"""DeleteRecords: move the start of partitions up."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, message, string, struct

# fmt: off


@struct
class DeleteRecordsPartition(Struct):
    """One partition."""

    partition_index: int = int32("0+")
    offset:          int = int64("0+")  # -1: the high watermark


@struct
class DeleteRecordsTopic(Struct):
    """Partitions of one topic."""

    name:       str                                = string("0+")
    partitions: tuple[DeleteRecordsPartition, ...] = array(DeleteRecordsPartition, "0+")


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    """Delete records before an offset (KIP-107). v2 flexible."""

    topics:     tuple[DeleteRecordsTopic, ...] = array(DeleteRecordsTopic, "0+")
    timeout_ms: int                            = int32("0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=tuple(
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        DeleteRecordsPartitionResult(
                            partition_index=partition.partition_index, low_watermark=-1, error_code=error
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in self.topics
            )
        )


@struct
class DeleteRecordsPartitionResult(Struct):
    """The result of one partition."""

    partition_index: int = int32("0+")
    low_watermark:   int = int64("0+")
    error_code:      int = int16("0+")


@struct
class DeleteRecordsTopicResult(Struct):
    """Results of one topic."""

    name:       str                                      = string("0+")
    partitions: tuple[DeleteRecordsPartitionResult, ...] = array(DeleteRecordsPartitionResult, "0+")


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Struct):
    """The new low watermark of each partition. v2 flexible."""

    throttle_time_ms: int                                  = int32("0+", default=0)
    topics:           tuple[DeleteRecordsTopicResult, ...] = array(DeleteRecordsTopicResult, "0+")

# fmt: on
