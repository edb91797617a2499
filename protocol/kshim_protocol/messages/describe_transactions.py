"""DescribeTransactions: the state of transactions."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, message, string, struct

# fmt: off


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    """Ask for transactional ids (KIP-664)."""

    transactional_ids: tuple[str, ...] = array("string", "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=tuple(
                TransactionState(
                    error_code=error,
                    transactional_id=transactional_id,
                    transaction_state="",
                    transaction_timeout_ms=0,
                    transaction_start_time_ms=0,
                    producer_id=0,
                    producer_epoch=0,
                    topics=(),
                )
                for transactional_id in self.transactional_ids
            )
        )


@struct
class TopicData(Struct):
    """Partitions of one topic."""

    topic:      str             = string("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@struct
class TransactionState(Struct):
    """One transaction."""

    error_code:                int                   = int16("0+")
    transactional_id:          str                   = string("0+")
    transaction_state:         str                   = string("0+")
    transaction_timeout_ms:    int                   = int32("0+")
    transaction_start_time_ms: int                   = int64("0+")
    producer_id:               int                   = int64("0+")
    producer_epoch:            int                   = int16("0+")
    topics:                    tuple[TopicData, ...] = array(TopicData, "0+")


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Struct):
    """One result an id."""

    throttle_time_ms:   int                          = int32("0+", default=0)
    transaction_states: tuple[TransactionState, ...] = array(TransactionState, "0+")

# fmt: on
