"""ElectLeaders: choose leaders again."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int8, int16, int32, message, string, struct

# fmt: off


@struct
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic:      str             = string("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    """Elect preferred or unclean leaders (KIP-183, KIP-460). v1 election types. v2 flexible."""

    election_type:    int                                = int8("1+", default=0)                        # 0 preferred, 1 unclean
    topic_partitions: tuple[TopicPartitions, ...] | None = array(TopicPartitions, "0+", nullable="0+")  # null: all
    timeout_ms:       int                                = int32("0+", default=60000)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ElectLeadersResponse:
        results = tuple(
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    PartitionResult(partition_id=partition, error_code=error, error_message=message)
                    for partition in topic.partitions
                ),
            )
            for topic in self.topic_partitions or ()
        )
        if version == 0:  # which has no other place for it
            return ElectLeadersResponse(replica_election_results=results)
        return ElectLeadersResponse(error_code=error, replica_election_results=results)


@struct
class PartitionResult(Struct):
    """The result of one partition."""

    partition_id:  int        = int32("0+")
    error_code:    int        = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


@struct
class ReplicaElectionResult(Struct):
    """Results of one topic."""

    topic:            str                         = string("0+")
    partition_result: tuple[PartitionResult, ...] = array(PartitionResult, "0+")


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Struct):
    """One result a partition. v1 a top-level error. v2 flexible."""

    throttle_time_ms:         int                               = int32("0+", default=0)
    error_code:               int                               = int16("1+", default=0)
    replica_election_results: tuple[ReplicaElectionResult, ...] = array(ReplicaElectionResult, "0+")

# fmt: on
