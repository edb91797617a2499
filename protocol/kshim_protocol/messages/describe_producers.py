"""DescribeProducers: the producers of partitions."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, message, string, struct

# fmt: off


@struct
class TopicRequest(Struct):
    """Partitions of one topic."""

    name:              str             = string("0+")
    partition_indexes: tuple[int, ...] = array("int32", "0+")


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    """Ask for the producers of partitions (KIP-664)."""

    topics: tuple[TopicRequest, ...] = array(TopicRequest, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=tuple(
                TopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        PartitionResponse(
                            partition_index=index, error_code=error, error_message=message, active_producers=()
                        )
                        for index in topic.partition_indexes
                    ),
                )
                for topic in self.topics
            )
        )


@struct
class ProducerState(Struct):
    """One producer."""

    producer_id:              int = int64("0+")
    producer_epoch:           int = int32("0+")
    last_sequence:            int = int32("0+", default=-1)
    last_timestamp:           int = int64("0+", default=-1)
    coordinator_epoch:        int = int32("0+")
    current_txn_start_offset: int = int64("0+", default=-1)  # -1: no open transaction


@struct
class PartitionResponse(Struct):
    """One partition with its producers."""

    partition_index:  int                       = int32("0+")
    error_code:       int                       = int16("0+")
    error_message:    str | None                = string("0+", nullable="0+", default=None)
    active_producers: tuple[ProducerState, ...] = array(ProducerState, "0+")


@struct
class TopicResponse(Struct):
    """Partitions of one topic."""

    name:       str                           = string("0+")
    partitions: tuple[PartitionResponse, ...] = array(PartitionResponse, "0+")


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Struct):
    """The producers of each partition."""

    throttle_time_ms: int                       = int32("0+", default=0)
    topics:           tuple[TopicResponse, ...] = array(TopicResponse, "0+")

# fmt: on
