"""From a request of a recording to a step of a scenario, and from its answer to what the step expects."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any, Final

from kshim.replay.compare import Ids, differences
from kshim.replay.messages import Asked
from kshim.tools.scenario.actors import Actor, Cast
from kshim.tools.scenario.answers import observe
from kshim.tools.scenario.model import Outcome, ScenarioError, Step
from kshim.tools.scenario.parse import parse_step
from kshim.tools.scenario.requests import APIS, build_request
from kshim_protocol.frame import BuildError


class Unsayable(Exception):
    """A request that no step stands for; `str(error)` says why."""


class _Same(Ids):
    """No id stands for another one."""

    def are_same(self, kind: str, recorded: Any, replayed: Any) -> bool:
        return bool(recorded == replayed)


class Marks:
    """Short names for opaque bytes: the metadata of members, and their assignments."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._names: dict[bytes, str] = {}

    def of(self, data: bytes) -> str:
        """The name of these bytes, "" for none; the same for the same ones."""
        return self._names.setdefault(data, f"{self._prefix}{len(self._names) + 1}") if data else ""


class RecordedCast(Cast):
    """The actors of a recording: groups and topics have their own names. `groups` are named in the order they come."""

    def __init__(self) -> None:
        super().__init__(None, "")  # type: ignore[arg-type]
        self.groups: dict[str, str] = {}

    def group_option(self, group_id: str) -> str:
        """What `group=` says for a group: nothing for the first one."""
        if group_id == "":
            return "group=''"
        name = self.groups.setdefault(group_id, f"group{len(self.groups) + 1}")
        return "" if name == "group1" else f"group={name}"

    @property
    def unique_group(self) -> str:
        return next(iter(self.groups), "")

    def group_id(self, step: Step) -> str:
        name = step.options.get("group", "group1")
        return next((group_id for group_id, known in self.groups.items() if known == name), "")

    def topic(self, name: str) -> str:
        return name

    def plain_topic(self, real: str) -> str:
        return real


class Steps:
    """Makes steps of one recording, in order. `cast` learns from every answer that is given to `outcome`."""

    def __init__(self) -> None:
        self.cast = RecordedCast()
        self.metadata = Marks("m")
        self.assignments = Marks("x")

    def request(self, asked: Asked, actor: str) -> tuple[Step, list[str]]:
        """The step of a request, and what of the request it does not say. Raises Unsayable."""
        verb = VERBS[asked.api.key]
        words = " ".join(filter(None, _WORDS[verb](self, asked, actor)))
        words = f"{words} v={asked.version}" if asked.version != APIS[verb][1] else words
        if "->" in words or "|" in words:
            raise Unsayable("a text in it holds -> or |")
        try:
            step = parse_step(f"{words} -> *")
            built, version = build_request(step, self.cast)
        except (ScenarioError, BuildError, ValueError) as error:
            raise Unsayable(str(error)) from None
        assert version == asked.version
        unsaid = differences(self._marked(asked.body), built, _Same())
        return step, [f"{field.path} is {field.recorded} and not {field.replayed}" for field in unsaid]

    def _marked(self, body: Any) -> Any:
        """The request with names for opaque bytes."""
        changes: dict[str, Any] = {}
        if hasattr(body, "protocols"):
            changes["protocols"] = tuple(
                type(each)(name=each.name, metadata=self.metadata.of(each.metadata).encode()) for each in body.protocols
            )
        if hasattr(body, "assignments"):
            changes["assignments"] = tuple(
                type(each)(member_id=each.member_id, assignment=self.assignments.of(each.assignment).encode())
                for each in body.assignments
            )
        if not changes:
            return body
        values = {row.name: getattr(body, row.name) for row in body.info.rows}
        return type(body)(**{**values, **changes})

    def outcome(self, step: Step, answer: Any, version: int) -> Outcome:
        """What the step expects of an answer; the cast has learned from it."""
        seen = observe(step, answer, version, self.cast)
        if step.verb == "sync" and answer.assignment:
            seen.fields["assignment"] = self.assignments.of(answer.assignment)
        wanted = _FIELDS[step.verb]
        fields = {
            name: value
            for name, value in seen.fields.items()
            if (seen.error == "NONE" and name in wanted)
            or (name not in wanted and value != seen.error and _is_of_partition(name, value))
        }
        return Outcome(seen.error, fields)


def text_of(outcome: Outcome) -> str:
    """An outcome as a file has it."""
    return " ".join((outcome.error, *(shlex.quote(f"{name}={value}") for name, value in outcome.fields.items())))


_FIELDS: Final[dict[str, frozenset[str]]] = {
    "join": frozenset({"generation", "leader", "members", "protocol"}),
    "sync": frozenset({"assignment"}),
    "heartbeat": frozenset(),
    "leave": frozenset({"results"}),
    "commit": frozenset(),
    "fetch": frozenset({"partitions"}),
    "offset-delete": frozenset(),
    "describe": frozenset({"state", "type", "members"}),
    "list": frozenset({"listed", "state"}),
    "delete": frozenset(),
}
"""What is expected of an answer without an error, besides fields that are named after a partition."""


def _is_of_partition(name: str, value: str) -> bool:
    """Whether a field is a committed offset, or the error of a partition."""
    topic, dash, index = name.partition(".")[0].rpartition("-")
    if not (topic and dash and index.isdigit()):
        return False
    kind = name.partition(".")[2]
    return not kind or (kind == "error" and value != "NONE")


def _option(name: str, value: object) -> str:
    return shlex.quote(f"{name}={value}")


def _named(value: str | None) -> str:
    return "-" if value is None else value


def _id(steps: Steps, actor: Actor, member_id: str) -> str:
    """`id=` of a request, where it is not the actor's own."""
    cast = steps.cast
    if member_id == actor.member_id:
        return ""
    if not member_id:
        return "id=''"
    name = cast.name_of(member_id)
    if name == "somebody" or name == member_id:
        return _option("id", member_id)
    return f"id=@{name}"


def _generation(steps: Steps, actor: Actor, group_id: str, generation_id: int) -> str:
    if generation_id == actor.generation_id:
        return ""
    return f"generation={steps.cast.generation_name(group_id, generation_id)}"


def _who(steps: Steps, asked: Asked, name: str, *, instance: str | None) -> Iterator[str]:
    """The options that say who sends a request: the instance only where it is another than that of its Join."""
    actor, body = steps.cast.actor(name), asked.body
    yield steps.cast.group_option(body.group_id)
    yield _id(steps, actor, body.member_id)
    if instance != actor.group_instance_id:
        yield _option("instance", _named(instance))


def _join(steps: Steps, asked: Asked, name: str) -> Iterator[str]:
    body, actor = asked.body, steps.cast.actor(name)
    yield f"join {name}"
    yield steps.cast.group_option(body.group_id)
    yield _id(steps, actor, body.member_id)
    if body.group_instance_id is not None or actor.group_instance_id is not None:
        yield _option("instance", _named(body.group_instance_id))
    yield f"session={body.session_timeout_ms}"
    if asked.version >= 1:
        yield f"rebalance={body.rebalance_timeout_ms}"
    if body.protocol_type != "consumer":
        yield _option("type", body.protocol_type)
    protocols = ",".join(f"{each.name}:{steps.metadata.of(each.metadata)}" for each in body.protocols)
    yield _option("protocols", protocols)
    if body.reason is not None:
        yield _option("reason", body.reason)


def _sync(steps: Steps, asked: Asked, name: str) -> Iterator[str]:
    body, actor = asked.body, steps.cast.actor(name)
    yield f"sync {name}"
    yield from _who(steps, asked, name, instance=body.group_instance_id)
    yield _generation(steps, actor, body.group_id, body.generation_id)
    if asked.version >= 5:
        if body.protocol_type != actor.protocol_type:
            yield _option("type", "null" if body.protocol_type is None else body.protocol_type)
        if body.protocol_name != actor.protocol_name:
            yield _option("protocol", "null" if body.protocol_name is None else body.protocol_name)
    if body.assignments:
        parts = [
            f"{steps.cast.name_of(each.member_id)}:{steps.assignments.of(each.assignment)}" for each in body.assignments
        ]
        yield _option("assign", ",".join(parts))


def _heartbeat(steps: Steps, asked: Asked, name: str) -> Iterator[str]:
    body = asked.body
    yield f"heartbeat {name}"
    yield from _who(steps, asked, name, instance=body.group_instance_id)
    yield _generation(steps, steps.cast.actor(name), body.group_id, body.generation_id)


def _leave(steps: Steps, asked: Asked, name: str) -> Iterator[str]:
    body, actor = asked.body, steps.cast.actor(name)
    yield f"leave {name}"
    yield steps.cast.group_option(body.group_id)
    if asked.version < 3:
        yield _id(steps, actor, body.member_id)
        return
    if not body.members:
        yield "members=none"
        return
    first, *others = body.members
    yield _id(steps, actor, first.member_id)
    if first.group_instance_id != actor.group_instance_id:
        yield _option("instance", _named(first.group_instance_id))
    if first.reason is not None:
        yield _option("reason", first.reason)
    if others:
        yield _option("also", ",".join(steps.cast.name_of(each.member_id) for each in others))


def _commit(steps: Steps, asked: Asked, name: str) -> Iterator[str]:
    body = asked.body
    yield f"commit {name}"
    yield from _who(steps, asked, name, instance=body.group_instance_id)
    yield _generation(steps, steps.cast.actor(name), body.group_id, body.generation_id_or_member_epoch)
    rows = [
        (f"{steps.cast.topic_of(topic.name, topic.topic_id)}-{each.partition_index}", each)
        for topic in body.topics
        for each in topic.partitions
    ]
    metadata = {"null" if each.committed_metadata is None else each.committed_metadata for _, each in rows}
    shared = metadata.pop() if len(metadata) == 1 else None
    for place, each in rows:
        own = "" if shared is not None else f"/{each.committed_metadata}"
        yield _option(place, f"{each.committed_offset}{own}")
    if shared:
        yield _option("metadata", shared)
    epochs = {each.committed_leader_epoch for _, each in rows}
    if epochs - {-1}:
        yield f"epoch={max(epochs)}"
    if body.retention_time_ms != -1:
        yield f"retention={body.retention_time_ms}"


def _fetch(steps: Steps, asked: Asked, name: str) -> Iterator[str]:
    body, cast = asked.body, steps.cast
    if asked.version >= 8:
        if len(body.groups) != 1:
            raise Unsayable("it is about several groups")
        (of,) = body.groups
        member_id, epoch = of.member_id, of.member_epoch
    else:
        of, member_id, epoch = body, None, -1
    yield f"fetch {name}"
    yield cast.group_option(of.group_id)
    if of.topics is None:
        yield "all"
    for topic in of.topics or ():
        for index in topic.partition_indexes:
            yield f"{cast.topic_of(topic.name, getattr(topic, 'topic_id', b''))}-{index}"
    if member_id is not None:
        known = cast.name_of(member_id)
        yield "id=''" if not member_id else _option("id", member_id if known == "somebody" else f"@{known}")
    if epoch != -1:
        yield f"generation={cast.generation_name(of.group_id, epoch)}"
    if body.require_stable:
        yield "stable=true"


def _offset_delete(steps: Steps, asked: Asked, name: str) -> Iterator[str]:
    yield f"offset-delete {name}"
    yield steps.cast.group_option(asked.body.group_id)
    for topic in asked.body.topics:
        yield from (f"{topic.name}-{each.partition_index}" for each in topic.partitions)


def _describe(steps: Steps, asked: Asked, name: str) -> Iterator[str]:
    if len(asked.body.groups) != 1:
        raise Unsayable("it is about several groups")
    yield "describe"
    yield steps.cast.group_option(asked.body.groups[0])
    if asked.body.include_authorized_operations:
        yield "operations=true"


def _list(steps: Steps, asked: Asked, name: str) -> Iterator[str]:
    yield "list"
    for option, values in (("states", asked.body.states_filter), ("types", asked.body.types_filter)):
        if values:
            yield _option(option, ",".join(values))


def _delete(steps: Steps, asked: Asked, name: str) -> Iterator[str]:
    if len(asked.body.groups_names) != 1:
        raise Unsayable("it is about several groups")
    yield "delete"
    yield steps.cast.group_option(asked.body.groups_names[0])


_WORDS: Final[dict[str, Callable[[Steps, Asked, str], Iterator[str]]]] = {
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
}


VERBS: Final = {APIS[verb][0]: verb for verb in _WORDS}
"""By API key: what a recording becomes steps of."""


def group_of(asked: Asked) -> str | None:
    """The group that a request is about; None where it is about none, or several."""
    body = asked.body
    group_id = getattr(body, "group_id", None)
    if group_id:
        return str(group_id)
    names: tuple[Any, ...] = getattr(body, "groups", ()) or getattr(body, "groups_names", ())
    if len(names) != 1:
        return None
    return str(getattr(names[0], "group_id", names[0]))
