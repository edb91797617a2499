"""From a step to a typed request, with symbols in the place of ids that differ between the brokers."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from integration.differential.model import GroupModel, Model, Slot
from integration.differential.steps import Step
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kshim_protocol.schema import Request

TOPIC_SYMBOL_BYTES = 16
UNKNOWN_TOPIC_ID = b"no topic has it!"


class _Place(NamedTuple):
    """Where a step plays."""

    model: Model
    group: GroupModel
    group_id: str
    slot: Slot

    def member(self, options: dict[str, Any]) -> str:
        return self.model.member(self.group, self.slot, options.get("id", "@"))

    def generation(self, options: dict[str, Any]) -> int:
        """A number, or one relative to what the slot knows: "+0", "-1"."""
        value = options.get("generation", "+0")
        return self.slot.generation + int(value) if isinstance(value, str) else int(value)

    def group_ids(self, names: list[str]) -> tuple[str, ...]:
        return tuple(map(self.model.group_id, names))


def build(model: Model, step: Step) -> Request[Any]:
    """The request of a step."""
    group = model.group(step.group) if step.group.startswith("g") else GroupModel(step.group)
    place = _Place(model, group, model.group_id(step.group), group.slot(step.slot))
    return BUILDERS[step.verb](place, step.options)


def topic_symbol(name: str) -> bytes:
    """Stands for a topic's id."""
    return name.encode().ljust(TOPIC_SYMBOL_BYTES, b".")


def translate(value: Any, ids: dict[str, str], topic_ids: dict[bytes, bytes]) -> Any:
    """A request with every symbol replaced by what this broker gave out."""
    if isinstance(value, str):
        return ids.get(value, value)
    if isinstance(value, bytes):
        return topic_ids.get(value, value)
    if isinstance(value, tuple):
        return tuple(translate(item, ids, topic_ids) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return type(value)(**{field.name: translate(getattr(value, field.name), ids, topic_ids) for field in fields})
    return value


def metadata_bytes(text: str) -> bytes:
    """`sub:t,u` is a subscription of the consumer protocol (v0), anything else is itself."""
    if not text.startswith("sub:"):
        return text.encode()
    topics = [topic.encode() for topic in text[4:].split(",") if topic]
    return (
        struct.pack(">hi", 0, len(topics))
        + b"".join(struct.pack(">h", len(topic)) + topic for topic in topics)
        + struct.pack(">i", -1)
    )


def _text(value: Any) -> str | None:
    """A text, null, or [character, how often]."""
    if isinstance(value, list):
        character, count = value
        return str(character) * int(count)
    return None if value is None else str(value)


def _join(place: _Place, options: dict[str, Any]) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=place.group_id,
        session_timeout_ms=options["session"],
        rebalance_timeout_ms=options["rebalance"],
        member_id=place.member(options),
        group_instance_id=options.get("instance") if options["v"] >= 5 else None,
        protocol_type=options.get("type", "consumer"),
        protocols=tuple(
            JoinGroupRequestProtocol(name=name, metadata=metadata_bytes(metadata))
            for name, metadata in options["protocols"]
        ),
        reason=options.get("reason"),
    )


def _sync(place: _Place, options: dict[str, Any]) -> SyncGroupRequest:
    slot = place.slot
    assign = options.get("assign", [])
    if assign == "all":
        members = slot.members or [slot.member]
        assign = [[member, f"share of {member} {slot.generation}"] for member in members]
    return SyncGroupRequest(
        group_id=place.group_id,
        generation_id=place.generation(options),
        member_id=place.member(options),
        group_instance_id=options.get("instance") if options["v"] >= 3 else None,
        protocol_type=_own(options.get("type", "own"), slot.protocol_type),
        protocol_name=_own(options.get("name", "own"), slot.protocol_name),
        assignments=tuple(
            SyncGroupRequestAssignment(
                member_id=place.model.member(place.group, slot, member), assignment=share.encode()
            )
            for member, share in assign
        ),
    )


def _own(value: str | None, own: str | None) -> str | None:
    return own if value == "own" else value


def _heartbeat(place: _Place, options: dict[str, Any]) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=place.group_id,
        generation_id=place.generation(options),
        member_id=place.member(options),
        group_instance_id=options.get("instance") if options["v"] >= 3 else None,
    )


def _leave(place: _Place, options: dict[str, Any]) -> LeaveGroupRequest:
    identities = tuple(
        MemberIdentity(
            member_id=place.model.member(place.group, place.slot, member), group_instance_id=instance, reason=reason
        )
        for member, instance, reason in options["members"]
    )
    if options["v"] >= 3:
        return LeaveGroupRequest(group_id=place.group_id, members=identities)
    return LeaveGroupRequest(group_id=place.group_id, member_id=identities[0].member_id)


def _commit(place: _Place, options: dict[str, Any]) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for topic, index, offset, epoch, metadata in options["offsets"]:
        partition = OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            committed_metadata=_text(metadata),
        )
        topics.setdefault(topic, []).append(partition)
    return OffsetCommitRequest(
        group_id=place.group_id,
        generation_id_or_member_epoch=place.generation(options),
        member_id=place.member(options),
        group_instance_id=options.get("instance") if options["v"] >= 7 else None,
        retention_time_ms=options.get("retention", -1),
        topics=tuple(
            OffsetCommitRequestTopic(name=name, topic_id=topic_symbol(name), partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def _fetch(place: _Place, options: dict[str, Any]) -> OffsetFetchRequest:
    stable = options.get("stable", False) and options["v"] >= 7
    if options["v"] < 8:
        topics = options["groups"][0][1]
        return OffsetFetchRequest(
            group_id=place.model.group_id(options["groups"][0][0]),
            topics=None
            if topics is None and options["v"] >= 2
            else tuple(
                OffsetFetchRequestTopic(name=name, partition_indexes=tuple(indexes)) for name, indexes in topics or []
            ),
            require_stable=stable,
        )
    return OffsetFetchRequest(
        groups=tuple(
            OffsetFetchRequestGroup(
                group_id=place.model.group_id(name),
                member_id=place.member(options) if "id" in options else None,
                member_epoch=options.get("epoch", -1),
                topics=None
                if topics is None
                else tuple(
                    OffsetFetchRequestTopics(name=topic, topic_id=topic_symbol(topic), partition_indexes=tuple(indexes))
                    for topic, indexes in topics
                ),
            )
            for name, topics in options["groups"]
        ),
        require_stable=stable,
    )


def _offset_delete(place: _Place, options: dict[str, Any]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=place.group_id,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=name,
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=index) for index in indexes),
            )
            for name, indexes in options["topics"]
        ),
    )


def _describe(place: _Place, options: dict[str, Any]) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(
        groups=place.group_ids(options["groups"]),
        include_authorized_operations=options.get("ops", False) and options["v"] >= 3,
    )


def _list(place: _Place, options: dict[str, Any]) -> ListGroupsRequest:
    return ListGroupsRequest(
        states_filter=tuple(options.get("states", ())) if options["v"] >= 4 else (),
        types_filter=tuple(options.get("types", ())) if options["v"] >= 5 else (),
    )


def _delete(place: _Place, options: dict[str, Any]) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=place.group_ids(options["groups"]))


def _find_coordinator(place: _Place, options: dict[str, Any]) -> FindCoordinatorRequest:
    keys = place.group_ids(options["groups"])
    key_type = options.get("type", 0) if options["v"] >= 1 else 0
    if options["v"] >= 4:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
    return FindCoordinatorRequest(key=keys[0] if keys else "", key_type=key_type)


BUILDERS: dict[str, Callable[[_Place, dict[str, Any]], Request[Any]]] = {
    "join": _join,
    "sync": _sync,
    "heartbeat": _heartbeat,
    "leave": _leave,
    "commit": _commit,
    "fetch": _fetch,
    "offset-delete": _offset_delete,
    "describe": _describe,
    "list": _list,
    "delete": _delete,
    "find-coordinator": _find_coordinator,
}

MAY_PARK = frozenset({"join", "sync"})
"""Verbs whose answer may come later."""

MAY_RELEASE = frozenset({"join", "sync", "leave"})
"""Verbs after which others may be answered."""
