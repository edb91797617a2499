"""Reading and writing records: topics are allowed or refused one by one."""

from __future__ import annotations

from kshim.broker.guards.guard import Call, changed, guards
from kshim.coordinator.step import Step
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.fetch import FetchableTopicResponse, FetchResponse, FetchTopic, PartitionData

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@guards("Produce")
def produce(call: Call) -> Step:
    """WRITE on the topics; on the transactional id too when there is one.

    With acks=0 only the end of its connection informs a client of a refusal.
    """
    request = call.request
    transactional_id = request.transactional_id
    if transactional_id is not None and not call.caller.may(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return _unheard(call, call.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    allowed, refused = call.split_topics(request.topic_data, Operation.WRITE)
    step = call.split("topic_data", "responses", allowed, refused, REFUSED)
    return _unheard(call, step) if refused else step


def _unheard(call: Call, step: Step) -> Step:
    """Without an answer (acks=0) close the connection once the request is done."""
    if call.request.acks == 0:
        connection = call.ticket.connection
        call.node.cluster.timers.after(0, lambda: connection.hang_up("Produce with acks=0 was not authorized"))
        step.replies[:] = [(ticket, None) for ticket, _ in step.replies]
    return step


@guards("Fetch")
def fetch(call: Call) -> Step:
    """READ on the topics; a replica needs CLUSTER_ACTION instead."""
    request = call.request
    replica_id = request.replica_id if call.version < 15 else request.replica_state.replica_id
    if replica_id >= 0:
        is_allowed = call.caller.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        allowed, refused = (request.topics, ()) if is_allowed else ((), request.topics)
    else:
        allowed, refused = call.split_topics(request.topics, Operation.READ)
    if not refused:
        return call.proceed()
    rows = tuple(_refused(topic) for topic in refused)
    if not allowed:
        return call.answer(FetchResponse(responses=rows))
    return call.proceed(
        changed(request, topics=allowed),
        lambda response: response if response.error_code else changed(response, responses=(*response.responses, *rows)),
    )


def _refused(topic: FetchTopic) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=tuple(
            PartitionData(
                partition_index=partition.partition,
                error_code=REFUSED,
                high_watermark=-1,
                aborted_transactions=(),
                records=b"",
            )
            for partition in topic.partitions
        ),
    )


@guards("ListOffsets")
def list_offsets(call: Call) -> Step:
    """DESCRIBE on the topics."""
    return call.split("topics", "topics", *call.split_topics(call.request.topics, Operation.DESCRIBE), REFUSED)


@guards("OffsetForLeaderEpoch")
def offset_for_leader_epoch(call: Call) -> Step:
    """DESCRIBE on the topics, or CLUSTER_ACTION."""
    if call.caller.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        return call.proceed()
    return call.split("topics", "topics", *call.split_topics(call.request.topics, Operation.DESCRIBE), REFUSED)


@guards("DeleteRecords")
def delete_records(call: Call) -> Step:
    """DELETE on the topics."""
    return call.split("topics", "topics", *call.split_topics(call.request.topics, Operation.DELETE), REFUSED)


@guards("DescribeProducers")
def describe_producers(call: Call) -> Step:
    """READ on the topics."""
    return call.split("topics", "topics", *call.split_topics(call.request.topics, Operation.READ), REFUSED)
