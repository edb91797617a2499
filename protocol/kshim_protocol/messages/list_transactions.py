"""ListTransactions: which transactions there are."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, message, string, struct

# fmt: off


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(Request["ListTransactionsResponse"]):
    """Ask for transactions by state and producer (KIP-664). v1 by age (KIP-994). v2 by a pattern of the id (KIP-1152)."""

    state_filters:            tuple[str, ...] = array("string", "0+")
    producer_id_filters:      tuple[int, ...] = array("int64", "0+")
    duration_filter:          int             = int64("1+", default=-1)                    # ms; -1: all
    transactional_id_pattern: str | None      = string("2+", nullable="2+", default=None)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ListTransactionsResponse:
        return ListTransactionsResponse(error_code=error, unknown_state_filters=(), transaction_states=())


@struct
class TransactionState(Struct):
    """One transaction."""

    transactional_id:  str = string("0+")
    producer_id:       int = int64("0+")
    transaction_state: str = string("0+")


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Struct):
    """The transactions this node coordinates."""

    throttle_time_ms:      int                          = int32("0+", default=0)
    error_code:            int                          = int16("0+")
    unknown_state_filters: tuple[str, ...]              = array("string", "0+")
    transaction_states:    tuple[TransactionState, ...] = array(TransactionState, "0+")

# fmt: on
