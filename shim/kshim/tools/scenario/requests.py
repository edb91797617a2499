"""From a step to the request it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kshim.tools.scenario.actors import Actor, Cast
from kshim.tools.scenario.model import ScenarioError, Step
from kshim_protocol.apis import API_TABLE
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription
from kshim_protocol.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from kshim_protocol.schema import ZERO_UUID, Request, codec

# Classic groups are asked in the newest version that names topics by name, or the broker's newest if that is older;
# `v=` chooses another.
APIS = {
    "join": (11, 9), "sync": (14, 5), "heartbeat": (12, 4), "leave": (13, 5), "commit": (8, 9), "fetch": (9, 9),
    "offset-delete": (47, 0), "describe": (15, 6), "list": (16, 5), "delete": (42, 3), "find-coordinator": (10, 6),
}  # fmt: skip
BY_TOPIC_ID = 10
"""First version of OffsetCommit and OffsetFetch that names topics by id."""


FIRST_WITH_INSTANCE = {"join": 5, "sync": 3, "heartbeat": 3, "leave": 3, "commit": 7}
FIRST_WITH_FIELD = {
    ("join", "type"): 7, ("join", "protocol"): 7, ("join", "skip"): 9, ("join", "instance"): 5,
    ("sync", "type"): 5, ("sync", "protocol"): 5, ("leave", "results"): 3, ("leave", "top"): 3,
    ("fetch", "epoch"): 5, ("describe", "operations"): 3, ("describe", "instance"): 4,
    ("list", "state"): 4, ("list", "kind"): 5,
}  # fmt: skip
"""First version whose answers have a field that a file may name; (join, protocol) is about null only."""


class Unsupported(Exception):
    """The broker does not serve what a step asks for; `str(error)` says what that is."""


def build_request(step: Step, cast: Cast) -> tuple[Request[Any], int]:
    """(request, api version). Raises Unsupported, and ScenarioError for a verb that asks nothing or a wrong option."""
    build = _BUILDERS.get(step.verb)
    if build is None:
        raise ScenarioError(f"line {step.line}: {step.verb} is no request")
    api_key, newest = APIS[step.verb]
    version = int(step.options.get("v", newest))
    if cast.max_versions is not None:
        api = API_TABLE[api_key]
        served = cast.max_versions.get(api_key)
        if served is None:
            raise Unsupported(f"the broker does not serve {api.name}")
        if "v" not in step.options:
            version = min(version, served)
        elif version > served:
            raise Unsupported(f"needs {api.name} v{version}, the broker serves it up to v{served}")
        if "v" not in step.options:
            _check_version(step, cast, api.name, version)
    return build(step, cast, version), version


def _check_version(step: Step, cast: Cast, name: str, version: int) -> None:
    """Raise Unsupported when the step says or expects something that this version of the API cannot carry."""
    actor = cast.actor(step.actor) if step.actor else None
    instance = step.options.get("instance", None if actor is None or step.verb == "join" else actor.group_instance_id)
    needed = FIRST_WITH_INSTANCE.get(step.verb, 0) if instance not in (None, "-") else 0
    if step.verb == "sync" and step.options.keys() & {"type", "protocol"}:
        needed = FIRST_WITH_FIELD["sync", "type"]
    if "also" in step.options or step.options.get("members") == "none":
        needed = max(needed, FIRST_WITH_INSTANCE["leave"])
    for field, value in (step.expectation.own.fields if step.expectation.own else {}).items():
        key = (step.verb, field.rpartition(".")[2] if field not in ("type", "protocol") else field)
        needed = max(needed, FIRST_WITH_FIELD.get(key, 0) if key != ("join", "protocol") or value == "null" else 0)
    if version < needed:
        raise Unsupported(f"needs {name} v{needed}, the broker serves it up to v{version}")
    if step.verb in ("leave", "sync") and actor is not None and not actor.member_id and "id" not in step.options:
        raise Unsupported(f"nobody knows the member id of {step.actor} before its Join is answered")


def _number(step: Step, key: str, default: int) -> int:
    return int(step.options.get(key, default))


def _member_id(step: Step, cast: Cast) -> str:
    text = step.options.get("id")
    return cast.actor(step.actor).member_id if text is None else cast.member_id(text)


def _instance(step: Step, actor: Actor, version: int, first: int) -> str | None:
    if version < first:
        return None
    text = step.options.get("instance", actor.group_instance_id)
    return None if text in (None, "-") else text


def _generation(step: Step, cast: Cast) -> int:
    """The generation the actor last joined, or the one that a file calls by its number."""
    if "generation" not in step.options:
        return cast.actor(step.actor).generation_id
    return cast.generation(cast.group_id(step), _number(step, "generation", -1))


def subscription(topics: tuple[str, ...]) -> bytes:
    """Consumer protocol subscription v0, as it stands in Join metadata."""
    body = codec(ConsumerProtocolSubscription, 0).build(ConsumerProtocolSubscription(topics=topics))
    return b"\0\0" + body


def _join(step: Step, cast: Cast, version: int) -> Request[Any]:
    actor = cast.actor(step.actor)
    instance = _instance(step, actor, version, 5)
    if "id" not in step.options or step.options["id"] == "":
        actor.group_instance_id = instance
    topics = tuple(cast.topic(name) for name in step.options.get("subscribe", "").split(",") if name)
    protocols: list[join_group.JoinGroupRequestProtocol] = []
    text = step.options.get("protocols", "range")
    for item in text.split(",") if text else ():
        name, mark, metadata = item.partition(":")
        content = metadata.encode() if mark else subscription(topics)
        protocols.append(join_group.JoinGroupRequestProtocol(name=name, metadata=content))
    session_ms = _number(step, "session", 30_000)
    return join_group.JoinGroupRequest(
        group_id=cast.group_id(step),
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=_number(step, "rebalance", 60_000) if version >= 1 else -1,
        member_id=_member_id(step, cast),
        group_instance_id=instance,
        protocol_type=step.options.get("type", "consumer"),
        protocols=tuple(protocols),
        reason=step.options.get("reason") if version >= 8 else None,
    )


def _sync(step: Step, cast: Cast, version: int) -> Request[Any]:
    actor = cast.actor(step.actor)
    assignments = []
    for item in step.options.get("assign", "").split(","):
        if item:
            name, _, content = item.partition(":")
            member_id = cast.actor(name).member_id or name
            assignments.append(sync_group.SyncGroupRequestAssignment(member_id=member_id, assignment=content.encode()))
    has_type = version >= 5
    protocol_type = step.options.get("type", actor.protocol_type)
    protocol = step.options.get("protocol", actor.protocol_name)
    return sync_group.SyncGroupRequest(
        group_id=cast.group_id(step),
        generation_id=_generation(step, cast),
        member_id=_member_id(step, cast),
        group_instance_id=_instance(step, actor, version, 3),
        protocol_type=None if not has_type or protocol_type == "null" else protocol_type,
        protocol_name=None if not has_type or protocol == "null" else protocol,
        assignments=tuple(assignments),
    )


def _heartbeat(step: Step, cast: Cast, version: int) -> Request[Any]:
    actor = cast.actor(step.actor)
    return heartbeat.HeartbeatRequest(
        group_id=cast.group_id(step),
        generation_id=_generation(step, cast),
        member_id=_member_id(step, cast),
        group_instance_id=_instance(step, actor, version, 3),
    )


def _leave(step: Step, cast: Cast, version: int) -> Request[Any]:
    actor = cast.actor(step.actor)
    if version < 3:
        return leave_group.LeaveGroupRequest(group_id=cast.group_id(step), member_id=_member_id(step, cast))
    reason = step.options.get("reason") if version >= 5 else None
    own = leave_group.MemberIdentity(
        member_id=_member_id(step, cast), group_instance_id=_instance(step, actor, version, 3), reason=reason
    )
    members = [] if step.options.get("members") == "none" else [own]
    for name in filter(None, step.options.get("also", "").split(",")):
        also = cast.actor(name)
        members.append(
            leave_group.MemberIdentity(member_id=also.member_id or name, group_instance_id=also.group_instance_id)
        )
    return leave_group.LeaveGroupRequest(group_id=cast.group_id(step), members=tuple(members))


def _partitions(step: Step, cast: Cast) -> dict[str, list[tuple[int, str]]]:
    """Real topic -> (partition, value): from `t-0=5` options and bare `t-0` words."""
    found: dict[str, list[tuple[int, str]]] = {}
    items = [(key, value) for key, value in step.options.items() if _is_partition(key)]
    for key, value in [*items, *((word, "-1") for word in step.words if _is_partition(word))]:
        topic, _, index = key.rpartition("-")
        found.setdefault(cast.topic(topic), []).append((int(index), value))
    return found


def _is_partition(text: str) -> bool:
    topic, mark, index = text.rpartition("-")
    return bool(topic and mark) and index.isdigit()


def _indexes(step: Step, cast: Cast) -> dict[str, tuple[int, ...]]:
    return {topic: tuple(index for index, _ in found) for topic, found in _partitions(step, cast).items()}


def _metadata(text: str) -> str | None:
    """`null`, a text, or `x*4097` for a long one."""
    if text == "null":
        return None
    unit, mark, count = text.partition("*")
    return unit * int(count) if mark else text


def _committed(step: Step, index: int, value: str) -> offset_commit.OffsetCommitRequestPartition:
    """From `t-0=5`, or `t-0=5/TEXT` with metadata of its own."""
    offset, mark, own = value.partition("/")
    return offset_commit.OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=int(offset),
        committed_leader_epoch=_number(step, "epoch", -1),
        committed_metadata=_metadata(own if mark else step.options.get("metadata", "")),
    )


def _commit(step: Step, cast: Cast, version: int) -> Request[Any]:
    actor = cast.actor(step.actor)
    by_id = version >= BY_TOPIC_ID
    topics = tuple(
        offset_commit.OffsetCommitRequestTopic(
            name="" if by_id else name,
            topic_id=cast.topic_id(name) if by_id else ZERO_UUID,
            partitions=tuple(_committed(step, index, value) for index, value in partitions),
        )
        for name, partitions in _partitions(step, cast).items()
    )
    return offset_commit.OffsetCommitRequest(
        group_id=cast.group_id(step),
        generation_id_or_member_epoch=_generation(step, cast),
        member_id=_member_id(step, cast),
        group_instance_id=_instance(step, actor, version, 7),
        retention_time_ms=_number(step, "retention", -1) if version <= 4 else -1,
        topics=topics,
    )


def _fetch(step: Step, cast: Cast, version: int) -> Request[Any]:
    is_stable = step.options.get("stable") == "true" and version >= 7
    wants_all = "all" in step.words
    if version < 8:
        flat = tuple(
            offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in _indexes(step, cast).items()
        )
        return offset_fetch.OffsetFetchRequest(
            group_id=cast.group_id(step), topics=None if wants_all else flat, require_stable=is_stable
        )
    by_id = version >= BY_TOPIC_ID
    topics = tuple(
        offset_fetch.OffsetFetchRequestTopics(
            name="" if by_id else name, topic_id=cast.topic_id(name) if by_id else ZERO_UUID, partition_indexes=indexes
        )
        for name, indexes in _indexes(step, cast).items()
    )
    group = offset_fetch.OffsetFetchRequestGroup(
        group_id=cast.group_id(step),
        member_id=step.options.get("id"),
        member_epoch=_number(step, "generation", -1),
        topics=None if wants_all else topics,
    )
    return offset_fetch.OffsetFetchRequest(groups=(group,), require_stable=is_stable)


def _offset_delete(step: Step, cast: Cast, version: int) -> Request[Any]:
    topics = tuple(
        offset_delete.OffsetDeleteRequestTopic(
            name=name,
            partitions=tuple(offset_delete.OffsetDeleteRequestPartition(partition_index=i) for i in indexes),
        )
        for name, indexes in _indexes(step, cast).items()
    )
    return offset_delete.OffsetDeleteRequest(group_id=cast.group_id(step), topics=topics)


def _describe(step: Step, cast: Cast, version: int) -> Request[Any]:
    return describe_groups.DescribeGroupsRequest(
        groups=(cast.group_id(step),),
        include_authorized_operations=step.options.get("operations") == "true" and version >= 3,
    )


def _list(step: Step, cast: Cast, version: int) -> Request[Any]:
    return list_groups.ListGroupsRequest(
        states_filter=tuple(filter(None, step.options.get("states", "").split(","))) if version >= 4 else (),
        types_filter=tuple(filter(None, step.options.get("types", "").split(","))) if version >= 5 else (),
    )


def _delete(step: Step, cast: Cast, version: int) -> Request[Any]:
    own = cast.group_id(step)
    return delete_groups.DeleteGroupsRequest(groups_names=(own, own) if "twice" in step.words else (own,))


def _find_coordinator(step: Step, cast: Cast, version: int) -> Request[Any]:
    key, key_type = cast.group_id(step), _number(step, "key-type", 0)
    if version >= 4:
        return find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
    return find_coordinator.FindCoordinatorRequest(key=key, key_type=key_type if version >= 1 else 0)


_BUILDERS: dict[str, Callable[[Step, Cast, int], Request[Any]]] = {
    "join": _join, "sync": _sync, "heartbeat": _heartbeat, "leave": _leave, "commit": _commit, "fetch": _fetch,
    "offset-delete": _offset_delete, "describe": _describe, "list": _list, "delete": _delete,
    "find-coordinator": _find_coordinator,
}  # fmt: skip
