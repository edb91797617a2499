"""Fetch: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import ZERO_UUID, Request, Struct, array, int16, int32, int64, int8, message, records, string, struct, struct_, uuid

__all__ = [
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchableTopicResponse",
    "ForgottenTopic",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionData",
    "ReplicaState",
    "SnapshotId",
]

# fmt: off


@struct
class ReplicaState(Struct):
    """Part of FetchRequest."""

    replica_id:    int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


@struct
class FetchPartition(Struct):
    """Part of FetchRequest."""

    partition:            int   = int32("4+")
    current_leader_epoch: int   = int32("9+", default=-1, ignorable=True)
    fetch_offset:         int   = int64("4+")
    last_fetched_epoch:   int   = int32("12+", default=-1)
    log_start_offset:     int   = int64("5+", default=-1, ignorable=True)
    partition_max_bytes:  int   = int32("4+")
    replica_directory_id: bytes = uuid("17+", default=ZERO_UUID, ignorable=True, tag=0)
    high_watermark:       int   = int64("18+", default=9223372036854775807, ignorable=True, tag=1)


@struct
class FetchTopic(Struct):
    """Part of FetchRequest."""

    topic:      str                        = string("4-12", default="", ignorable=True)
    topic_id:   bytes                      = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[FetchPartition, ...] = array(FetchPartition, "4+")


@struct
class ForgottenTopic(Struct):
    """Part of FetchRequest."""

    topic:      str             = string("7-12", default="", ignorable=True)
    topic_id:   bytes           = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[int, ...] = array("int32", "7+", default=())


@message(api_key=1, versions="4-18", flexible="12+")
class FetchRequest(Request["FetchResponse"]):
    """@@DOC FetchRequest@@"""

    cluster_id:            str | None                 = string("12+", nullable="12+", default=None, ignorable=True, tag=0)
    replica_id:            int                        = int32("4-14", default=-1)
    replica_state:         ReplicaState               = struct_(ReplicaState, "15+", default=ReplicaState(), tag=1)
    max_wait_ms:           int                        = int32("4+")
    min_bytes:             int                        = int32("4+")
    max_bytes:             int                        = int32("4+", default=2147483647, ignorable=True)
    isolation_level:       int                        = int8("4+", default=0, ignorable=True)
    session_id:            int                        = int32("7+", default=0, ignorable=True)
    session_epoch:         int                        = int32("7+", default=-1, ignorable=True)
    topics:                tuple[FetchTopic, ...]     = array(FetchTopic, "4+")
    forgotten_topics_data: tuple[ForgottenTopic, ...] = array(ForgottenTopic, "7+", default=())
    rack_id:               str                        = string("11+", default="", ignorable=True)


@struct
class EpochEndOffset(Struct):
    """Part of FetchResponse."""

    epoch:      int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


@struct
class LeaderIdAndEpoch(Struct):
    """Part of FetchResponse."""

    leader_id:    int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


@struct
class SnapshotId(Struct):
    """Part of FetchResponse."""

    end_offset: int = int64("4+", default=-1)
    epoch:      int = int32("4+", default=-1)


@struct
class AbortedTransaction(Struct):
    """Part of FetchResponse."""

    producer_id:  int = int64("4+")
    first_offset: int = int64("4+")


@struct
class PartitionData(Struct):
    """Part of FetchResponse."""

    partition_index:        int                                   = int32("4+")
    error_code:             int                                   = int16("4+")
    high_watermark:         int                                   = int64("4+")
    last_stable_offset:     int                                   = int64("4+", default=-1, ignorable=True)
    log_start_offset:       int                                   = int64("5+", default=-1, ignorable=True)
    diverging_epoch:        EpochEndOffset                        = struct_(EpochEndOffset, "12+", default=EpochEndOffset(), tag=0)
    current_leader:         LeaderIdAndEpoch                      = struct_(LeaderIdAndEpoch, "12+", default=LeaderIdAndEpoch(), tag=1)
    snapshot_id:            SnapshotId                            = struct_(SnapshotId, "12+", default=SnapshotId(), tag=2)
    aborted_transactions:   tuple[AbortedTransaction, ...] | None = array(AbortedTransaction, "4+", nullable="4+", ignorable=True)
    preferred_read_replica: int                                   = int32("11+", default=-1)
    records:                bytes | None                          = records("4+", nullable="4+")


@struct
class FetchableTopicResponse(Struct):
    """Part of FetchResponse."""

    topic:      str                       = string("4-12", default="", ignorable=True)
    topic_id:   bytes                     = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[PartitionData, ...] = array(PartitionData, "4+")


@struct
class NodeEndpoint(Struct):
    """Part of FetchResponse."""

    node_id: int        = int32("16+", default=0)
    host:    str        = string("16+", default="")
    port:    int        = int32("16+", default=0)
    rack:    str | None = string("16+", nullable="16+", default=None)


@message(api_key=1, versions="4-18", flexible="12+")
class FetchResponse(Struct):
    """@@DOC FetchResponse@@"""

    throttle_time_ms: int                                = int32("4+", default=0, ignorable=True)
    error_code:       int                                = int16("7+", default=0, ignorable=True)
    session_id:       int                                = int32("7+", default=0)
    responses:        tuple[FetchableTopicResponse, ...] = array(FetchableTopicResponse, "4+")
    node_endpoints:   tuple[NodeEndpoint, ...]           = array(NodeEndpoint, "16+", default=(), tag=0)

# fmt: on
