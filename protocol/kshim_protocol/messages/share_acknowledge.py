"""ShareAcknowledge: say what became of records of a share group (KIP-932)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import (
    Request,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    struct_,
    uuid,
)

# fmt: off


@struct
class AcknowledgementBatch(Struct):
    """What became of the records of a range."""

    first_offset:      int             = int64("0+")
    last_offset:       int             = int64("0+")           # inclusive
    acknowledge_types: tuple[int, ...] = array("int8", "0+")   # 0 gap, 1 accept, 2 release, 3 reject, 4 renew: one, or one an offset


@struct
class AcknowledgePartition(Struct):
    """One partition."""

    partition_index:         int                              = int32("0+")
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = array(AcknowledgementBatch, "0+")


@struct
class AcknowledgeTopic(Struct):
    """One topic."""

    topic_id:   bytes                            = uuid("0+")
    partitions: tuple[AcknowledgePartition, ...] = array(AcknowledgePartition, "0+")


@message(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"]):
    """What became of records. v2 renewal (KIP-1222)."""

    group_id:            str | None                   = string("0+", nullable="0+", default=None)
    member_id:           str | None                   = string("0+", nullable="0+")
    share_session_epoch: int                          = int32("0+")                                 # 0: open a session; -1: close it
    is_renew_ack:        bool                         = boolean("2+", default=False)
    topics:              tuple[AcknowledgeTopic, ...] = array(AcknowledgeTopic, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ShareAcknowledgeResponse:
        return ShareAcknowledgeResponse(error_code=error, error_message=message, responses=())


@struct
class LeaderIdAndEpoch(Struct):
    """The leader as the broker knows it; 0, 0: not said."""

    leader_id:    int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)


@struct
class PartitionData(Struct):
    """One partition."""

    partition_index: int              = int32("0+")
    error_code:      int              = int16("0+")
    error_message:   str | None       = string("0+", nullable="0+", default=None)
    current_leader:  LeaderIdAndEpoch = struct_(LeaderIdAndEpoch, "0+", default=LeaderIdAndEpoch())


@struct
class ShareAcknowledgeTopicResponse(Struct):
    """One topic."""

    topic_id:   bytes                     = uuid("0+")
    partitions: tuple[PartitionData, ...] = array(PartitionData, "0+")


@struct
class NodeEndpoint(Struct):
    """How to reach a leader named in this response."""

    node_id: int        = int32("0+")
    host:    str        = string("0+")
    port:    int        = int32("0+")
    rack:    str | None = string("0+", nullable="0+", default=None)


@message(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse(Struct):
    """An error a partition. v2 lock timeout."""

    throttle_time_ms:            int                                       = int32("0+", default=0)
    error_code:                  int                                       = int16("0+")
    error_message:               str | None                                = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int                                       = int32("2+", default=0, ignorable=True)       # 0 in errors
    responses:                   tuple[ShareAcknowledgeTopicResponse, ...] = array(ShareAcknowledgeTopicResponse, "0+")
    node_endpoints:              tuple[NodeEndpoint, ...]                  = array(NodeEndpoint, "0+", default=())

# fmt: on
