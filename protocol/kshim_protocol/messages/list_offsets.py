"""ListOffsets: first offset, end offset or offset by time of partitions."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int8, int16, int32, int64, message, string, struct

# fmt: off


@struct
class ListOffsetsPartition(Struct):
    """One partition to look at."""

    partition_index:      int = int32("1+")
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp:            int = int64("1+")                              # -1 end, -2 start, -3 (v7) highest timestamp, -4 (v8) -5 (v9) -6 (v11) tiered storage


@struct
class ListOffsetsTopic(Struct):
    """One topic to look at."""

    name:       str                              = string("1+")
    partitions: tuple[ListOffsetsPartition, ...] = array(ListOffsetsPartition, "1+")


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    """Ask for offsets, by time in ms since the epoch or by a negative marker.

    v1 one offset a partition (KIP-79). v2 isolation level (KIP-98). v4 leader epoch (KIP-320). v6 flexible.
    v10 timeout (KIP-1075).
    """

    replica_id:      int                          = int32("1+")                              # -1: a consumer
    isolation_level: int                          = int8("2+", default=0)
    topics:          tuple[ListOffsetsTopic, ...] = array(ListOffsetsTopic, "1+")
    timeout_ms:      int                          = int32("10+", default=0, ignorable=True)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=error)
                        for partition in topic.partitions
                    ),
                )
                for topic in self.topics
            )
        )


@struct
class ListOffsetsPartitionResponse(Struct):
    """What was found in one partition."""

    partition_index: int = int32("1+")
    error_code:      int = int16("1+")
    timestamp:       int = int64("1+", default=-1)  # of the record found; -1 for -1 and -2
    offset:          int = int64("1+", default=-1)  # -1: none
    leader_epoch:    int = int32("4+", default=-1)


@struct
class ListOffsetsTopicResponse(Struct):
    """One topic."""

    name:       str                                      = string("1+")
    partitions: tuple[ListOffsetsPartitionResponse, ...] = array(ListOffsetsPartitionResponse, "1+")


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(Struct):
    """One offset a partition. v2 throttle time. v4 leader epoch (KIP-320). v6 flexible."""

    throttle_time_ms: int                                  = int32("2+", default=0, ignorable=True)
    topics:           tuple[ListOffsetsTopicResponse, ...] = array(ListOffsetsTopicResponse, "1+")

# fmt: on
