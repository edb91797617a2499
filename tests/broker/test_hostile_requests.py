"""Requests that are well-formed and mean no good: each is answered, and none takes more than its share."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.broker.harness import a_node


def test_an_error_text_that_repeats_a_long_name_still_fits_into_the_answer() -> None:
    name = "é" * 16_383
    partitions = (ReassignablePartition(partition_index=0, replicas=(1,)),)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=0, topics=(ReassignableTopic(name=name, partitions=partitions),)
    )
    answer = a_node().client().ask(request, 0)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (partition.error_message or "").endswith("...")
