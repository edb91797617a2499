"""Plays scenarios about share and streams groups on a whole node, in virtual time: their APIs are not the coordinator's alone."""

from __future__ import annotations

from typing import Any, NamedTuple

from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.answers import observe
from kshim.tools.scenario.model import Outcome, Scenario, Step
from kshim.tools.scenario.requests import build_request
from kshim.tools.scenario.setting import FEATURES
from kshim.tools.scenario.verdict import Mismatch, judge
from tests.broker.harness import Client, a_node

LIMIT_MS = 5_000
"""How long an answer may take that is not parked; over the wire it is the same."""
TURN_MS = 10


def needs_a_node(scenario: Scenario) -> bool:
    """Whether a scenario asks of share or streams groups."""
    return any(FEATURES.get(step.verb, "group.version") != "group.version" for step in scenario.steps)


def play(scenario: Scenario) -> None:
    """Run one scenario. Raises Mismatch where the node does not do as it says."""
    player = _Player(scenario)
    try:
        for step in scenario.steps:
            player.play(step)
    finally:
        player.node.close()


class _Asked(NamedTuple):
    step: Step
    version: int
    client: Client


class _Player:
    def __init__(self, scenario: Scenario) -> None:
        self.cast = Cast(scenario, "0")
        self.node = a_node(scenario.config)
        for name, partitions in scenario.topics.items():
            self._create_topic(name, partitions)
        self.clients: dict[str, Client] = {}
        self.parked: dict[str, _Asked] = {}

    def _create_topic(self, name: str, partitions: int) -> None:
        real = self.cast.topic(name)
        self.cast.topic_ids[real] = self.node.topic(real, partitions).topic_id

    def _delete_topic(self, real: str) -> None:
        topic = self.node.cluster.topics.named(real)
        assert topic is not None
        self.node.cluster.delete_topic(topic, self.node.now)
        del self.cast.topic_ids[real]

    def play(self, step: Step) -> None:
        own: _Asked | None = None
        match step.verb:
            case "advance":
                self.node.pass_ms(int(step.words[0]))
            case "is":
                self.cast.alias(step.actor, step.words[0])
            case "close":
                self.clients.pop(step.actor).close()
                self.parked.pop(step.actor, None)
            case "create-topic":
                self._create_topic(step.words[0], int(step.words[1]) if len(step.words) > 1 else 1)
            case "delete-topic":
                for name in step.words:
                    self._delete_topic(self.cast.topic(name))
            case _:
                own = self._request(step)
        self.node.run_background_tasks()
        self.node.pass_ms(0)  # what is due at once happens before anybody's next request
        self._judge(step, own)

    def _request(self, step: Step) -> _Asked:
        request, version = build_request(step, self.cast)
        name = step.actor or "admin"
        client = self.clients.get(name) or self.node.client(f"conform-{name}")
        self.clients[name] = client
        client.send(request, version)
        return _Asked(step, version, client)

    def _judge(self, step: Step, own: _Asked | None) -> None:
        wanted: list[tuple[str, _Asked, Outcome]] = []
        expected = step.expectation.own
        if own is not None and expected is not None:
            if expected.is_parked:
                self.parked[step.actor] = own
            else:
                wanted.append(("", own, expected))
        for name, outcome in step.expectation.released.items():
            if name not in self.parked:
                raise Mismatch(step, f"{name}: {outcome}", f"{name} has nothing parked")
            wanted.append((name, self.parked.pop(name), outcome))
        seen = [(who, outcome, self._answer(asked)) for who, asked, outcome in wanted]
        for who, outcome, found in seen:
            judge(step, who, outcome, found)
        for name, asked in self.parked.items():
            if asked.client.unread:
                raise Mismatch(step, f"{name} stays parked", f"{name}: {self._answer(asked)}")

    def _answer(self, asked: _Asked) -> Outcome | None:
        """None: it does not come in time."""
        for _ in range(0, LIMIT_MS, TURN_MS):
            if asked.client.unread:
                response: Any = asked.client.unread.popleft()
                return observe(asked.step, response, asked.version, self.cast)
            self.node.pass_ms(TURN_MS)
            self.node.run_background_tasks()
        return None
