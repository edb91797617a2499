"""Produce: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import ZERO_UUID, Request, Struct, array, int16, int32, int64, message, records, string, struct, struct_, uuid

__all__ = [
    "BatchIndexAndErrorMessage",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "ProduceRequest",
    "ProduceResponse",
    "TopicProduceData",
    "TopicProduceResponse",
]

# fmt: off


@struct
class PartitionProduceData(Struct):
    """Part of ProduceRequest."""

    index:   int          = int32("3+")
    records: bytes | None = records("3+", nullable="3+")


@struct
class TopicProduceData(Struct):
    """Part of ProduceRequest."""

    name:           str                              = string("3-12", default="", ignorable=True)
    topic_id:       bytes                            = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_data: tuple[PartitionProduceData, ...] = array(PartitionProduceData, "3+")


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceRequest(Request["ProduceResponse"]):
    """@@DOC ProduceRequest@@"""

    transactional_id: str | None                   = string("3+", nullable="3+", default=None)
    acks:             int                          = int16("3+")
    timeout_ms:       int                          = int32("3+")
    topic_data:       tuple[TopicProduceData, ...] = array(TopicProduceData, "3+")


@struct
class BatchIndexAndErrorMessage(Struct):
    """Part of ProduceResponse."""

    batch_index:               int        = int32("8+", default=0)
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


@struct
class LeaderIdAndEpoch(Struct):
    """Part of ProduceResponse."""

    leader_id:    int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


@struct
class PartitionProduceResponse(Struct):
    """Part of ProduceResponse."""

    index:              int                                   = int32("3+")
    error_code:         int                                   = int16("3+")
    base_offset:        int                                   = int64("3+")
    log_append_time_ms: int                                   = int64("3+", default=-1, ignorable=True)
    log_start_offset:   int                                   = int64("5+", default=-1, ignorable=True)
    record_errors:      tuple[BatchIndexAndErrorMessage, ...] = array(BatchIndexAndErrorMessage, "8+", default=(), ignorable=True)
    error_message:      str | None                            = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader:     LeaderIdAndEpoch                      = struct_(LeaderIdAndEpoch, "10+", default=LeaderIdAndEpoch(), tag=0)


@struct
class TopicProduceResponse(Struct):
    """Part of ProduceResponse."""

    name:                str                                  = string("3-12", default="", ignorable=True)
    topic_id:            bytes                                = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: tuple[PartitionProduceResponse, ...] = array(PartitionProduceResponse, "3+")


@struct
class NodeEndpoint(Struct):
    """Part of ProduceResponse."""

    node_id: int        = int32("10+", default=0)
    host:    str        = string("10+", default="")
    port:    int        = int32("10+", default=0)
    rack:    str | None = string("10+", nullable="10+", default=None)


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceResponse(Struct):
    """@@DOC ProduceResponse@@"""

    responses:        tuple[TopicProduceResponse, ...] = array(TopicProduceResponse, "3+")
    throttle_time_ms: int                              = int32("3+", default=0, ignorable=True)
    node_endpoints:   tuple[NodeEndpoint, ...]         = array(NodeEndpoint, "10+", default=(), tag=0)

# fmt: on
