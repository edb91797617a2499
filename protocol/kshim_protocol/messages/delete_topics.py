"""DeleteTopics: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import ZERO_UUID, Request, Struct, array, int16, int32, message, string, struct, uuid

__all__ = [
    "DeletableTopicResult",
    "DeleteTopicState",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
]

# fmt: off


@struct
class DeleteTopicState(Struct):
    """Part of DeleteTopicsRequest."""

    name:     str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes      = uuid("6+", default=ZERO_UUID)


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    """@@DOC DeleteTopicsRequest@@"""

    topics:      tuple[DeleteTopicState, ...] = array(DeleteTopicState, "6+", default=())
    topic_names: tuple[str, ...]              = array("string", "1-5", default=(), ignorable=True)
    timeout_ms:  int                          = int32("1+")


@struct
class DeletableTopicResult(Struct):
    """Part of DeleteTopicsResponse."""

    name:          str | None = string("1+", nullable="6+")
    topic_id:      bytes      = uuid("6+", default=ZERO_UUID, ignorable=True)
    error_code:    int        = int16("1+")
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse(Struct):
    """@@DOC DeleteTopicsResponse@@"""

    throttle_time_ms: int                              = int32("1+", default=0, ignorable=True)
    responses:        tuple[DeletableTopicResult, ...] = array(DeletableTopicResult, "1+")

# fmt: on
