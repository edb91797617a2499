"""Plays scenarios on the coordinator itself, in virtual time; replies, transitions and records are judged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kshim.broker.regular_expressions import require_topic_expression
from kshim.config.group_settings import GroupSettings
from kshim.coordinator.groups.config import GroupConfig
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.groups.events import Transition
from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.answers import observe
from kshim.tools.scenario.model import Outcome, Scenario, Step
from kshim.tools.scenario.requests import build_request
from kshim.tools.scenario.verdict import Mismatch, judge
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.broker.harness import NodeUnderTest, a_node
from tests.coordinator.harness import Call, Sim, topic_id
from tests.transcripts.written import judge_writes


def play(scenario: Scenario) -> None:
    """Run one scenario. Raises Mismatch where the coordinator does not do as it says."""
    player = _Player(scenario)
    for step in scenario.steps:
        player.play(step)


class World(Sim):
    """A coordinator whose member ids look as they do in production; `node` keeps the configurations of groups."""

    def __init__(self, topics: Mapping[str, int], node: NodeUnderTest, **config: Any) -> None:
        self.node = node
        self.settings = GroupSettings(node.cluster.config, node.cluster.dynamic_configs)
        super().__init__(topics, **config)

    def _new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config,
            topics=self.topics,
            new_id=lambda: str(UUID(int=next(self._numbers))),
            require_expression=require_topic_expression,
            settings_of=self.settings.of_consumers,
        )


class _Player:
    def __init__(self, scenario: Scenario) -> None:
        self.cast = Cast(scenario, "0")
        names = {key.replace(".", "_"): value for key, value in scenario.config.items()}
        config = {name: int(value) for name, value in names.items() if name in GroupConfig.__annotations__}
        topics = {self.cast.topic(name): count for name, count in scenario.topics.items()}
        self.sim = World(topics, a_node(scenario.config), **config)
        self.cast.topic_ids |= {name: topic_id(name) for name in topics}
        self.lives = list(topics)  # one entry for each time a topic was made
        self.parked: dict[str, tuple[Step, Call[Any]]] = {}

    def play(self, step: Step) -> None:
        events, batches = len(self.sim.events), {index: len(log) for index, log in self.sim.logs.items()}
        own = self._act(step)
        self._resolve_expressions()
        self.sim.pass_ms(0)  # what is due at once happens before anybody's next request
        self._judge_answers(step, own)
        self._judge_transitions(step, events)
        judge_writes(step, self.cast, self.sim, batches)

    def _resolve_expressions(self) -> None:
        """What the broker does aside; these expressions mean the same to Python."""
        lookups, self.sim.lookups = self.sim.lookups, []
        for lookup in lookups:
            found = {
                expression: frozenset(name for name in self.sim.topics.topics if re.fullmatch(expression, name))
                for expression in lookup.expressions
            }
            self.sim.apply(self.sim.coordinator.expressions_resolved(lookup, found))

    def _act(self, step: Step) -> Outcome | Call[Any] | None:
        """Do what the step says; the call it makes, or what it was answered by something else."""
        sim = self.sim
        match step.verb:
            case "advance":
                sim.pass_ms(int(step.words[0]))
            case "is":
                self.cast.alias(step.actor, step.words[0])
            case "close":
                self.parked.pop(step.actor, None)
            case "create-topic":
                self._create_topic(self.cast.topic(step.words[0]), int(step.words[1]) if len(step.words) > 1 else 1)
            case "delete-topic":
                names = [self.cast.topic(name) for name in step.words]
                for name in names:
                    del sim.topics.topics[name]
                    del self.cast.topic_ids[name]
                for forgetting in sim.coordinator.topics_deleted(names, sim.now):
                    sim.apply(forgetting)
            case "fail-next-append":
                sim.fail_appends(ErrorCode[step.words[0]])
            case "restart" | "reload":
                self.parked.clear()
                for key, value in step.options.items():
                    setattr(sim.config, key.replace(".", "_"), int(value))
                sim.restart()
                if step.verb == "reload":  # the load that follows does not end before `reloaded`
                    sim.apply(sim.coordinator.unload(self._partition))
                    sim.coordinator.begin_load(self._partition)
            case "reloaded":
                sim.coordinator.replay(self._partition, sim.logs.get(self._partition, []))
                sim.apply(sim.coordinator.finish_load(self._partition, sim.now))
            case "unload":
                sim.apply(sim.coordinator.unload(self._partition))
            case _:
                return self._request(step)
        return None

    @property
    def _partition(self) -> int:
        return self.sim.coordinator.partition_for("conform-0")

    def _create_topic(self, name: str, count: int) -> None:
        life = sum(1 for written in self.lives if written == name)
        self.lives.append(name)
        self.sim.topics.topics[name] = (count, life)
        self.cast.topic_ids[name] = topic_id(name, life)

    def _request(self, step: Step) -> Outcome | Call[Any]:
        request, version = build_request(step, self.cast)
        if isinstance(request, FindCoordinatorRequest | IncrementalAlterConfigsRequest):  # not for the coordinator
            return observe(step, self.sim.node.client().ask(request, version), version, self.cast)
        return self.sim.send(request, version, client_id=f"conform-{step.actor or 'admin'}")

    def _judge_answers(self, step: Step, own: Outcome | Call[Any] | None) -> None:
        expected = step.expectation.own
        if isinstance(own, Outcome):
            assert expected is not None
            judge(step, "", expected, own)
        elif own is not None:
            self.parked[step.actor or "admin"] = (step, own)
        wanted = dict(step.expectation.released)
        if expected is not None and not expected.is_parked and isinstance(own, Call):
            wanted[step.actor or "admin"] = expected
        for name in wanted.keys() - self.parked.keys():
            raise Mismatch(step, f"{name}: {wanted[name]}", f"{name} has nothing parked")
        for asked, call in self.parked.values():  # ids are learned from every answer before any is judged
            self._seen(asked, call)
        for name, (asked, call) in list(self.parked.items()):
            seen = self._seen(asked, call)
            if name in wanted:
                del self.parked[name]
                judge(step, "" if name == (step.actor or "admin") else name, wanted[name], seen)
            elif seen is not None:
                raise Mismatch(step, f"{name} stays parked", f"{name}: {seen}")

    def _seen(self, asked: Step, call: Call[Any]) -> Outcome | None:
        return None if call.is_parked else observe(asked, call.reply, call.version, self.cast)

    def _judge_transitions(self, step: Step, seen_before: int) -> None:
        if not step.transitions:
            return
        events = [event for event in self.sim.events[seen_before:] if isinstance(event, Transition)]
        shown = "; ".join(f"{event.previous} -> {event.new} {event.cause} {self._member(event)}" for event in events)
        for expected in step.transitions:
            own, events = events[: len(expected.states) - 1], events[len(expected.states) - 1 :]
            states = tuple(str(event.previous) for event in own[:1]) + tuple(str(event.new) for event in own)
            is_cause = not expected.cause or (bool(own) and str(own[0].cause) == expected.cause)
            is_member = not expected.actor or (bool(own) and self._member(own[0]) == expected.actor)
            if states != expected.states or not is_cause or not is_member:
                text = f"{' -> '.join(expected.states)} {expected.cause} {expected.actor}"
                raise Mismatch(step, text, shown or "no transition")
        if events:
            raise Mismatch(step, "no further transitions", shown)

    def _member(self, event: Transition) -> str:
        return "-" if event.member is None else self.cast.name_of(event.member.member_id)
