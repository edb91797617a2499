"""Plays scenarios on the coordinator itself, in virtual time; replies, transitions and records are judged."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kshim.coordinator.coordinator import GroupCoordinator
from kshim.coordinator.events import Transition
from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.answers import observe
from kshim.tools.scenario.model import Outcome, Scenario, Step
from kshim.tools.scenario.requests import build_request
from kshim.tools.scenario.verdict import Mismatch, judge
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.harness import a_node
from tests.coordinator.harness import Call, Sim, topic_id
from tests.scenarios.written import judge_writes

__all__ = ["play"]


def play(scenario: Scenario) -> None:
    """Run one scenario. Raises Mismatch where the coordinator does not do as it says."""
    player = _Player(scenario)
    for step in scenario.steps:
        player.play(step)


class World(Sim):
    """A coordinator whose member ids look as they do in production."""

    def _new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(self.config, topics=self.topics, new_id=lambda: str(UUID(int=next(self._numbers))))


class _Player:
    def __init__(self, scenario: Scenario) -> None:
        self.cast = Cast(scenario, "0")
        config = {key.replace(".", "_"): int(value) for key, value in scenario.config.items()}
        topics = {self.cast.topic(name): count for name, count in scenario.topics.items()}
        self.sim = World(topics, **config)
        self.cast.topic_ids |= {name: topic_id(name) for name in topics}
        self.lives = list(topics)  # one entry for each time a topic was made
        self.parked: dict[str, tuple[Step, Call[Any]]] = {}

    def play(self, step: Step) -> None:
        events, batches = len(self.sim.events), {index: len(log) for index, log in self.sim.logs.items()}
        self._act(step)
        self.sim.pass_ms(0)  # what is due at once happens before anybody's next request
        self._released(step)
        self._judge_transitions(step, events)
        judge_writes(step, self.cast, self.sim, batches)

    def _act(self, step: Step) -> None:
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
                sim.apply(sim.coordinator.topics_deleted(names, sim.now))
            case "fail-next-append":
                sim.fail_appends(ErrorCode[step.words[0]])
            case "restart" | "reload":
                self.parked.clear()
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
                self._request(step)

    @property
    def _partition(self) -> int:
        return self.sim.coordinator.partition_for("conform-0")

    def _create_topic(self, name: str, count: int) -> None:
        life = sum(1 for written in self.lives if written == name)
        self.lives.append(name)
        self.sim.topics.topics[name] = (count, life)
        self.cast.topic_ids[name] = topic_id(name, life)

    def _request(self, step: Step) -> None:
        request, version = build_request(step, self.cast)
        expected = step.expectation.own
        assert expected is not None
        if isinstance(request, FindCoordinatorRequest):  # the broker answers that one, not the coordinator
            judge(step, "", expected, observe(step, a_node().client().ask(request, version), version, self.cast))
            return
        name = step.actor or "admin"
        call = self.sim.send(request, version, client_id=f"conform-{name}")
        seen = self._seen(step, call)
        if not expected.is_parked:
            judge(step, "", expected, seen)
        elif seen is not None:
            raise Mismatch(step, "parked", seen)
        else:
            self.parked[name] = (step, call)

    def _seen(self, asked: Step, call: Call[Any]) -> Outcome | None:
        return None if call.is_parked else observe(asked, call.reply, call.version, self.cast)

    def _released(self, step: Step) -> None:
        for name, expected in step.expectation.released.items():
            if name not in self.parked:
                raise Mismatch(step, f"{name}: {expected}", f"{name} has nothing parked")
            asked, call = self.parked.pop(name)
            judge(step, name, expected, self._seen(asked, call))
        for name, (asked, call) in self.parked.items():
            seen = self._seen(asked, call)
            if seen is not None:
                raise Mismatch(step, f"{name} stays parked", f"{name}: {seen}")

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
