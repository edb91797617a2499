"""DescribeTopicPartitions: topics in pages, sorted by name (KIP-966)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import (
    ZERO_UUID,
    Request,
    Struct,
    array,
    boolean,
    int16,
    int32,
    message,
    string,
    struct,
    struct_,
    uuid,
)

# fmt: off


@struct
class TopicRequest(Struct):
    """One topic to describe."""

    name: str = string("0+")


@struct
class Cursor(Struct):
    """Where a page starts: a topic and a partition of it."""

    topic_name:      str = string("0+")
    partition_index: int = int32("0+")


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    """Ask for topics page by page (KIP-966). No names: all topics."""

    topics:                   tuple[TopicRequest, ...] = array(TopicRequest, "0+")
    response_partition_limit: int                      = int32("0+", default=2000)
    cursor:                   Cursor | None            = struct_(Cursor, "0+", nullable="0+", default=None)  # null: from the start

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeTopicPartitionsResponse:
        return DescribeTopicPartitionsResponse(
            topics=tuple(
                DescribeTopicPartitionsResponseTopic(
                    error_code=error, name=topic.name, topic_id=ZERO_UUID, partitions=()
                )
                for topic in self.topics
            )
        )


@struct
class DescribeTopicPartitionsResponsePartition(Struct):
    """One partition."""

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
    """One topic, perhaps with only some of its partitions."""

    error_code:                  int                                                  = int16("0+")
    name:                        str | None                                           = string("0+", nullable="0+")
    topic_id:                    bytes                                                = uuid("0+", ignorable=True)
    is_internal:                 bool                                                 = boolean("0+", default=False, ignorable=True)
    partitions:                  tuple[DescribeTopicPartitionsResponsePartition, ...] = array(DescribeTopicPartitionsResponsePartition, "0+")
    topic_authorized_operations: int                                                  = int32("0+", default=-2147483648)                       # bit field; the lowest int32: not asked for


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Struct):
    """A page of topics sorted by name; `next_cursor` is null on the last one."""

    throttle_time_ms: int                                              = int32("0+", default=0, ignorable=True)
    topics:           tuple[DescribeTopicPartitionsResponseTopic, ...] = array(DescribeTopicPartitionsResponseTopic, "0+")
    next_cursor:      Cursor | None                                    = struct_(Cursor, "0+", nullable="0+", default=None)

# fmt: on
