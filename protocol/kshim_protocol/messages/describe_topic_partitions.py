"""DescribeTopicPartitions: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, boolean, int16, int32, message, string, struct, struct_, uuid

__all__ = [
    "Cursor",
    "CursorResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTopicPartitionsResponsePartition",
    "DescribeTopicPartitionsResponseTopic",
    "TopicRequest",
]

# fmt: off


@struct
class TopicRequest(Struct):
    """Part of DescribeTopicPartitionsRequest."""

    name: str = string("0+")


@struct
class Cursor(Struct):
    """Part of DescribeTopicPartitionsRequest."""

    topic_name:      str = string("0+")
    partition_index: int = int32("0+")


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    """@@DOC DescribeTopicPartitionsRequest@@"""

    topics:                   tuple[TopicRequest, ...] = array(TopicRequest, "0+")
    response_partition_limit: int                      = int32("0+", default=2000)
    cursor:                   Cursor | None            = struct_(Cursor, "0+", nullable="0+", default=None)


@struct
class DescribeTopicPartitionsResponsePartition(Struct):
    """Part of DescribeTopicPartitionsResponse."""

    error_code:               int                    = int16("0+")
    partition_index:          int                    = int32("0+")
    leader_id:                int                    = int32("0+")
    leader_epoch:             int                    = int32("0+", default=-1, ignorable=True)
    replica_nodes:            tuple[int, ...]        = array("int32", "0+")
    isr_nodes:                tuple[int, ...]        = array("int32", "0+")
    eligible_leader_replicas: tuple[int, ...] | None = array("int32", "0+", nullable="0+", default=None)
    last_known_elr:           tuple[int, ...] | None = array("int32", "0+", nullable="0+", default=None)
    offline_replicas:         tuple[int, ...]        = array("int32", "0+", ignorable=True)


@struct
class DescribeTopicPartitionsResponseTopic(Struct):
    """Part of DescribeTopicPartitionsResponse."""

    error_code:                  int                                                  = int16("0+")
    name:                        str | None                                           = string("0+", nullable="0+")
    topic_id:                    bytes                                                = uuid("0+", ignorable=True)
    is_internal:                 bool                                                 = boolean("0+", default=False, ignorable=True)
    partitions:                  tuple[DescribeTopicPartitionsResponsePartition, ...] = array(DescribeTopicPartitionsResponsePartition, "0+")
    topic_authorized_operations: int                                                  = int32("0+", default=-2147483648)


@struct
class CursorResponse(Struct):
    """Part of DescribeTopicPartitionsResponse."""

    topic_name:      str = string("0+")
    partition_index: int = int32("0+")


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Struct):
    """@@DOC DescribeTopicPartitionsResponse@@"""

    throttle_time_ms: int                                              = int32("0+", default=0, ignorable=True)
    topics:           tuple[DescribeTopicPartitionsResponseTopic, ...] = array(DescribeTopicPartitionsResponseTopic, "0+")
    next_cursor:      CursorResponse | None                            = struct_(CursorResponse, "0+", nullable="0+", default=None)

# fmt: on
