"""CreatePartitions: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, boolean, int16, int32, message, string, struct

__all__ = [
    "CreatePartitionsAssignment",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreatePartitionsTopic",
    "CreatePartitionsTopicResult",
]

# fmt: off


@struct
class CreatePartitionsAssignment(Struct):
    """Part of CreatePartitionsRequest."""

    broker_ids: tuple[int, ...] = array("int32", "0+")


@struct
class CreatePartitionsTopic(Struct):
    """Part of CreatePartitionsRequest."""

    name:        str                                           = string("0+")
    count:       int                                           = int32("0+")
    assignments: tuple[CreatePartitionsAssignment, ...] | None = array(CreatePartitionsAssignment, "0+", nullable="0+")


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    """@@DOC CreatePartitionsRequest@@"""

    topics:        tuple[CreatePartitionsTopic, ...] = array(CreatePartitionsTopic, "0+")
    timeout_ms:    int                               = int32("0+")
    validate_only: bool                              = boolean("0+")


@struct
class CreatePartitionsTopicResult(Struct):
    """Part of CreatePartitionsResponse."""

    name:          str        = string("0+")
    error_code:    int        = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Struct):
    """@@DOC CreatePartitionsResponse@@"""

    throttle_time_ms: int                                     = int32("0+", default=0)
    results:          tuple[CreatePartitionsTopicResult, ...] = array(CreatePartitionsTopicResult, "0+")

# fmt: on
