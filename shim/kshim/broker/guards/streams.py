"""Streams groups: the topics of their applications, those that are made for them among these."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kshim.broker.authorized_operations import NOT_ASKED
from kshim.broker.guards.guard import Call, Rows, changed, guards
from kshim.broker.handlers.streams.streams_group_heartbeat import check_names
from kshim.coordinator.step import RequestContext, Step
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator


class _CreatingContext(RequestContext):
    """The context of a request that may want topics made, with the right of its client to do so."""

    def __init__(self, call: Call) -> None:
        context = call.context
        super().__init__(
            context.api_version, context.client_id, context.client_host, context.now, real_ms=context.real_ms
        )
        self.leads_shard = context.leads_shard
        if not call.may(Operation.CREATE, ResourceType.CLUSTER):
            self.may_create = partial(call.may, Operation.CREATE, ResourceType.TOPIC)


@guards("StreamsGroupHeartbeat")
def streams_group_heartbeat(call: Call) -> Step:
    """READ on the group, and DESCRIBE on each topic of a topology; CREATE is asked for when a topic is missing.

    Raises KafkaError: STREAMS_INVALID_TOPOLOGY, which comes before what is about topics.
    """
    request = call.request
    if not call.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return call.refuse(ResourceType.GROUP)
    names = check_names(request)
    if not all(call.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        return call.answer(request.error_response(ErrorCode.TOPIC_AUTHORIZATION_FAILED, call.version))
    return call._replace(context=_CreatingContext(call)).proceed()


@guards("StreamsGroupTopologyDescriptionUpdate")
def streams_group_topology_description_update(call: Call) -> Step:
    """READ on the group."""
    return call.proceed_if(Operation.READ, ResourceType.GROUP, call.request.group_id)


@guards("StreamsGroupDescribe")
def streams_group_describe(call: Call) -> Step:
    """DESCRIBE on each group, and on all topics of its topology."""
    return call.split(Rows("group_ids", "groups", Operation.DESCRIBE, ResourceType.GROUP, visible=_visible))


def _visible(call: Call, group: Any) -> Any:
    if group.topology is not None and not all(
        call.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in _topics(group.topology)
    ):
        return changed(
            group,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The described group uses topics that the client is not authorized to describe.",
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            topology=None,
            members=(),
            authorized_operations=NOT_ASKED,
            topology_description_status=0,
            assignor_name=None,
        )
    if group.authorized_operations == NOT_ASKED:
        return group
    return changed(group, authorized_operations=call.caller.operations(ResourceType.GROUP, group.group_id))


def _topics(topology: Any) -> Iterator[str]:
    for part in topology.subtopologies:
        yield from (*part.source_topics, *part.repartition_sink_topics)
        yield from (topic.name for topic in (*part.repartition_source_topics, *part.state_changelog_topics))
