"""ShareGroupHeartbeat: all a member of a share group says and is told (KIP-932)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct, struct_, uuid

# fmt: off


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    """Join, go on, or leave; null stands for what has not changed since the last heartbeat."""

    group_id:               str                    = string("0+")
    member_id:              str                    = string("0+")
    member_epoch:           int                    = int32("0+")                                          # 0: join; -1: leave
    rack_id:                str | None             = string("0+", nullable="0+", default=None)            # null: as before
    subscribed_topic_names: tuple[str, ...] | None = array("string", "0+", nullable="0+", default=None)   # null: as before

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ShareGroupHeartbeatResponse:
        return ShareGroupHeartbeatResponse(error_code=error, error_message=message, member_epoch=0, heartbeat_interval_ms=0)


@struct
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id:   bytes           = uuid("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@struct
class Assignment(Struct):
    """All that a member may read."""

    topic_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions, "0+")


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse(Struct):
    """Where the member is, and what it reads; with an error, only that and a sentence."""

    throttle_time_ms:      int               = int32("0+", default=0)
    error_code:            int               = int16("0+")
    error_message:         str | None        = string("0+", nullable="0+", default=None)
    member_id:             str | None        = string("0+", nullable="0+", default=None)
    member_epoch:          int               = int32("0+")
    heartbeat_interval_ms: int               = int32("0+")
    assignment:            Assignment | None = struct_(Assignment, "0+", nullable="0+", default=None)   # null: no change

# fmt: on
