"""AlterPartitionReassignments: give partitions other replicas."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, int16, int32, message, string, struct

# fmt: off


@struct
class ReassignablePartition(Struct):
    """One partition."""

    partition_index: int                    = int32("0+")
    replicas:        tuple[int, ...] | None = array("int32", "0+", nullable="0+", default=None)  # null: cancel


@struct
class ReassignableTopic(Struct):
    """Partitions of one topic."""

    name:       str                               = string("0+")
    partitions: tuple[ReassignablePartition, ...] = array(ReassignablePartition, "0+")


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"]):
    """Reassign partitions (KIP-455). v1 may refuse another replication factor."""

    timeout_ms:                      int                           = int32("0+", default=60000)
    allow_replication_factor_change: bool                          = boolean("1+", default=True)
    topics:                          tuple[ReassignableTopic, ...] = array(ReassignableTopic, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> AlterPartitionReassignmentsResponse:
        responses = tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=error, error_message=message
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in self.topics
        )
        return AlterPartitionReassignmentsResponse(error_code=error, error_message=message, responses=responses)


@struct
class ReassignablePartitionResponse(Struct):
    """The result of one partition."""

    partition_index: int        = int32("0+")
    error_code:      int        = int16("0+")
    error_message:   str | None = string("0+", nullable="0+")


@struct
class ReassignableTopicResponse(Struct):
    """Results of one topic."""

    name:       str                                       = string("0+")
    partitions: tuple[ReassignablePartitionResponse, ...] = array(ReassignablePartitionResponse, "0+")


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Struct):
    """One result a partition."""

    throttle_time_ms:                int                                   = int32("0+", default=0)
    allow_replication_factor_change: bool                                  = boolean("1+", default=True, ignorable=True)
    error_code:                      int                                   = int16("0+")
    error_message:                   str | None                            = string("0+", nullable="0+")
    responses:                       tuple[ReassignableTopicResponse, ...] = array(ReassignableTopicResponse, "0+")

# fmt: on
