"""ListGroups: every group of this coordinator.

Source: Kafka's GroupCoordinatorService.listGroups and GroupMetadataManager.listGroups.
"""

from __future__ import annotations

from typing import Final

from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_FILTER_WORDS: Final = {"NotReady": "not_ready"}
"""States whose word in a filter is not that of the answer in lower case: as in Kafka, `NotReady` finds nothing."""


def list_groups(
    shards: list[Shard], request: ListGroupsRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Groups in the states and of the types asked for (no matter in which case; empty: all). NotReady is asked for as not_ready.

    Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS as long as one shard is loading.
    """
    for shard in shards:
        shard.require_loaded()
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    listed = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=group.kind.value,
        )
        for shard in shards
        for group in shard.groups.values()
        if (not states or _FILTER_WORDS.get(group.state.value, group.state.value.lower()) in states)
        and (not types or group.kind.value in types)
    ]
    step.reply(ticket, ListGroupsResponse(error_code=ErrorCode.NONE, groups=tuple(listed)))
