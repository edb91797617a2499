"""From a step to the request it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kshim.tools.scenario import options
from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.model import ScenarioError, Step
from kshim.tools.scenario.share_groups import BUILDERS as SHARE_BUILDERS
from kshim.tools.scenario.streams_groups import BUILDERS as STREAMS_BUILDERS
from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.group_requests import (
    Committed,
    GroupMember,
    OffsetsOf,
    Partitions,
    TopicId,
    find_coordinator,
    for_version,
    leave_group,
    no_topic_id,
    offset_delete,
    offset_fetch,
)
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kshim_protocol.messages.leave_group import MemberIdentity
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.schema import Request

# Classic groups are asked in the newest version that names topics by name, or the broker's newest if that is older;
# `v=` chooses another.
APIS = {
    "join": (11, 9), "sync": (14, 5), "heartbeat": (12, 4), "leave": (13, 5), "commit": (8, 9), "fetch": (9, 9),
    "offset-delete": (47, 0), "describe": (15, 6), "list": (16, 5), "delete": (42, 3), "find-coordinator": (10, 6),
    "consumer-heartbeat": (68, 1), "consumer-describe": (69, 1), "configure": (44, 1),
    "share-heartbeat": (76, 1), "share-describe": (77, 1), "share-fetch": (78, 2), "share-acknowledge": (79, 2),
    "share-offsets": (90, 1), "share-alter-offsets": (91, 0), "share-delete-offsets": (92, 0), "produce": (0, 11),
    "streams-heartbeat": (88, 1), "streams-describe": (89, 1),
}  # fmt: skip
_SET, _DELETE = 0, 1
_GROUP = 32
"""The type of the resources of groups."""
BY_TOPIC_ID = 10
"""First version of OffsetCommit and OffsetFetch that names topics by id."""


FIRST_WITH_INSTANCE = {"join": 5, "sync": 3, "heartbeat": 3, "leave": 3, "commit": 7}
FIRST_WITH_FIELD = {
    ("join", "type"): 7, ("join", "protocol"): 7, ("join", "skip"): 9, ("join", "instance"): 5,
    ("sync", "type"): 5, ("sync", "protocol"): 5, ("leave", "results"): 3, ("leave", "top"): 3,
    ("fetch", "epoch"): 5, ("describe", "operations"): 3, ("describe", "instance"): 4,
    ("list", "state"): 4, ("list", "kind"): 5, ("describe", "message"): 6,
    ("share-acknowledge", "lock"): 2, ("share-offsets", "lag"): 1,
}  # fmt: skip
"""First version whose answers have a field that a file may name; (join, protocol) is about null only."""
FIRST_WITH_OPTION = {("share-fetch", "exact"): 2, ("share-fetch", "renew"): 2, ("share-acknowledge", "renew"): 2}
"""First version whose requests can say it."""


class Unsupported(Exception):
    """The broker does not serve what a step asks for; `str(error)` says what that is.

    `missing` holds the settings that the broker lacks, as KEY=VALUE.
    """

    def __init__(self, reason: str, missing: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.missing = missing


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
    needed = max(needed, *(FIRST_WITH_OPTION.get((step.verb, option), 0) for option in ("", *step.options)))
    for field, value in (step.expectation.own.fields if step.expectation.own else {}).items():
        key = (step.verb, field.rpartition(".")[2] if field not in ("type", "protocol") else field)
        needed = max(needed, FIRST_WITH_FIELD.get(key, 0) if key != ("join", "protocol") or value == "null" else 0)
    if version < needed:
        raise Unsupported(f"needs {name} v{needed}, the broker serves it up to v{version}")
    if step.verb in ("leave", "sync") and actor is not None and not actor.member_id and "id" not in step.options:
        raise Unsupported(f"the member id of {step.actor} is unknown until its JoinGroup is answered")


def _generation(step: Step, cast: Cast) -> int:
    """The generation the actor last joined, or the one that a file calls by its number."""
    if "generation" not in step.options:
        return cast.actor(step.actor).generation_id
    return cast.generation(cast.group_id(step), options.number(step, "generation", -1))


def subscription(topics: tuple[str, ...]) -> bytes:
    """Consumer protocol subscription v0, as it stands in Join metadata."""
    body = codec(ConsumerProtocolSubscription, 0).build(ConsumerProtocolSubscription(topics=topics))
    return b"\0\0" + body


def _member(step: Step, cast: Cast) -> GroupMember:
    """The sender: what the actor knows of its membership, unless the step says otherwise."""
    actor = cast.actor(step.actor)
    instance = step.options.get("instance", actor.group_instance_id)
    return GroupMember(
        cast.group_id(step),
        options.member_id(step, cast),
        _generation(step, cast),
        None if instance in (None, "-") else instance,
    )


def _join(step: Step, cast: Cast, version: int) -> Request[Any]:
    actor = cast.actor(step.actor)
    member = _member(step, cast)
    if "id" not in step.options or step.options["id"] == "":
        actor.group_instance_id = member.group_instance_id if version >= FIRST_WITH_INSTANCE["join"] else None
    topics = tuple(cast.topic(name) for name in step.options.get("subscribe", "").split(",") if name)
    protocols = []
    for item in filter(None, step.options.get("protocols", "range").split(",")):
        name, mark, metadata = item.partition(":")
        protocols.append((name, metadata.encode() if mark else subscription(topics)))
    return member.join(
        version,
        protocols,
        session_timeout_ms=options.number(step, "session", 30_000),
        rebalance_timeout_ms=options.number(step, "rebalance", 60_000),
        protocol_type=step.options.get("type", "consumer"),
        reason=step.options.get("reason"),
    )


def _sync(step: Step, cast: Cast, version: int) -> Request[Any]:
    actor = cast.actor(step.actor)
    assignments = []
    for item in filter(None, step.options.get("assign", "").split(",")):
        name, _, content = item.partition(":")
        assignments.append((cast.actor(name).member_id or name, content.encode()))
    protocol_type = step.options.get("type", actor.protocol_type)
    protocol = step.options.get("protocol", actor.protocol_name)
    return _member(step, cast).sync(
        version,
        assignments,
        protocol_type=None if protocol_type == "null" else protocol_type,
        protocol_name=None if protocol == "null" else protocol,
    )


def _leave(step: Step, cast: Cast, version: int) -> Request[Any]:
    own = _member(step, cast)
    members = [
        MemberIdentity(
            member_id=own.member_id, group_instance_id=own.group_instance_id, reason=step.options.get("reason")
        )
    ]
    if version >= FIRST_WITH_INSTANCE["leave"] and step.options.get("members") == "none":
        members = []
    for name in filter(None, step.options.get("also", "").split(",")):
        also = cast.actor(name)
        members.append(MemberIdentity(member_id=also.member_id or name, group_instance_id=also.group_instance_id))
    return leave_group(version, own.group_id, members)


def _indexes(step: Step, cast: Cast) -> Partitions:
    return [(topic, [index for index, _ in found]) for topic, found in options.partitions(step, cast).items()]


def _metadata(text: str) -> str | None:
    """`null`, a text, or `x*4097` for a long one."""
    if text == "null":
        return None
    unit, mark, count = text.partition("*")
    return unit * int(count) if mark else text


def _committed(step: Step, index: int, value: str) -> Committed:
    """From `t-0=5`, or `t-0=5/TEXT` with metadata of its own."""
    offset, mark, own = value.partition("/")
    metadata = _metadata(own if mark else step.options.get("metadata", ""))
    return Committed(index, int(offset), metadata, options.number(step, "epoch", -1))


def _topic_id(cast: Cast, version: int) -> TopicId:
    return cast.topic_id if version >= BY_TOPIC_ID else no_topic_id


def _consumer_heartbeat(step: Step, cast: Cast, version: int) -> Request[Any]:
    """Who joins sends all of it, who goes on only its epoch, unless the step says otherwise."""
    actor = cast.actor(step.actor)
    epoch = options.number(step, "epoch", max(actor.generation_id, 0))
    is_joining = epoch == 0
    topics = options.names(step, "subscribe", None)
    owned = options.names(step, "owned", "-" if is_joining else None)
    regex = step.options.get("regex")
    return ConsumerGroupHeartbeatRequest(
        group_id=cast.group_id(step),
        member_id=options.own_member_id(step, cast),
        member_epoch=epoch,
        instance_id=options.own_instance_id(step, actor),
        rack_id=step.options.get("rack"),
        rebalance_timeout_ms=options.number(step, "timeout", 60_000 if is_joining else -1),
        subscribed_topic_names=None if topics is None else tuple(map(cast.topic, topics)),
        subscribed_topic_regex=cast.topic(regex) if regex else regex,
        server_assignor=step.options.get("assignor"),
        topic_partitions=None if owned is None else _by_topic(owned, cast),
    )


def _by_topic(partitions: tuple[str, ...], cast: Cast) -> tuple[TopicPartitions, ...]:
    found: dict[str, list[int]] = {}
    for partition in partitions:
        topic, _, index = partition.rpartition("-")
        found.setdefault(topic, []).append(int(index))
    return tuple(
        TopicPartitions(topic_id=cast.topic_id(cast.topic(topic)), partitions=tuple(indexes))
        for topic, indexes in found.items()
    )


def _commit(step: Step, cast: Cast, version: int) -> Request[Any]:
    offsets = [
        (name, [_committed(step, index, value) for index, value in partitions])
        for name, partitions in options.partitions(step, cast).items()
    ]
    topic_id, retention_ms = _topic_id(cast, version), options.number(step, "retention", -1)
    return _member(step, cast).commit(version, offsets, topic_id=topic_id, retention_time_ms=retention_ms)


def _fetch(step: Step, cast: Cast, version: int) -> Request[Any]:
    partitions = None if "all" in step.words else _indexes(step, cast)
    member_id = cast.member_id(step.options["id"]) if "id" in step.options else None
    of = OffsetsOf(cast.group_id(step), partitions, member_id, options.number(step, "generation", -1))
    is_stable = step.options.get("stable") == "true"
    return offset_fetch(version, [of], topic_id=_topic_id(cast, version), require_stable=is_stable)


def _describe(step: Step, cast: Cast, version: int) -> Request[Any]:
    request = DescribeGroupsRequest(
        groups=(cast.group_id(step),), include_authorized_operations=step.options.get("operations") == "true"
    )
    return for_version(request, version)


def _list(step: Step, cast: Cast, version: int) -> Request[Any]:
    states, types = (tuple(filter(None, step.options.get(key, "").split(","))) for key in ("states", "types"))
    return for_version(ListGroupsRequest(states_filter=states, types_filter=types), version)


def _delete(step: Step, cast: Cast, version: int) -> Request[Any]:
    own = cast.group_id(step)
    return DeleteGroupsRequest(groups_names=(own, own) if "twice" in step.words else (own,))


def _configure(step: Step, cast: Cast, version: int) -> Request[Any]:
    """Of the run's own group; `-` takes a value back."""
    configs = tuple(
        AlterableConfig(name=key, config_operation=_DELETE, value=None)
        if value == "-"
        else AlterableConfig(name=key, config_operation=_SET, value=value)
        for key, value in step.options.items()
    )
    resource = AlterConfigsResource(resource_type=_GROUP, resource_name=cast.unique_group, configs=configs)
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


_BUILDERS: dict[str, Callable[[Step, Cast, int], Request[Any]]] = {
    "join": _join,
    "sync": _sync,
    "heartbeat": lambda step, cast, version: _member(step, cast).heartbeat(version),
    "leave": _leave,
    "consumer-heartbeat": _consumer_heartbeat,
    "consumer-describe": lambda step, cast, _: ConsumerGroupDescribeRequest(group_ids=(cast.group_id(step),)),
    "configure": _configure,
    "commit": _commit,
    "fetch": _fetch,
    "offset-delete": lambda step, cast, _: offset_delete(cast.group_id(step), _indexes(step, cast)),
    "describe": _describe,
    "list": _list,
    "delete": _delete,
    "find-coordinator": lambda step, cast, version: find_coordinator(
        version, [cast.group_id(step)], options.number(step, "key-type", 0)
    ),
    **SHARE_BUILDERS,
    **STREAMS_BUILDERS,
}
