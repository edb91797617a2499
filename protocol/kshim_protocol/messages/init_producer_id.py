"""InitProducerId: a producer id and epoch for an idempotent or transactional producer."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, boolean, int16, int32, int64, message, string

# fmt: off


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    """Ask for a producer id; a transactional one fences older producers.

    v2 flexible. v3 current id and epoch, to recover (KIP-360). v4 PRODUCER_FENCED (KIP-588). v5 TRANSACTION_ABORTABLE
    (KIP-890). v6 two-phase commit (KIP-939), unstable in 4.4 and not listed.
    """

    transactional_id:       str | None = string("0+", nullable="0+")   # null: idempotent only
    transaction_timeout_ms: int        = int32("0+")
    producer_id:            int        = int64("3+", default=-1)
    producer_epoch:         int        = int16("3+", default=-1)
    enable_2pc:             bool       = boolean("6+", default=False)  # Kafka spells it Enable2Pc
    keep_prepared_txn:      bool       = boolean("6+", default=False)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> InitProducerIdResponse:
        return InitProducerIdResponse(error_code=error, producer_epoch=-1)


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse(Struct):
    """The producer id and its epoch. v2 flexible. v6 a transaction still open (KIP-939)."""

    throttle_time_ms:           int = int32("0+", default=0, ignorable=True)
    error_code:                 int = int16("0+")
    producer_id:                int = int64("0+", default=-1)
    producer_epoch:             int = int16("0+")
    ongoing_txn_producer_id:    int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)

# fmt: on
