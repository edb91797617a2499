"""ListPartitionReassignments: partitions on the move."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct

# fmt: off


@struct
class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name:              str             = string("0+")
    partition_indexes: tuple[int, ...] = array("int32", "0+")


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    """Ask for reassignments under way (KIP-455)."""

    timeout_ms: int                                                 = int32("0+", default=60000)
    topics:     tuple[ListPartitionReassignmentsTopics, ...] | None = array(ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None)  # null: all

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ListPartitionReassignmentsResponse:
        topics = tuple(
            OngoingTopicReassignment(
                name=topic.name,
                partitions=tuple(
                    OngoingPartitionReassignment(
                        partition_index=index, replicas=(), adding_replicas=(), removing_replicas=()
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in self.topics or ()
        )
        return ListPartitionReassignmentsResponse(error_code=error, error_message=message, topics=topics)


@struct
class OngoingPartitionReassignment(Struct):
    """One partition on the move."""

    partition_index:   int             = int32("0+")
    replicas:          tuple[int, ...] = array("int32", "0+")
    adding_replicas:   tuple[int, ...] = array("int32", "0+")
    removing_replicas: tuple[int, ...] = array("int32", "0+")


@struct
class OngoingTopicReassignment(Struct):
    """Partitions of one topic."""

    name:       str                                      = string("0+")
    partitions: tuple[OngoingPartitionReassignment, ...] = array(OngoingPartitionReassignment, "0+")


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Struct):
    """The reassignments under way."""

    throttle_time_ms: int                                  = int32("0+", default=0)
    error_code:       int                                  = int16("0+")
    error_message:    str | None                           = string("0+", nullable="0+")
    topics:           tuple[OngoingTopicReassignment, ...] = array(OngoingTopicReassignment, "0+")

# fmt: on
