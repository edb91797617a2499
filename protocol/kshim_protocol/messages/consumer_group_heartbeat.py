"""ConsumerGroupHeartbeat: all a member of the new protocol says and is told (KIP-848)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct, struct_, uuid

# fmt: off


@struct
class TopicPartitions(Struct):
    """Partitions of one topic, owned or assigned."""

    topic_id:   bytes           = uuid("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    """Join, go on, or leave; null and -1 stand for what has not changed since the last heartbeat.

    v1 regular expression, and the client makes its own member id (KIP-1082).
    """

    group_id:               str                               = string("0+")
    member_id:              str                               = string("0+")
    member_epoch:           int                               = int32("0+")                               # 0: join; -1: leave; -2: a static member will be back
    instance_id:            str | None                        = string("0+", nullable="0+", default=None)
    rack_id:                str | None                        = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms:   int                               = int32("0+", default=-1)
    subscribed_topic_names: tuple[str, ...] | None            = array("string", "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None                        = string("1+", nullable="1+", default=None)   # "": none any more
    server_assignor:        str | None                        = string("0+", nullable="0+", default=None)
    topic_partitions:       tuple[TopicPartitions, ...] | None = array(TopicPartitions, "0+", nullable="0+", default=None)   # owned

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)


@struct
class Assignment(Struct):
    """All that the member may use now."""

    topic_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions, "0+")


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Struct):
    """Where the member is, and what it owns; with an error, only that and a sentence."""

    throttle_time_ms:      int               = int32("0+", default=0)
    error_code:            int               = int16("0+")
    error_message:         str | None        = string("0+", nullable="0+", default=None)
    member_id:             str | None        = string("0+", nullable="0+", default=None)
    member_epoch:          int               = int32("0+", default=0)
    heartbeat_interval_ms: int               = int32("0+", default=0)
    assignment:            Assignment | None = struct_(Assignment, "0+", nullable="0+", default=None)   # None: no change

# fmt: on
