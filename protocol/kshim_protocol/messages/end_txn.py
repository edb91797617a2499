"""EndTxn: commit or abort a transaction."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, boolean, int16, int32, int64, message, string

# fmt: off


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Request["EndTxnResponse"]):
    """End a transaction (KIP-98). v3 flexible. v4 TRANSACTION_ABORTABLE. v5 bumps the epoch (KIP-890, transaction.version 2)."""

    transactional_id: str  = string("0+")
    producer_id:      int  = int64("0+")
    producer_epoch:   int  = int16("0+")
    committed:        bool = boolean("0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> EndTxnResponse:
        return EndTxnResponse(error_code=error)


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Struct):
    """The outcome. v3 flexible. v5 producer id and epoch to go on with."""

    throttle_time_ms: int = int32("0+", default=0)
    error_code:       int = int16("0+")
    producer_id:      int = int64("5+", default=-1, ignorable=True)
    producer_epoch:   int = int16("5+", default=-1, ignorable=True)

# fmt: on
