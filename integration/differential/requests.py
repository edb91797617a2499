"""From a step to a typed request, with symbols in the place of ids that differ between the brokers."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from integration.differential.model import GroupModel, Model, Slot
from integration.differential.steps import Step
from kshim_protocol.codec import codec
from kshim_protocol.group_requests import (
    Committed,
    GroupMember,
    OffsetsOf,
    find_coordinator,
    for_version,
    leave_group,
    offset_delete,
    offset_fetch,
)
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, TopicPartition
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.leave_group import MemberIdentity
from kshim_protocol.messages.list_groups import ListGroupsRequest
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


def _member(place: _Place, options: dict[str, Any]) -> GroupMember:
    return GroupMember(place.group_id, place.member(options), place.generation(options), options.get("instance"))


def _join(place: _Place, options: dict[str, Any]) -> Request[Any]:
    return _member(place, options).join(
        options["v"],
        [(name, metadata_bytes(metadata)) for name, metadata in options["protocols"]],
        session_timeout_ms=options["session"],
        rebalance_timeout_ms=options["rebalance"],
        protocol_type=options.get("type", "consumer"),
        reason=options.get("reason"),
    )


def _sync(place: _Place, options: dict[str, Any]) -> Request[Any]:
    slot = place.slot
    assign = options.get("assign", [])
    members = slot.members or [slot.member]
    shares: list[tuple[str, bytes]]
    if assign == "all":
        shares = [(member, f"share of {member} {slot.generation}".encode()) for member in members]
    elif assign == "partitions":
        shares = [(member, _partitions(range(3)[number :: len(members)])) for number, member in enumerate(members)]
    else:
        shares = [
            (place.model.member(place.group, slot, member), (_text(share) or "").encode()) for member, share in assign
        ]
    return _member(place, options).sync(
        options["v"],
        shares,
        protocol_type=_own(options.get("type", "own"), slot.protocol_type),
        protocol_name=_own(options.get("name", "own"), slot.protocol_name),
    )


def _partitions(indexes: Iterable[int]) -> bytes:
    """An assignment of the consumer protocol (v0) of these partitions of topic `t`."""
    value = ConsumerProtocolAssignment(assigned_partitions=(TopicPartition(topic="t", partitions=tuple(indexes)),))
    return bytes(2) + codec(ConsumerProtocolAssignment, 0).build(value)


def _own(value: str | None, own: str | None) -> str | None:
    return own if value == "own" else value


def _leave(place: _Place, options: dict[str, Any]) -> Request[Any]:
    members = [
        MemberIdentity(
            member_id=place.model.member(place.group, place.slot, member), group_instance_id=instance, reason=reason
        )
        for member, instance, reason in options["members"]
    ]
    return leave_group(options["v"], place.group_id, members)


def _commit(place: _Place, options: dict[str, Any]) -> Request[Any]:
    topics: dict[str, list[Committed]] = {}
    for topic, index, offset, epoch, metadata in options["offsets"]:
        topics.setdefault(topic, []).append(Committed(index, offset, _text(metadata), epoch))
    retention_ms = options.get("retention", -1)
    return _member(place, options).commit(
        options["v"], topics.items(), topic_id=topic_symbol, retention_time_ms=retention_ms
    )


def _fetch(place: _Place, options: dict[str, Any]) -> Request[Any]:
    member_id = place.member(options) if "id" in options else None
    groups = [
        OffsetsOf(place.model.group_id(name), topics, member_id, options.get("epoch", -1))
        for name, topics in options["groups"]
    ]
    return offset_fetch(options["v"], groups, topic_id=topic_symbol, require_stable=options.get("stable", False))


def _describe(place: _Place, options: dict[str, Any]) -> Request[Any]:
    groups, operations = place.group_ids(options["groups"]), options.get("ops", False)
    return for_version(DescribeGroupsRequest(groups=groups, include_authorized_operations=operations), options["v"])


def _list(_place: _Place, options: dict[str, Any]) -> Request[Any]:
    states, types = tuple(options.get("states", ())), tuple(options.get("types", ()))
    return for_version(ListGroupsRequest(states_filter=states, types_filter=types), options["v"])


def _consumer_heartbeat(place: _Place, options: dict[str, Any]) -> Request[Any]:
    owned, names = options.get("owned"), options.get("names")
    partitions = None
    if owned is not None:
        partitions = tuple(
            TopicPartitions(topic_id=topic_symbol(topic), partitions=tuple(indexes)) for topic, indexes in owned
        )
    return ConsumerGroupHeartbeatRequest(
        group_id=place.group_id,
        member_id=place.member(options),
        member_epoch=place.generation(options),
        instance_id=options.get("instance"),
        rack_id=options.get("rack"),
        rebalance_timeout_ms=options.get("timeout", -1),
        subscribed_topic_names=None if names is None else tuple(names),
        subscribed_topic_regex=options.get("regex"),
        server_assignor=options.get("assignor"),
        topic_partitions=partitions,
    )


def _consumer_describe(place: _Place, options: dict[str, Any]) -> Request[Any]:
    return ConsumerGroupDescribeRequest(
        group_ids=place.group_ids(options["groups"]), include_authorized_operations=options.get("ops", False)
    )


BUILDERS: dict[str, Callable[[_Place, dict[str, Any]], Request[Any]]] = {
    "join": _join,
    "sync": _sync,
    "heartbeat": lambda place, options: _member(place, options).heartbeat(options["v"]),
    "leave": _leave,
    "consumer-heartbeat": _consumer_heartbeat,
    "consumer-describe": _consumer_describe,
    "commit": _commit,
    "fetch": _fetch,
    "offset-delete": lambda place, options: offset_delete(place.group_id, options["topics"]),
    "describe": _describe,
    "list": _list,
    "delete": lambda place, options: DeleteGroupsRequest(groups_names=place.group_ids(options["groups"])),
    "find-coordinator": lambda place, options: find_coordinator(
        options["v"], place.group_ids(options["groups"]), options.get("type", 0)
    ),
}

MAY_PARK = frozenset({"join", "sync"})
"""Verbs whose answer may come later."""

MAY_RELEASE = frozenset({"join", "sync", "leave"})
"""Verbs after which others may be answered."""
