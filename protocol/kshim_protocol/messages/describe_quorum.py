"""DescribeQuorum: the controllers of a cluster."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, message, string, struct, uint16, uuid

# fmt: off


@struct
class PartitionData(Struct):
    """One partition."""

    partition_index: int = int32("0+")


@struct
class TopicData(Struct):
    """Partitions of one topic."""

    topic_name: str                       = string("0+")
    partitions: tuple[PartitionData, ...] = array(PartitionData, "0+")


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    """Ask for the state of the quorum (KIP-595). v0-2 flexible, the request is the same in all."""

    topics: tuple[TopicData, ...] = array(TopicData, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeQuorumResponse:
        return DescribeQuorumResponse(error_code=error, error_message=message, topics=(), nodes=())


@struct
class ReplicaState(Struct):
    """What is known of one replica. Timestamps are in ms, -1 where they are not known."""

    replica_id:               int   = int32("0+")
    replica_directory_id:     bytes = uuid("2+", default=bytes(16))
    log_end_offset:           int   = int64("0+")
    last_fetch_timestamp:     int   = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int   = int64("1+", default=-1, ignorable=True)


@struct
class PartitionDataResponse(Struct):
    """The state of one partition."""

    partition_index: int                      = int32("0+")
    error_code:      int                      = int16("0+")
    error_message:   str | None               = string("2+", nullable="2+", default="", ignorable=True)
    leader_id:       int                      = int32("0+")
    leader_epoch:    int                      = int32("0+")
    high_watermark:  int                      = int64("0+")
    current_voters:  tuple[ReplicaState, ...] = array(ReplicaState, "0+")
    observers:       tuple[ReplicaState, ...] = array(ReplicaState, "0+")


@struct
class TopicDataResponse(Struct):
    """Partitions of one topic."""

    topic_name: str                               = string("0+")
    partitions: tuple[PartitionDataResponse, ...] = array(PartitionDataResponse, "0+")


@struct
class Listener(Struct):
    """Where a controller can be reached."""

    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")


@struct
class Node(Struct):
    """One controller."""

    node_id:   int                  = int32("2+")
    listeners: tuple[Listener, ...] = array(Listener, "2+")


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse(Struct):
    """The state of the quorum. v1 timestamps (KIP-836). v2 error messages, directory ids and nodes (KIP-853)."""

    error_code:    int                           = int16("0+")
    error_message: str | None                    = string("2+", nullable="2+", default="", ignorable=True)
    topics:        tuple[TopicDataResponse, ...] = array(TopicDataResponse, "0+")
    nodes:         tuple[Node, ...]              = array(Node, "2+", default=())

# fmt: on
