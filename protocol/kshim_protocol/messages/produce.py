"""Produce: append record batches."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import (
    ZERO_UUID,
    Request,
    Struct,
    array,
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
class PartitionProduceData(Struct):
    """The batch for one partition."""

    index:   int          = int32("3+")
    records: bytes | None = records("3+", nullable="3+")  # exactly one batch, untouched


@struct
class TopicProduceData(Struct):
    """One topic: by name up to v12, by id from v13."""

    name:           str                              = string("3-12", default="", ignorable=True)
    topic_id:       bytes                            = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_data: tuple[PartitionProduceData, ...] = array(PartitionProduceData, "3+")


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceRequest(Request["ProduceResponse"]):
    """Append one record batch a partition. `acks` 0 gets no reply at all.

    v3 transactional id, batches of magic 2 (KIP-98). v7 zstd (KIP-110). v9 flexible. v11 TRANSACTION_ABORTABLE, v12
    implicit AddPartitionsToTxn (KIP-890). v13 topic ids (KIP-516). v0-2 are gone but listed, for old librdkafka.
    """

    transactional_id: str | None                   = string("3+", nullable="3+", default=None)  # null: not in a transaction
    acks:             int                          = int16("3+")                                # 0: no reply, 1: leader, -1: all in sync
    timeout_ms:       int                          = int32("3+")
    topic_data:       tuple[TopicProduceData, ...] = array(TopicProduceData, "3+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ProduceResponse:
        return ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=tuple(
                        PartitionProduceResponse(
                            index=partition.index, error_code=error, base_offset=-1, error_message=message
                        )
                        for partition in topic.partition_data
                    ),
                )
                for topic in self.topic_data
            )
        )


@struct
class BatchIndexAndErrorMessage(Struct):
    """A record that made the whole batch fail."""

    batch_index:               int        = int32("8+", default=0)
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


@struct
class LeaderIdAndEpoch(Struct):
    """The leader as the broker knows it; -1, -1: not known."""

    leader_id:    int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


@struct
class PartitionProduceResponse(Struct):
    """What became of one partition's batch."""

    index:              int                                   = int32("3+")
    error_code:         int                                   = int16("3+")
    base_offset:        int                                   = int64("3+")                                                          # offset of the batch's first record
    log_append_time_ms: int                                   = int64("3+", default=-1, ignorable=True)                              # -1: records keep the client's times
    log_start_offset:   int                                   = int64("5+", default=-1, ignorable=True)
    record_errors:      tuple[BatchIndexAndErrorMessage, ...] = array(BatchIndexAndErrorMessage, "8+", default=(), ignorable=True)
    error_message:      str | None                            = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader:     LeaderIdAndEpoch                      = struct_(LeaderIdAndEpoch, "10+", default=LeaderIdAndEpoch(), tag=0)


@struct
class TopicProduceResponse(Struct):
    """One topic: by name up to v12, by id from v13."""

    name:                str                                  = string("3-12", default="", ignorable=True)
    topic_id:            bytes                                = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: tuple[PartitionProduceResponse, ...] = array(PartitionProduceResponse, "3+")


@struct
class NodeEndpoint(Struct):
    """How to reach a leader named in this response."""

    node_id: int        = int32("10+", default=0)
    host:    str        = string("10+", default="")
    port:    int        = int32("10+", default=0)
    rack:    str | None = string("10+", nullable="10+", default=None)


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceResponse(Struct):
    """Where the batches were appended.

    v5 log start offset. v8 errors by record (KIP-467). v9 flexible. v10 current leader and node endpoints (KIP-951).
    v13 topic ids (KIP-516).
    """

    responses:        tuple[TopicProduceResponse, ...] = array(TopicProduceResponse, "3+")
    throttle_time_ms: int                              = int32("3+", default=0, ignorable=True)
    node_endpoints:   tuple[NodeEndpoint, ...]         = array(NodeEndpoint, "10+", default=(), tag=0)

# fmt: on
