"""WriteTxnMarkers: end what a producer has open in partitions, as admins ask for to be rid of a hanging transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kshim.broker.request import PendingReply, answered, handles
from kshim.coordinator.step import Marker, RequestContext, Step
from kshim.partitions.partition import Partition
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


Place = tuple[int, str, int]
"""Index of the marker, topic, partition."""


@handles(WriteTxnMarkersRequest)
def write_txn_markers(
    node: Node, request: WriteTxnMarkersRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """Write each marker to each partition that this node leads; answered when they survive what replies wait for.

    The coordinator of the transaction is neither consulted nor informed: here its own markers do not come in this way. Those of
    the offsets topic end what is pending for groups.
    """
    errors: dict[Place, ErrorCode] = {}
    written: dict[Place, Partition] = {}
    for number, marker in enumerate(request.markers):
        for topic in marker.topics:
            for index in topic.partition_indexes:
                place = (number, topic.name, index)
                try:
                    written[place] = _written(node, marker, topic.name, index, context)
                except KafkaError as error:
                    errors[place] = error.code
                except LogError as error:
                    node.cluster.report(error, request)
                    errors[place] = ErrorCode.KAFKA_STORAGE_ERROR
    if not written or not node.cluster.durability.replies_wait:
        return answered(ticket, _response(request, errors))

    def finish(lost: Collection[Partition]) -> None:
        gone = {place: ErrorCode.KAFKA_STORAGE_ERROR for place, partition in written.items() if partition in lost}
        ticket.complete(_response(request, errors | gone))

    node.cluster.durability.when_durable(list(dict.fromkeys(written.values())), finish)
    return Step()


def _written(node: Node, marker: WritableTxnMarker, topic: str, index: int, context: RequestContext) -> Partition:
    """The partition that has the marker now. Raises KafkaError, LogError."""
    cluster = node.cluster
    partition = cluster.topics.partition(topic, index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not node.leads(partition):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    cluster.marker_writer.append(
        partition,
        Marker(
            topic,
            index,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            is_commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            now=context.now,
            settle=lambda error: None,  # the answer to the request says how it went
            transaction_version=marker.transaction_version,
        ),
    )
    return partition


def _response(request: WriteTxnMarkersRequest, errors: Mapping[Place, ErrorCode]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=tuple(
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=tuple(
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=errors.get((number, topic.name, index), ErrorCode.NONE),
                            )
                            for index in topic.partition_indexes
                        ),
                    )
                    for topic in marker.topics
                ),
            )
            for number, marker in enumerate(request.markers)
        )
    )
