"""ShareFetch: acquire records for a member of a share group, and say what became of earlier ones (KIP-932)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import (
    Request,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    records,
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
class FetchPartition(Struct):
    """One partition to read, and what became of its records."""

    partition_index:         int                              = int32("0+")
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = array(AcknowledgementBatch, "0+")


@struct
class FetchTopic(Struct):
    """One topic."""

    topic_id:   bytes                      = uuid("0+")
    partitions: tuple[FetchPartition, ...] = array(FetchPartition, "0+")


@struct
class ForgottenTopic(Struct):
    """Partitions to drop from the session."""

    topic_id:   bytes           = uuid("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@message(api_key=78, versions="1-2", flexible="0+")
class ShareFetchRequest(Request["ShareFetchResponse"]):
    """Ask for records; waits as Fetch does. v2 acquire mode (KIP-1206), renewal (KIP-1222)."""

    group_id:              str | None                 = string("0+", nullable="0+", default=None)
    member_id:             str | None                 = string("0+", nullable="0+")
    share_session_epoch:   int                        = int32("0+")                                 # 0: open a session; -1: close it
    max_wait_ms:           int                        = int32("0+")
    min_bytes:             int                        = int32("0+")
    max_bytes:             int                        = int32("0+", default=2147483647)
    max_records:           int                        = int32("0+")                                 # may be exceeded up to the end of a batch
    batch_size:            int                        = int32("0+")                                 # records in a range, where batches allow it
    share_acquire_mode:    int                        = int8("2+", default=0, ignorable=True)       # 0: whole batches; 1: no more than max_records
    is_renew_ack:          bool                       = boolean("2+", default=False)
    topics:                tuple[FetchTopic, ...]     = array(FetchTopic, "0+")
    forgotten_topics_data: tuple[ForgottenTopic, ...] = array(ForgottenTopic, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ShareFetchResponse:
        return ShareFetchResponse(error_code=error, error_message=message, acquisition_lock_timeout_ms=0, responses=())


@struct
class LeaderIdAndEpoch(Struct):
    """The leader as the broker knows it; 0, 0: not said."""

    leader_id:    int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)


@struct
class AcquiredRecords(Struct):
    """A range of records that are the member's now."""

    first_offset:   int = int64("0+")
    last_offset:    int = int64("0+")   # inclusive
    delivery_count: int = int16("0+")


@struct
class PartitionData(Struct):
    """One partition: its batches, and which of their records count."""

    partition_index:           int                         = int32("0+")
    error_code:                int                         = int16("0+", default=0)
    error_message:             str | None                  = string("0+", nullable="0+", default=None)
    acknowledge_error_code:    int                         = int16("0+", default=0)
    acknowledge_error_message: str | None                  = string("0+", nullable="0+", default=None)
    current_leader:            LeaderIdAndEpoch            = struct_(LeaderIdAndEpoch, "0+", default=LeaderIdAndEpoch())
    records:                   bytes                       = records("0+", default=b"")
    acquired_records:          tuple[AcquiredRecords, ...] = array(AcquiredRecords, "0+", default=())


@struct
class ShareFetchableTopicResponse(Struct):
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


@message(api_key=78, versions="1-2", flexible="0+")
class ShareFetchResponse(Struct):
    """Whole batches; only the records in `acquired_records` are the member's."""

    throttle_time_ms:            int                                     = int32("0+", default=0)
    error_code:                  int                                     = int16("0+")
    error_message:               str | None                              = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int                                     = int32("0+")                                 # 0 in errors
    responses:                   tuple[ShareFetchableTopicResponse, ...] = array(ShareFetchableTopicResponse, "0+")
    node_endpoints:              tuple[NodeEndpoint, ...]                = array(NodeEndpoint, "0+", default=())

# fmt: on
