"""ListGroups: every group of this coordinator.

Source: Kafka's GroupCoordinatorService.listGroups and GroupMetadataManager.listGroups.
"""

from __future__ import annotations

from typing import Final

from kshim.coordinator.groups.events import AnyGroupState
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.compiler_source import SIZES, text_size
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kshim_protocol.rows import Layout, Rows, build_text, layout_of

_FLEXIBLE_SINCE: Final = 3
_FILTER_WORDS: Final = {"NotReady": "not_ready"}
"""States whose word in a filter is not that of the answer in lower case: as in Kafka, `NotReady` finds nothing."""

_Kind = tuple[type, AnyGroupState, str | None]


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
    layout = layout_of(ListedGroup, max(context.api_version, _FLEXIBLE_SINCE), is_flexible=True)
    ends: dict[_Kind, bytes] = {}  # what stands behind the id is the same for most
    end: bytes | None = b""
    last_class: type | None = None  # of the group before, which mostly are those of the next one
    last_state: AnyGroupState | None = None
    last_type: str | None = None
    parts: list[bytes] = []
    few = len(SIZES)
    for shard in shards:
        for group in shard.groups.values():
            state, protocol_type = group.state, group.protocol_type
            if state is not last_state or protocol_type is not last_type or type(group) is not last_class:
                last_class, last_state, last_type = kind = type(group), state, protocol_type
                end = ends.get(kind)
                if end is None:
                    word = state.value
                    is_wanted = (not states or _FILTER_WORDS.get(word, word.lower()) in states) and (
                        not types or group.kind.value in types
                    )
                    end = ends[kind] = _end(layout, protocol_type or "", word, group.kind.value) if is_wanted else b""
            if end:  # `build_text` in place: a call for each group is a fifth of it all
                group_id = group.group_id.encode()
                size_bytes = len(group_id)
                parts += (SIZES[size_bytes] if size_bytes < few else text_size(size_bytes), group_id, end)
    groups = Rows(layout, len(parts) // 3, b"".join(parts))
    step.reply(ticket, ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups))


def _end(layout: Layout[ListedGroup], protocol_type: str, state: str, type_: str) -> bytes:
    """The rows of a group behind its id, and that it has no tags."""
    rows = {"protocol_type": protocol_type, "group_state": state, "group_type": type_}
    return b"".join([build_text(text) for name, text in rows.items() if name in layout.names]) + b"\0"
