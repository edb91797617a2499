"""ListGroups: every group of this coordinator.

Source: Kafka's GroupCoordinatorService.listGroups and GroupMetadataManager.listGroups.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshim.coordinator.groups.shard import Shard
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_GROUP_TYPE = "classic"


def list_groups(shards: Iterable[Shard], request: ListGroupsRequest) -> ListGroupsResponse:
    """Groups in the states and of the types asked for (no matter in which case; empty: all).

    Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS as long as one shard is loading.
    """
    shards = list(shards)
    for shard in shards:
        shard.require_loaded()
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    if types and _GROUP_TYPE not in types:
        return ListGroupsResponse(error_code=ErrorCode.NONE, groups=())
    return ListGroupsResponse(
        error_code=ErrorCode.NONE,
        groups=tuple(
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=str(group.state),
                group_type=_GROUP_TYPE,
            )
            for shard in shards
            for group in shard.groups.values()
            if not states or str(group.state).lower() in states
        ),
    )
