"""From a response to what a scenario file says of it: an error's name and named fields, ids as actors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kshim.tools.scenario.actors import Actor, Cast
from kshim.tools.scenario.fields import (
    assigned_fields,
    common_error,
    described_fields,
    error_name,
    member_names,
    partition_names,
)
from kshim.tools.scenario.model import Outcome, Step
from kshim.tools.scenario.share_groups import READERS as SHARE_READERS
from kshim.tools.scenario.streams_groups import READERS as STREAMS_READERS
from kshim_protocol.errors import ErrorCode

ABSENT = "(no such field)"
_MADE_ID = re.compile(r"^(.*)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def observe(step: Step, response: Any, version: int, cast: Cast) -> Outcome:
    """All that can be said of a response. Joins teach the cast ids and generations."""
    error, fields = _READERS[step.verb](step, response, version, cast)
    return Outcome(error_name(error), fields)


def differences(expected: Outcome, seen: Outcome) -> list[str]:
    """What of `expected` does not hold: one sentence each, none when it all holds."""
    found = []
    if expected.error not in ("*", seen.error):
        found.append(f"expected {expected.error}, seen {seen.error}")
    for name, value in expected.fields.items():
        actual = seen.fields.get(name, ABSENT)
        if value != actual:
            found.append(f"{name}: expected {value}, seen {actual}")
    return found


def _text(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text) or "-"


def _made_from(member_id: str) -> str:
    """What a broker put in front of the UUID of an id it made."""
    match = _MADE_ID.match(member_id)
    return match[1] if match else "-"


def _join(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    actor: Actor = cast.actor(step.actor)
    if response.member_id and response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
        cast.learn(actor, response.member_id)
    if response.error_code == ErrorCode.NONE:
        actor.generation_id = response.generation_id
        actor.protocol_name = response.protocol_name or ""
        actor.protocol_type = response.protocol_type or step.options.get("type", "consumer")
    fields = {
        "generation": cast.generation_name(cast.group_id(step), response.generation_id),
        "generation-id": str(response.generation_id),
        "leader": cast.name_of(response.leader),
        "members": member_names((member.member_id for member in response.members), cast),
        "protocol": "null" if response.protocol_name is None else response.protocol_name or "-",
        "type": response.protocol_type or "-",
        "skip": str(response.skip_assignment).lower(),
        "id": cast.name_of(response.member_id),
        "made-from": _made_from(response.member_id),
    }
    for member in response.members:
        fields[f"{cast.name_of(member.member_id)}.metadata"] = _text(member.metadata)
        fields[f"{cast.name_of(member.member_id)}.instance"] = member.group_instance_id or "-"
    return response.error_code, fields


def _sync(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    fields = {
        "assignment": _text(response.assignment),
        "type": response.protocol_type or "-",
        "protocol": response.protocol_name or "-",
    }
    return response.error_code, fields


def _plain(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    return response.error_code, {}


def _leave(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    names = [step.actor, *filter(None, step.options.get("also", "").split(","))]
    results = [member.error_code for member in response.members]
    fields = {name: error_name(code) for name, code in zip(names, results, strict=False)}
    fields["results"] = str(len(results))
    fields["top"] = error_name(response.error_code)
    if response.error_code == ErrorCode.NONE and len(results) == 1:
        return results[0], fields
    return response.error_code, fields


def _topic(topic: Any, cast: Cast) -> str:
    return cast.topic_of(topic.name, getattr(topic, "topic_id", b""))


def _partition_errors(topics: Any, cast: Cast) -> tuple[int, dict[str, str]]:
    """One error when all partitions agree, else NONE with one field a partition."""
    return common_error(
        {
            f"{_topic(topic, cast)}-{partition.partition_index}": partition.error_code
            for topic in topics
            for partition in topic.partitions
        }
    )


def _commit(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    return _partition_errors(response.topics, cast)


def _fetch(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    error, topics = response.error_code, response.topics
    if version >= 8:
        (group,) = response.groups
        error, topics = group.error_code, group.topics
    fields = {}
    for topic in topics:
        for partition in topic.partitions:
            name = f"{_topic(topic, cast)}-{partition.partition_index}"
            fields[name] = str(partition.committed_offset)
            fields[f"{name}.metadata"] = partition.metadata or "-"
            fields[f"{name}.epoch"] = str(partition.committed_leader_epoch)
            fields[f"{name}.error"] = error_name(partition.error_code)
    fields["partitions"] = ",".join(sorted(name for name in fields if "." not in name)) or "-"
    return error, fields


def _offset_delete(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    _, fields = _partition_errors(response.topics, cast)
    return response.error_code, fields


def _describe(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    (group,) = response.groups
    fields = {
        "state": group.group_state,
        "type": group.protocol_type or "-",
        "protocol": group.protocol_data or "-",
        "members": member_names((member.member_id for member in group.members), cast),
        "operations": str(group.authorized_operations),
        "message": cast.plain(getattr(group, "error_message", None)),
    }
    for member in group.members:
        name = cast.name_of(member.member_id)
        fields[f"{name}.assignment"] = _text(member.member_assignment)
        fields[f"{name}.metadata"] = _text(member.member_metadata)
        fields[f"{name}.instance"] = member.group_instance_id or "-"
        fields[f"{name}.host"] = member.client_host
        fields[f"{name}.host-mark"] = member.client_host[:1] or "-"
        fields[f"{name}.client"] = member.client_id
    return group.error_code, fields


def _list(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    own = [group for group in response.groups if group.group_id == cast.group_id(step)]
    fields = {"listed": str(bool(own)).lower()}
    if own:
        fields |= {
            "state": own[0].group_state or "-",
            "type": own[0].protocol_type or "-",
            "kind": own[0].group_type or "-",
        }
    return response.error_code, fields


def _delete(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    return response.results[0].error_code, {"results": str(len(response.results))}


def _find_coordinator(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    found = response.coordinators[0] if version >= 4 else response
    fields = {"found": str(found.node_id >= 0).lower(), "message": found.error_message or "-"}
    return found.error_code, fields


def _consumer_heartbeat(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    actor = cast.actor(step.actor)
    if response.error_code == ErrorCode.NONE:
        if response.member_id:
            cast.learn(actor, response.member_id)
        actor.generation_id = response.member_epoch
    return response.error_code, assigned_fields(response, cast)


def _consumer_describe(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    (group,) = response.groups
    fields = described_fields(group, cast)
    for member in group.members:
        name = cast.name_of(member.member_id)
        fields[f"{name}.target"] = partition_names(member.target_assignment.topic_partitions, cast)
        fields[f"{name}.instance"] = member.instance_id or "-"
        fields[f"{name}.type"] = {0: "classic", 1: "consumer"}.get(member.member_type, "unknown")
    return group.error_code, fields


def _configure(step: Step, response: Any, version: int, cast: Cast) -> tuple[int, dict[str, str]]:
    (answered,) = response.responses
    return answered.error_code, {"message": cast.plain(answered.error_message)}


_READERS: dict[str, Callable[[Step, Any, int, Cast], tuple[int, dict[str, str]]]] = {
    "join": _join, "sync": _sync, "heartbeat": _plain, "leave": _leave, "commit": _commit, "fetch": _fetch,
    "offset-delete": _offset_delete, "describe": _describe, "list": _list, "delete": _delete,
    "find-coordinator": _find_coordinator, "consumer-heartbeat": _consumer_heartbeat,
    "consumer-describe": _consumer_describe, "configure": _configure, **SHARE_READERS, **STREAMS_READERS,
}  # fmt: skip
