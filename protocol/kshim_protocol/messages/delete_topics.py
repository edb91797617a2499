"""DeleteTopics: delete topics by name or, from v6, by id."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import ZERO_UUID, Request, Struct, array, int16, int32, message, string, struct, uuid

# fmt: off


@struct
class DeleteTopicState(Struct):
    """A topic by name, or by id when the name is null."""

    name:     str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes      = uuid("6+", default=ZERO_UUID)


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    """Delete topics.

    v4 flexible. v5 may be answered THROTTLING_QUOTA_EXCEEDED (KIP-599). v6 `topics` replaces `topic_names`: by name
    or by id (KIP-516).
    """

    topics:      tuple[DeleteTopicState, ...] = array(DeleteTopicState, "6+", default=())
    topic_names: tuple[str, ...]              = array("string", "1-5", default=(), ignorable=True)
    timeout_ms:  int                          = int32("1+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DeleteTopicsResponse:
        if version >= 6:
            named = tuple((topic.name, topic.topic_id) for topic in self.topics)
        else:
            named = tuple((name, ZERO_UUID) for name in self.topic_names)
        return DeleteTopicsResponse(
            responses=tuple(
                DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=message)
                for name, topic_id in named
            )
        )


@struct
class DeletableTopicResult(Struct):
    """What became of one topic."""

    name:          str | None = string("1+", nullable="6+")
    topic_id:      bytes      = uuid("6+", default=ZERO_UUID, ignorable=True)
    error_code:    int        = int16("1+")
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse(Struct):
    """One result a topic. v3 TOPIC_DELETION_DISABLED. v5 error message. v6 topic id, null name."""

    throttle_time_ms: int                              = int32("1+", default=0, ignorable=True)
    responses:        tuple[DeletableTopicResult, ...] = array(DeletableTopicResult, "1+")

# fmt: on
