"""Plays scenarios against any broker over its sockets; only answers are judged."""

from __future__ import annotations

import secrets
import time
from enum import Enum
from typing import Any, NamedTuple

from kshim.tools.client import BrokerGone, Client
from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.answers import differences, observe
from kshim.tools.scenario.model import Outcome, Scenario, Step
from kshim.tools.scenario.requests import build_request
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest
from kshim_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest

__all__ = ["Result", "Verdict", "play"]

ANSWER_S = 5.0
PARKED_S = 0.15
"""How long a request must stay unanswered to count as parked."""
ADVANCE_SLACK_MS = 1_500
BROKER_RESOURCE = 4
COORDINATOR_RETRIES = 100
COORDINATOR_ERRORS = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


class Verdict(Enum):
    """How a scenario ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Result(NamedTuple):
    """Verdict with what was expected and seen, or why it was skipped; `seconds` it took."""

    scenario: Scenario
    verdict: Verdict
    detail: str
    seconds: float


class Mismatch(Exception):
    """A step did not go as the file says."""


def play(scenario: Scenario, host: str, port: int) -> Result:
    """Run one scenario. Never raises for what the broker does."""
    started = time.monotonic()

    def result(verdict: Verdict, detail: str) -> Result:
        return Result(scenario, verdict, detail, time.monotonic() - started)

    if scenario.limit_ms is None:
        return result(Verdict.SKIPPED, "runs in virtual time only")
    player = _Player(scenario, host, port)
    try:
        reason = player.prepare()
        if reason is not None:
            return result(Verdict.SKIPPED, reason)
        for step in scenario.steps:
            player.play(step)
    except Mismatch as mismatch:
        return result(Verdict.FAILED, str(mismatch))
    except (BrokerGone, TimeoutError, ProtocolError, OSError) as error:
        return result(Verdict.FAILED, f"{type(error).__name__}: {error}")
    finally:
        player.close()
    return result(Verdict.PASSED, "")


class _Player:
    def __init__(self, scenario: Scenario, host: str, port: int) -> None:
        self.scenario = scenario
        self.address = (host, port)
        self.cast = Cast(scenario, secrets.token_hex(4))
        self.admin = self._connect("conform")
        self.clients: dict[str, Client] = {}
        self.parked: dict[str, tuple[Step, int]] = {}

    def _connect(self, client_id: str) -> Client:
        return Client(*self.address, client_id=client_id)

    def close(self) -> None:
        for client in (self.admin, *self.clients.values()):
            client.close()

    def prepare(self) -> str | None:
        """Find the coordinator, check the configuration, make topics. Returns why the scenario cannot run here."""
        group_id = f"conform-{self.cast.unique}"
        for _ in range(COORDINATOR_RETRIES):
            found = self.admin.ask(FindCoordinatorRequest(key=group_id, key_type=0), 2)
            error = found.error_code
            if error == ErrorCode.NONE:
                described = self.admin.ask(DescribeGroupsRequest(groups=(group_id,)), 0)
                error = described.groups[0].error_code
            if error not in COORDINATOR_ERRORS:
                break
            time.sleep(0.1)
        else:
            return f"no coordinator: {ErrorCode(error).name}"
        reason = self._misfit(found.node_id)
        if reason is None and self.scenario.topics:
            self._create_topics(self.scenario.topics)
        return reason

    def _misfit(self, node_id: int) -> str | None:
        wanted = self.scenario.config
        if not wanted:
            return None
        resource = DescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=tuple(wanted)
        )
        answer = self.admin.ask(DescribeConfigsRequest(resources=(resource,)), 4)
        values = {config.name: config.value for config in answer.results[0].configs}
        for key, value in wanted.items():
            if values.get(key) != value:
                return f"needs {key}={value}, the broker has {values.get(key)}"
        return None

    def _create_topics(self, topics: dict[str, int]) -> None:
        request = CreateTopicsRequest(
            topics=tuple(
                CreatableTopic(
                    name=self.cast.topic(name), num_partitions=count, replication_factor=1, assignments=(), configs=()
                )
                for name, count in topics.items()
            ),
            timeout_ms=10_000,
        )
        for made in self.admin.ask(request, 5).topics:
            if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise Mismatch(f"creating topic {made.name}: {ErrorCode(made.error_code).name}")

    # Steps

    def play(self, step: Step) -> None:
        limit_s = ANSWER_S
        match step.verb:
            case "advance":
                limit_s = (int(step.words[0]) + ADVANCE_SLACK_MS) / 1000
                if not step.expectation.released:
                    time.sleep(int(step.words[0]) / 1000)
            case "close":
                self.clients.pop(step.actor).close()
                self.parked.pop(step.actor, None)
            case "create-topic":
                self._create_topics({step.words[0]: int(step.words[1]) if len(step.words) > 1 else 1})
            case "delete-topic":
                names = tuple(self.cast.topic(name) for name in step.words)
                self.admin.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), 4)
            case _:
                self._request(step)
        self._released(step, limit_s)

    def _request(self, step: Step) -> None:
        request, version = build_request(step, self.cast)
        name = step.actor or "admin"
        client = self.admin if not step.actor else self.clients.get(name)
        if client is None:
            client = self.clients[name] = self._connect(f"conform-{name}")
        client.send(request, version)
        expected = step.expectation.own
        assert expected is not None, f"line {step.line}: what should the answer be?"
        if expected.is_parked:
            response = client.receive(PARKED_S)
            if response is not None:
                seen = observe(step, response, version, self.cast)
                raise Mismatch(f"line {step.line}: {step.text}\n  expected: parked\n  seen: {seen}")
            self.parked[name] = (step, version)
            return
        self._judge(step, step, version, expected, client.receive(ANSWER_S))

    def _released(self, step: Step, limit_s: float) -> None:
        for name, expected in step.expectation.released.items():
            if name not in self.parked:
                raise Mismatch(f"line {step.line}: {name} has no parked request")
            asked, version = self.parked.pop(name)
            self._judge(step, asked, version, expected, self.clients[name].receive(limit_s))
        for name in self.parked:
            if self.clients[name].receive(0) is not None:
                raise Mismatch(f"line {step.line}: {step.text}\n  expected: {name} stays parked\n  seen: an answer")

    def _judge(self, step: Step, asked: Step, version: int, expected: Outcome, response: Any) -> None:
        if response is None:
            raise Mismatch(f"line {step.line}: {step.text}\n  expected: {expected}\n  seen: no answer")
        seen = observe(asked, response, version, self.cast)
        found = differences(expected, seen)
        if found:
            raise Mismatch(
                f"line {step.line}: {step.text}\n  expected: {expected}\n  seen: {seen}\n  " + "; ".join(found)
            )
