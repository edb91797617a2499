"""Fetch: read record batches; waits on the broker until there is enough."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import (
    ZERO_UUID,
    Request,
    Struct,
    array,
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
class ReplicaState(Struct):
    """The replica that fetches, if it is a broker."""

    replica_id:    int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


@struct
class FetchPartition(Struct):
    """One partition to read."""

    partition:            int   = int32("4+")
    current_leader_epoch: int   = int32("9+", default=-1, ignorable=True)                           # -1: not checked
    fetch_offset:         int   = int64("4+")
    last_fetched_epoch:   int   = int32("12+", default=-1)
    log_start_offset:     int   = int64("5+", default=-1, ignorable=True)                           # followers only
    partition_max_bytes:  int   = int32("4+")
    replica_directory_id: bytes = uuid("17+", default=ZERO_UUID, ignorable=True, tag=0)
    high_watermark:       int   = int64("18+", default=9223372036854775807, ignorable=True, tag=1)


@struct
class FetchTopic(Struct):
    """One topic to read: by name up to v12, by id from v13."""

    topic:      str                        = string("4-12", default="", ignorable=True)
    topic_id:   bytes                      = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[FetchPartition, ...] = array(FetchPartition, "4+")


@struct
class ForgottenTopic(Struct):
    """Partitions to drop from the session."""

    topic:      str             = string("7-12", default="", ignorable=True)
    topic_id:   bytes           = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[int, ...] = array("int32", "7+", default=())


@message(api_key=1, versions="4-18", flexible="12+")
class FetchRequest(Request["FetchResponse"]):
    """Ask for record batches; answered when `min_bytes` are there or `max_wait_ms` have passed.

    v4 isolation level (KIP-98). v5 log start offset. v7 sessions (KIP-227). v9 leader epoch (KIP-320). v10 zstd
    (KIP-110). v11 rack (KIP-392). v12 flexible, last fetched epoch (KIP-595). v13 topic ids (KIP-516). v14 tiered
    storage errors (KIP-405). v15 replica state (KIP-903). v16 leader discovery (KIP-951). v17 directory id (KIP-853).
    v18 high watermark (KIP-1166). The order of partitions matters: bytes are spent in that order.
    """

    cluster_id:            str | None                 = string("12+", nullable="12+", default=None, ignorable=True, tag=0)
    replica_id:            int                        = int32("4-14", default=-1)                                           # -1: a consumer
    replica_state:         ReplicaState               = struct_(ReplicaState, "15+", default=ReplicaState(), tag=1)
    max_wait_ms:           int                        = int32("4+")
    min_bytes:             int                        = int32("4+")
    max_bytes:             int                        = int32("4+", default=2147483647, ignorable=True)
    isolation_level:       int                        = int8("4+", default=0, ignorable=True)                               # 0 read uncommitted, 1 read committed
    session_id:            int                        = int32("7+", default=0, ignorable=True)                              # 0: none
    session_epoch:         int                        = int32("7+", default=-1, ignorable=True)                             # 0: open a session; -1: full fetch without
    topics:                tuple[FetchTopic, ...]     = array(FetchTopic, "4+")
    forgotten_topics_data: tuple[ForgottenTopic, ...] = array(ForgottenTopic, "7+", default=())
    rack_id:               str                        = string("11+", default="", ignorable=True)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> FetchResponse:
        # From v13 on the top-level error is all there is; from v7 on both, below only the partitions'.
        return FetchResponse(
            error_code=error,
            session_id=self.session_id if version >= 7 else 0,
            responses=tuple(
                FetchableTopicResponse(
                    topic=topic.topic,
                    partitions=tuple(
                        PartitionData(
                            partition_index=partition.partition,
                            error_code=error,
                            high_watermark=-1,
                            aborted_transactions=(),
                            records=b"",
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in (self.topics if version < 13 else ())
            ),
        )


@struct
class EpochEndOffset(Struct):
    """Where the follower's log parts from the leader's."""

    epoch:      int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


@struct
class LeaderIdAndEpoch(Struct):
    """The leader as the broker knows it; -1, -1: not known."""

    leader_id:    int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


@struct
class SnapshotId(Struct):
    """A metadata snapshot; unused between clients and brokers."""

    end_offset: int = int64("4+", default=-1)
    epoch:      int = int32("4+", default=-1)


@struct
class AbortedTransaction(Struct):
    """An aborted transaction that begins in the records sent."""

    producer_id:  int = int64("4+")
    first_offset: int = int64("4+")


@struct
class PartitionData(Struct):
    """One partition: its watermarks and batches."""

    partition_index:        int                                   = int32("4+")
    error_code:             int                                   = int16("4+")
    high_watermark:         int                                   = int64("4+")                                                          # -1 in errors
    last_stable_offset:     int                                   = int64("4+", default=-1, ignorable=True)
    log_start_offset:       int                                   = int64("5+", default=-1, ignorable=True)
    diverging_epoch:        EpochEndOffset                        = struct_(EpochEndOffset, "12+", default=EpochEndOffset(), tag=0)
    current_leader:         LeaderIdAndEpoch                      = struct_(LeaderIdAndEpoch, "12+", default=LeaderIdAndEpoch(), tag=1)
    snapshot_id:            SnapshotId                            = struct_(SnapshotId, "12+", default=SnapshotId(), tag=2)
    aborted_transactions:   tuple[AbortedTransaction, ...] | None = array(AbortedTransaction, "4+", nullable="4+", ignorable=True)       # null unless read committed
    preferred_read_replica: int                                   = int32("11+", default=-1)
    records:                bytes | None                          = records("4+", nullable="4+")


@struct
class FetchableTopicResponse(Struct):
    """One topic: by name up to v12, by id from v13."""

    topic:      str                       = string("4-12", default="", ignorable=True)
    topic_id:   bytes                     = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[PartitionData, ...] = array(PartitionData, "4+")


@struct
class NodeEndpoint(Struct):
    """How to reach a leader named in this response."""

    node_id: int        = int32("16+", default=0)
    host:    str        = string("16+", default="")
    port:    int        = int32("16+", default=0)
    rack:    str | None = string("16+", nullable="16+", default=None)


@message(api_key=1, versions="4-18", flexible="12+")
class FetchResponse(Struct):
    """Record batches as stored: they may begin before the offset asked for and end in a cut one.

    v5 log start offset. v7 top-level error and session (KIP-227). v11 preferred read replica (KIP-392). v12 flexible,
    diverging epoch and current leader (KIP-595). v13 topic ids (KIP-516). v16 node endpoints (KIP-951).
    """

    throttle_time_ms: int                                = int32("4+", default=0, ignorable=True)
    error_code:       int                                = int16("7+", default=0, ignorable=True)
    session_id:       int                                = int32("7+", default=0)
    responses:        tuple[FetchableTopicResponse, ...] = array(FetchableTopicResponse, "4+")
    node_endpoints:   tuple[NodeEndpoint, ...]           = array(NodeEndpoint, "16+", default=(), tag=0)

# fmt: on
