"""CreatePartitions: grow topics; partitions are never taken away."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, int16, int32, message, string, struct

# fmt: off


@struct
class CreatePartitionsAssignment(Struct):
    """Replicas of one new partition."""

    broker_ids: tuple[int, ...] = array("int32", "0+")


@struct
class CreatePartitionsTopic(Struct):
    """One topic to grow."""

    name:        str                                           = string("0+")
    count:       int                                           = int32("0+")                                             # the new total
    assignments: tuple[CreatePartitionsAssignment, ...] | None = array(CreatePartitionsAssignment, "0+", nullable="0+")  # null: the broker chooses


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    """Raise the partition count of topics (KIP-195).

    v2 flexible. v3 may be answered THROTTLING_QUOTA_EXCEEDED (KIP-599).
    """

    topics:        tuple[CreatePartitionsTopic, ...] = array(CreatePartitionsTopic, "0+")
    timeout_ms:    int                               = int32("0+")
    validate_only: bool                              = boolean("0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(
            results=tuple(
                CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message) for topic in self.topics
            )
        )


@struct
class CreatePartitionsTopicResult(Struct):
    """What became of one topic."""

    name:          str        = string("0+")
    error_code:    int        = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Struct):
    """One result a topic. v1 throttles after the reply. v2 flexible."""

    throttle_time_ms: int                                     = int32("0+", default=0)
    results:          tuple[CreatePartitionsTopicResult, ...] = array(CreatePartitionsTopicResult, "0+")

# fmt: on
