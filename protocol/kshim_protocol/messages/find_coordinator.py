"""FindCoordinator: which broker looks after a group or a transactional id."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int8, int16, int32, message, string, struct

# fmt: off


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    """Ask for coordinators.

    v1 key type. v3 flexible. v4 several keys (KIP-699). v5 TRANSACTION_ABORTABLE (KIP-890). v6 share groups (KIP-932).
    """

    key:              str             = string("0-3", default="")
    key_type:         int             = int8("1+", default=0)              # 0 group, 1 transaction, 2 share
    coordinator_keys: tuple[str, ...] = array("string", "4+", default=())

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> FindCoordinatorResponse:
        if version < 4:
            return FindCoordinatorResponse(error_code=error, error_message=message, node_id=-1, host="", port=-1)
        return FindCoordinatorResponse(
            coordinators=tuple(
                Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
                for key in self.coordinator_keys
            )
        )


@struct
class Coordinator(Struct):
    """The coordinator of one key."""

    key:           str        = string("4+", default="")
    node_id:       int        = int32("4+", default=0)
    host:          str        = string("4+", default="")
    port:          int        = int32("4+", default=0)
    error_code:    int        = int16("4+", default=0)
    error_message: str | None = string("4+", nullable="4+", default="", ignorable=True)


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Struct):
    """Node id, host and port to dial.

    v1 throttle time, error message. v3 flexible. v4 one entry a key (KIP-699), the top-level rows are gone.
    """

    throttle_time_ms: int                     = int32("1+", default=0, ignorable=True)
    error_code:       int                     = int16("0-3", default=0)
    error_message:    str | None              = string("1-3", nullable="1-3", default="", ignorable=True)
    node_id:          int                     = int32("0-3", default=0)
    host:             str                     = string("0-3", default="")
    port:             int                     = int32("0-3", default=0)
    coordinators:     tuple[Coordinator, ...] = array(Coordinator, "4+", default=())

# fmt: on
