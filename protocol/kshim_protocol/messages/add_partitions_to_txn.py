"""AddPartitionsToTxn: which partitions a transaction is going to write to."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, int16, int32, int64, message, string, struct

# fmt: off


@struct
class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name:       str             = string("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@struct
class AddPartitionsToTxnTransaction(Struct):
    """One transaction (v4)."""

    transactional_id: str                                 = string("4+", default="")
    producer_id:      int                                 = int64("4+", default=0)
    producer_epoch:   int                                 = int16("4+", default=0)
    verify_only:      bool                                = boolean("4+", default=False)
    topics:           tuple[AddPartitionsToTxnTopic, ...] = array(AddPartitionsToTxnTopic, "4+", default=())


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"]):
    """Add partitions to a transaction (KIP-98).

    v3 flexible. v4 and v5 carry many transactions at once and are between brokers (KIP-890); clients stop at v3.
    """

    transactions:                  tuple[AddPartitionsToTxnTransaction, ...] = array(AddPartitionsToTxnTransaction, "4+", default=())
    v3_and_below_transactional_id: str                                       = string("0-3", default="")
    v3_and_below_producer_id:      int                                       = int64("0-3", default=0)
    v3_and_below_producer_epoch:   int                                       = int16("0-3", default=0)
    v3_and_below_topics:           tuple[AddPartitionsToTxnTopic, ...]       = array(AddPartitionsToTxnTopic, "0-3", default=())

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> AddPartitionsToTxnResponse:
        if version >= 4:
            return AddPartitionsToTxnResponse(
                error_code=error, results_by_transaction=(), results_by_topic_v3_and_below=()
            )
        return AddPartitionsToTxnResponse(
            error_code=ErrorCode.NONE,
            results_by_transaction=(),
            results_by_topic_v3_and_below=tuple(
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=tuple(
                        AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=error)
                        for partition in topic.partitions
                    ),
                )
                for topic in self.v3_and_below_topics
            )
        )


@struct
class AddPartitionsToTxnPartitionResult(Struct):
    """The result of one partition."""

    partition_index:      int = int32("0+")
    partition_error_code: int = int16("0+")


@struct
class AddPartitionsToTxnTopicResult(Struct):
    """Results of one topic."""

    name:                 str                                           = string("0+")
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = array(AddPartitionsToTxnPartitionResult, "0+")


@struct
class AddPartitionsToTxnResult(Struct):
    """The result of one transaction (v4)."""

    transactional_id: str                                       = string("4+", default="")
    topic_results:    tuple[AddPartitionsToTxnTopicResult, ...] = array(AddPartitionsToTxnTopicResult, "4+", default=())


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Struct):
    """One error a partition. v3 flexible. v4 one result a transaction."""

    throttle_time_ms:              int                                       = int32("0+", default=0)
    error_code:                    int                                       = int16("4+", default=0, ignorable=True)
    results_by_transaction:        tuple[AddPartitionsToTxnResult, ...]      = array(AddPartitionsToTxnResult, "4+", default=())
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = array(AddPartitionsToTxnTopicResult, "0-3", default=())

# fmt: on
