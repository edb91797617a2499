"""A run as people read it: in the notation of docs/design/scenarios.md, as far as that has words for it.

Beyond it there are: `crash-next-append before|after`, `crash`, `pause MS` (nobody looks at the timers), `unload`,
`begin-load` and `load` of a partition, `compare` (with the log), `settle` (everybody goes on without faults) and
`silence`. `knows=-` is a client that has no member id (any more), `knows=N` one that acts on its Join in line N.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.groups.events import Transition
from kshim.coordinator.step import Event
from kshim_protocol.errors import ErrorCode
from tests.simulation.assignors import owned_in
from tests.simulation.script import Actor, Input, Script
from tests.simulation.simulate import play
from tests.simulation.world import ADMIN, Call, MakeCoordinator


def transcript(script: Script, make_coordinator: MakeCoordinator = GroupCoordinator) -> str:
    """Play a script and write down what happened, up to what it breaks."""
    writer = _Writer(script)
    violation = play(script, make_coordinator, writer.step)
    lines = [*_header(script), "", *writer.lines]
    if writer.now_ms is not None and violation is not None:
        lines.append(f"# then: {violation}")
    return "\n".join(lines)


def _header(script: Script) -> list[str]:
    setting = script.setting
    used = {what.actor for what in script.inputs} | {
        name for what in script.inputs if what.verb == "settle" for name in what.detail["clients"]
    }
    config = " ".join(f"{name.replace('_', '.')}={value}" for name, value in setting.config.items())
    lines = [
        "suite: simulation",
        "run: virtual",
        f"config: {config}",
        f"topics: {' '.join(f'{name}:{partitions}' for name, partitions in setting.topics.items())}",
    ]
    return lines + [_actor_line(actor) for name, actor in script.actors.items() if name in used]


def _actor_line(actor: Actor) -> str:
    instance = f" instance={actor.instance_id}" if actor.instance_id is not None else ""
    return (
        f"# {actor.name}: group={actor.group_id}{instance} session={actor.session_timeout_ms} "
        f"rebalance={actor.rebalance_timeout_ms} protocols={','.join(actor.protocols)} join.v={actor.versions.join}"
    )


class _Writer:
    """Collects lines. Member ids are written as the actor they were given to."""

    def __init__(self, script: Script) -> None:
        self.lines: list[str] = []
        self.now_ms: int | None = None
        self._script = script
        self._names: dict[str, str] = {}
        self._answered: set[int] = set()
        self._newest: dict[str, int] = {}  # actor -> serial of its last answered Join

    def step(self, what: Input | None, call: Call | None, released: list[Call], events: list[Event]) -> None:
        """One input or one firing of timers."""
        for answered in released:
            self._learn(answered)
        if what is None:
            at_ms = events[0].now.mono_ms if events else self.now_ms or 0
            line = self._advance(at_ms, always=True)
        else:
            line = self._advance(what.at_ms, always=False)
            if line:
                self.lines.append(line)
            line = self._input(what)
        outcomes = []
        if call is not None:
            outcomes.append(self._outcome(call))
        outcomes += [f"{other.asked.actor}: {self._outcome(other)}" for other in released if other is not call]
        self.lines.append(f"{line:<56} -> {' | '.join(outcomes)}" if outcomes else line)
        for event in events:
            if isinstance(event, Transition):
                member = self._name(event.member.member_id) if event.member is not None else ""
                self.lines.append(f"    {event.previous} -> {event.new}    {event.cause} {member}".rstrip())

    def _advance(self, at_ms: int, *, always: bool) -> str:
        passed_ms = at_ms - (self.now_ms or 0) if self.now_ms is not None else 0
        self.now_ms = at_ms
        return f"advance {passed_ms}" if passed_ms or always else ""

    def _learn(self, call: Call) -> None:
        if call.asked.verb == "join" and call.response is not None and call.response.member_id:
            self._names.setdefault(call.response.member_id, call.asked.actor)
            self._newest[call.asked.actor] = call.asked.serial
            self._answered.add(call.asked.serial)

    def _name(self, member_id: str) -> str:
        return self._names.get(member_id, member_id)

    def _input(self, what: Input) -> str:
        words = [what.verb]
        if what.actor and what.actor != ADMIN:
            words += [what.actor, f"v={what.version}"]
            newest = self._newest.get(what.actor)
            if what.basis is None:
                words += ["knows=-"] if newest is not None else []
            elif what.basis != newest and what.basis in self._answered:
                words.append(f"knows={what.basis}")
        words += [
            f"{name}={_text(value)}" for name, value in what.detail.items() if _text(value) and what.verb != "settle"
        ]
        words += what.detail.get("clients", ()) if what.verb == "settle" else ()
        return " ".join(words)

    def _outcome(self, call: Call) -> str:
        if call.is_lost:
            return "lost"
        if call.response is None:
            return "parked"
        words = [call.error.name]
        fields = _FIELDS.get(call.asked.verb)
        if fields is not None:
            words += fields(call, self._name)
        return " ".join(words)


_Name = Callable[[str], str]


def _join_fields(call: Call, name: _Name) -> list[str]:
    response = call.response
    if call.error is not ErrorCode.NONE:
        return []
    members = ",".join(name(member.member_id) for member in response.members) or "-"
    return [f"generation={response.generation_id}", f"leader={name(response.leader)}", f"members={members}"]


def _sync_fields(call: Call, _name: _Name) -> list[str]:
    return [f"assignment={_text(owned_in(call.response.assignment)) or '-'}"] if call.error is ErrorCode.NONE else []


def _fetch_fields(call: Call, _name: _Name) -> list[str]:
    response = call.response
    topics = response.groups[0].topics if call.asked.version >= 8 else response.topics
    return [f"{topic.name}-{p.partition_index}={p.committed_offset}" for topic in topics for p in topic.partitions]


def _describe_fields(call: Call, _name: _Name) -> list[str]:
    return [f"{group.group_id}={group.group_state}" for group in call.response.groups]


_FIELDS: dict[str, Callable[[Call, _Name], list[str]]] = {
    "join": _join_fields,
    "sync": _sync_fields,
    "fetch": _fetch_fields,
    "describe": _describe_fields,
}


def _text(value: Any) -> str:
    """A detail in few words; nothing for what is empty."""
    match value:
        case dict():
            return ",".join(f"{_text(key)}={_text(one)}" for key, one in value.items())
        case (str() as topic, int() as partition):
            return f"{topic}-{partition}"
        case tuple():
            return ",".join(map(_text, value))
        case None:
            return "-"
        case -1:
            return ""
        case _:
            return str(value)
