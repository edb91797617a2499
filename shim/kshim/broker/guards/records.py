"""Reading and writing records: topics are allowed or refused one by one."""

from __future__ import annotations

from typing import Final

from kshim.broker.guards.guard import Call, Rows, guards
from kshim.coordinator.step import Step
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.fetch import FetchableTopicResponse, FetchTopic, PartitionData

_PRODUCED: Final = Rows("topic_data", "responses", Operation.WRITE)


@guards("Produce")
def produce(call: Call) -> Step:
    """WRITE on the topics; on the transactional id too when there is one.

    With acks=0 only the end of its connection informs a client of a refusal.
    """
    request = call.request
    transactional_id = request.transactional_id
    if transactional_id is not None and not call.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return _unheard(call, call.refuse(ResourceType.TRANSACTIONAL_ID))
    step = call.split(_PRODUCED)
    return _unheard(call, step) if request.acks == 0 and call.divide(_PRODUCED)[1] else step


def _unheard(call: Call, step: Step) -> Step:
    """Without an answer (acks=0) close the connection once the request is done."""
    if call.request.acks == 0:
        connection = call.ticket.connection
        call.node.cluster.timers.after(
            0, lambda: connection.hang_up("Produce with acks=0 was not authorized"), name="hang_up"
        )
        step.replies[:] = [(ticket, None) for ticket, _ in step.replies]
    return step


@guards("Fetch")
def fetch(call: Call) -> Step:
    """READ on the topics; a replica needs CLUSTER_ACTION instead."""
    request = call.request
    replica_id = request.replica_id if call.version < 15 else request.replica_state.replica_id
    rows = Rows("topics", "responses", Operation.READ, refused=_refused)
    if replica_id >= 0:
        rows = rows._replace(operation=Operation.CLUSTER_ACTION, resource_type=ResourceType.CLUSTER)
    return call.split(rows)


def _refused(topic: FetchTopic) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=tuple(
            PartitionData(
                partition_index=partition.partition,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                high_watermark=-1,
                aborted_transactions=(),
                records=b"",
            )
            for partition in topic.partitions
        ),
    )
