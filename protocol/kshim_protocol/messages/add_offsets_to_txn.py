"""AddOffsetsToTxn: a transaction is going to commit offsets of a group."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, int16, int32, int64, message, string

# fmt: off


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    """Add the offsets partition of a group to a transaction (KIP-98). v3 flexible. v4 TRANSACTION_ABORTABLE."""

    transactional_id: str = string("0+")
    producer_id:      int = int64("0+")
    producer_epoch:   int = int16("0+")
    group_id:         str = string("0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=error)


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Struct):
    """The outcome. v3 flexible."""

    throttle_time_ms: int = int32("0+", default=0)
    error_code:       int = int16("0+")

# fmt: on
