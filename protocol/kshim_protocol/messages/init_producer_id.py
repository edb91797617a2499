"""InitProducerId: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, boolean, int16, int32, int64, message, string

__all__ = [
    "InitProducerIdRequest",
    "InitProducerIdResponse",
]

# fmt: off


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    """@@DOC InitProducerIdRequest@@"""

    transactional_id:       str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int        = int32("0+")
    producer_id:            int        = int64("3+", default=-1)
    producer_epoch:         int        = int16("3+", default=-1)
    enable2_pc:             bool       = boolean("6+", default=False)
    keep_prepared_txn:      bool       = boolean("6+", default=False)


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse(Struct):
    """@@DOC InitProducerIdResponse@@"""

    throttle_time_ms:           int = int32("0+", default=0, ignorable=True)
    error_code:                 int = int16("0+")
    producer_id:                int = int64("0+", default=-1)
    producer_epoch:             int = int16("0+")
    ongoing_txn_producer_id:    int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)

# fmt: on
