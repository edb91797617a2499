"""Steps about streams groups: the requests they stand for, and what is said of the answers.

Tasks are called as Kafka Streams does, subtopology and partition: `0_1`. A topology is a text, subtopology by subtopology:

    0 source=in sink=r; 1 repartition=r changelog=store together=in,r

`repartition=r:3` fixes the number of partitions. Topics are named as in the rest of the file; those that begin with `__` are Kafka's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kshim.tools.scenario import options
from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.fields import member_names
from kshim.tools.scenario.model import ScenarioError, Step
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kshim_protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from kshim_protocol.schema import Request

STATUSES = (
    "STALE_TOPOLOGY", "MISSING_SOURCE_TOPICS", "INCORRECTLY_PARTITIONED_TOPICS", "MISSING_INTERNAL_TOPICS",
    "SHUTDOWN_APPLICATION", "ASSIGNMENT_DELAYED", "MISSING_CLIENT_TAGS",
)  # fmt: skip
"""By code."""
_PARTS = frozenset({"source", "regex", "sink", "repartition", "changelog", "together"})


def topology_of(text: str, cast: Cast, epoch: int = 0) -> Topology:
    """Raises ScenarioError."""
    return Topology(
        epoch=epoch, subtopologies=tuple(_subtopology(part.split(), cast) for part in text.split(";") if part.strip())
    )


def internal_topics(text: str, cast: Cast) -> set[str]:
    """Real names of the topics that a broker makes for a topology."""
    return {
        topic.name
        for part in topology_of(text, cast).subtopologies
        for topic in (*part.repartition_source_topics, *part.state_changelog_topics)
    }


def _topic(name: str, cast: Cast) -> str:
    return name if name.startswith("__") else cast.topic(name)


def _subtopology(words: list[str], cast: Cast) -> Subtopology:
    listed: dict[str, list[str]] = {key: [] for key in _PARTS}
    groups: list[list[str]] = []
    for word in words[1:]:
        key, mark, value = word.partition("=")
        if not mark or key not in _PARTS:
            raise ScenarioError(f"a subtopology has {', '.join(sorted(_PARTS))}, not {word!r}")
        if key == "together":
            groups.append(value.split(","))
        else:
            listed[key] += value.split(",")
    repartition = [name.partition(":")[0] for name in listed["repartition"]]
    return Subtopology(
        subtopology_id=words[0],
        source_topics=tuple(_topic(name, cast) for name in listed["source"]),
        source_topic_regex=tuple(listed["regex"]),
        state_changelog_topics=tuple(_topic_info(name, cast) for name in listed["changelog"]),
        repartition_sink_topics=tuple(_topic(name, cast) for name in listed["sink"]),
        repartition_source_topics=tuple(_topic_info(name, cast) for name in listed["repartition"]),
        copartition_groups=tuple(
            CopartitionGroup(
                source_topics=tuple(listed["source"].index(name) for name in group if name in listed["source"]),
                source_topic_regex=(),
                repartition_source_topics=tuple(repartition.index(name) for name in group if name in repartition),
            )
            for group in groups
        ),
    )


def _topic_info(text: str, cast: Cast) -> TopicInfo:
    name, _, count = text.partition(":")
    return TopicInfo(name=_topic(name, cast), partitions=int(count or 0), replication_factor=0, topic_configs=())


def _place(task: str) -> tuple[str, int]:
    subtopology_id, _, partition = task.rpartition("_")
    return subtopology_id, int(partition)


def _tasks(step: Step, role: str, default: str | None) -> tuple[TaskIds, ...] | None:
    named = options.names(step, role, default)
    if named is None:
        return None
    found: dict[str, list[int]] = {}
    for subtopology_id, partition in map(_place, named):
        found.setdefault(subtopology_id, []).append(partition)
    return tuple(TaskIds(subtopology_id=key, partitions=tuple(indexes)) for key, indexes in found.items())


def _offsets(step: Step, key: str) -> tuple[TaskOffset, ...] | None:
    named = options.names(step, key, None)
    if named is None:
        return None
    rows = [(*_place(text.partition(":")[0]), int(text.partition(":")[2])) for text in named]
    return tuple(TaskOffset(subtopology_id=each, partition=index, offset=offset) for each, index, offset in rows)


def _tags(step: Step) -> tuple[KeyValue, ...] | None:
    named = options.names(step, "tags", None)
    if named is None:
        return None
    return tuple(KeyValue(key=text.partition(":")[0], value=text.partition(":")[2]) for text in named)


def _heartbeat(step: Step, cast: Cast, version: int) -> Request[Any]:
    """Who joins sends all of it, who goes on only its epoch, unless the step says otherwise."""
    actor = cast.actor(step.actor)
    epoch = options.number(step, "epoch", max(actor.generation_id, 0))
    is_joining = epoch == 0
    owns = "-" if is_joining or step.options.keys() & {"active", "standby", "warmup"} else None
    topology = step.options.get("topology", cast.scenario.topology if is_joining else "null")
    host, _, port = step.options.get("endpoint", "").rpartition(":")
    return StreamsGroupHeartbeatRequest(
        group_id=cast.group_id(step),
        member_id=options.own_member_id(step, cast),
        member_epoch=epoch,
        endpoint_information_epoch=options.number(step, "endpoint-epoch", actor.endpoint_epoch),
        instance_id=options.own_instance_id(step, actor),
        rack_id=step.options.get("rack"),
        rebalance_timeout_ms=options.number(step, "timeout", 60_000 if is_joining else -1),
        topology=None if topology == "null" else topology_of(topology, cast, options.number(step, "topology-epoch", 0)),
        active_tasks=_tasks(step, "active", owns),
        standby_tasks=_tasks(step, "standby", owns),
        warmup_tasks=_tasks(step, "warmup", owns),
        process_id=step.options.get("process", f"process-{actor.name}" if is_joining else None),
        user_endpoint=Endpoint(host=host, port=int(port)) if host else None,
        client_tags=_tags(step) or (() if is_joining else None),
        task_offsets=_offsets(step, "offsets"),
        task_end_offsets=_offsets(step, "end-offsets"),
        shutdown_application=step.options.get("shutdown") == "true",
    )


BUILDERS: dict[str, Callable[[Step, Cast, int], Request[Any]]] = {
    "streams-heartbeat": _heartbeat,
    "streams-describe": lambda step, cast, _: StreamsGroupDescribeRequest(
        group_ids=(cast.group_id(step),), include_authorized_operations=False
    ),
}
"""By verb."""


# Answers


def _names_of(tasks: tuple[TaskIds, ...] | None) -> str:
    """`0_0,0_1`; `-` for none, `unchanged` for null."""
    if tasks is None:
        return "unchanged"
    found = [(each.subtopology_id, index) for each in tasks for index in each.partitions]
    return ",".join(f"{subtopology_id}_{index}" for subtopology_id, index in sorted(found)) or "-"


def _places(topics: Any, cast: Cast) -> str:
    found = [f"{cast.plain_topic(each.topic)}-{index}" for each in topics for index in each.partitions]
    return ",".join(sorted(found)) or "-"


def _status_name(status: Any) -> str:
    code = status.status_code
    return STATUSES[code] if 0 <= code < len(STATUSES) else f"STATUS_{code}"


def _read_heartbeat(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    actor = cast.actor(step.actor)
    if response.error_code == ErrorCode.NONE:
        actor.generation_id = response.member_epoch
        actor.endpoint_epoch = response.endpoint_information_epoch
    statuses = response.status or ()
    endpoints = response.partitions_by_user_endpoint
    fields = {
        "epoch": str(response.member_epoch),
        "active": _names_of(response.active_tasks),
        "standby": _names_of(response.standby_tasks),
        "warmup": _names_of(response.warmup_tasks),
        "status": ",".join(map(_status_name, statuses)) or "-",
        "detail": " ".join(cast.plain(each.status_detail) for each in statuses) or "-",
        "id": cast.name_of(response.member_id),
        "interval": str(response.heartbeat_interval_ms),
        "endpoint-epoch": str(response.endpoint_information_epoch),
        "message": cast.plain(response.error_message),
        "endpoints": "unchanged"
        if endpoints is None
        else ",".join(sorted(each.user_endpoint.host for each in endpoints)) or "-",
    }
    for each in endpoints or ():
        fields[f"{each.user_endpoint.host}.active"] = _places(each.active_partitions, cast)
        fields[f"{each.user_endpoint.host}.standby"] = _places(each.standby_partitions, cast)
    return response.error_code, fields


def _read_describe(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    (group,) = response.groups
    fields = {
        "state": group.group_state or "-",
        "epoch": str(group.group_epoch),
        "target-epoch": str(group.assignment_epoch),
        "topology-epoch": "null" if group.topology is None else str(group.topology.epoch),
        "members": member_names((member.member_id for member in group.members), cast),
        "message": cast.plain(group.error_message),
    }
    for part in (group.topology.subtopologies if group.topology else ()) or ():
        for kind, topics in (
            ("repartition", part.repartition_source_topics),
            ("changelog", part.state_changelog_topics),
        ):
            fields[f"{part.subtopology_id}.{kind}"] = (
                ",".join(f"{cast.plain_topic(topic.name)}:{topic.partitions}" for topic in topics) or "-"
            )
    for member in group.members:
        name = cast.name_of(member.member_id)
        own: Mapping[str, str] = {
            "epoch": str(member.member_epoch),
            "topology-epoch": str(member.topology_epoch),
            "active": _names_of(member.assignment.active_tasks),
            "standby": _names_of(member.assignment.standby_tasks),
            "target": _names_of(member.target_assignment.active_tasks),
            "target-standby": _names_of(member.target_assignment.standby_tasks),
            "instance": member.instance_id or "-",
            "rack": member.rack_id or "-",
            "process": member.process_id,
        }
        fields |= {f"{name}.{key}": value for key, value in own.items()}
    return group.error_code, fields


READERS: dict[str, Callable[[Step, Any, int, Cast], tuple[int, dict[str, str]]]] = {
    "streams-heartbeat": _read_heartbeat,
    "streams-describe": _read_describe,
}
"""By verb."""
