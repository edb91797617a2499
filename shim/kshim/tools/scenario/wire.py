"""Plays scenarios against any broker over its sockets; only answers are judged."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kshim.tools.client import PLAINTEXT, BrokerGone, Client
from kshim.tools.client_security import Security
from kshim.tools.report import Verdict
from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.answers import observe
from kshim.tools.scenario.model import Outcome, Scenario, ScenarioError, Step
from kshim.tools.scenario.options import is_partition
from kshim.tools.scenario.requests import Unsupported, build_request
from kshim.tools.scenario.setting import Address, Setting
from kshim.tools.scenario.verdict import Failure, Mismatch, Result, judge
from kshim_protocol.frame import ProtocolError

ANSWER_S = 5.0
"""How long an answer may take; more than the longest initial rebalance delay in use."""
PARKED_S = 0.15
"""How long a request must stay unanswered to count as parked."""
ADVANCE_SLACK_MS = 1_500
JOIN_GROUP = 11
TO_LEADERS = frozenset({"produce", "share-fetch", "share-acknowledge"})
FIRST_WITH_IDS = 4


def play(
    scenario: Scenario,
    host: str,
    port: int,
    *,
    assume: Mapping[str, str] | None = None,
    caps: Mapping[int, int] | None = None,
    is_kshim: bool = False,
    advance: Callable[[float], object] | None = None,
    security: Security = PLAINTEXT,
) -> Result:
    """Run one scenario. Never raises for what the broker does.

    `advance` moves the broker's clock ahead, by seconds; None: time is waited for.

    `assume` is configuration to take for granted, for brokers that do not report theirs. `is_kshim` also plays what
    only kshim is held to. `caps` is the newest version to speak of an API (by key), where the broker's own word is no use.
    """
    started = time.monotonic()

    def result(
        verdict: Verdict, reason: str = "", failure: Failure | None = None, missing: tuple[str, ...] = ()
    ) -> Result:
        return Result(scenario, verdict, time.monotonic() - started, reason, failure, missing)

    if scenario.limit_ms is None:
        return result(Verdict.SKIPPED, "runs in virtual time only")
    if scenario.differs and not is_kshim:
        return result(Verdict.SKIPPED, f"kshim differs from Kafka on purpose: {scenario.differs}")
    try:
        player = _Player(scenario, host, port, assume or {}, caps or {}, advance, security)
    except BrokerGone as error:
        return result(Verdict.FAILED, failure=Failure(0, "connect", "a connection", str(error), ()))
    try:
        player.play_all()
    except Unsupported as unsupported:
        return result(Verdict.SKIPPED, str(unsupported), missing=unsupported.missing)
    except Mismatch as mismatch:
        return result(Verdict.FAILED, failure=mismatch.failure)
    except (BrokerGone, TimeoutError, ProtocolError, OSError, ScenarioError) as error:
        seen = f"{type(error).__name__}: {error}"
        at = player.step
        line, text = (at.line, at.text) if at else (0, "prepare")
        return result(Verdict.FAILED, failure=Failure(line, text, "an answer", seen, ()))
    finally:
        player.close()
    return result(Verdict.PASSED)


class _Asked(NamedTuple):
    """A request on its way: the step it stands in, its version, the connection it went over."""

    step: Step
    version: int
    client: Client


class _Answer(NamedTuple):
    """An answer to `asked`, and what `who` ("" for the actor of the step) was to get."""

    who: str
    asked: _Asked
    expected: Outcome
    response: Any

    def outcome(self, cast: Cast) -> Outcome:
        """What a file would say of it."""
        return observe(self.asked.step, self.response, self.asked.version, cast)


class _Player:
    def __init__(
        self,
        scenario: Scenario,
        host: str,
        port: int,
        assume: Mapping[str, str],
        caps: Mapping[int, int],
        advance: Callable[[float], object] | None,
        security: Security,
    ) -> None:
        self.scenario = scenario
        self.advance = advance
        self.cast = Cast(scenario, secrets.token_hex(4))
        self.setting = Setting((host, port), self.cast, assume, caps, security)
        self.clients: dict[str, dict[Address, Client]] = {}
        self.parked: dict[str, _Asked] = {}
        self.step: Step | None = None

    def close(self) -> None:
        self.setting.close()
        for name in list(self.clients):
            self._close(name)

    def _close(self, name: str) -> None:
        for client in self.clients.pop(name, {}).values():
            client.close()
        self.parked.pop(name, None)

    def _client(self, name: str, home: Address) -> Client:
        """The connection of an actor ("" for none) to a broker."""
        if not name:
            return self.setting.at(home)
        connections = self.clients.setdefault(name, {})
        if home not in connections:
            connections[home] = Client(*home, client_id=f"conform-{name}", security=self.setting.security)
        return connections[home]

    def _home(self, step: Step) -> Address:
        """The coordinator of the group; for records the leader of the first partition named that exists, else of the first topic."""
        if step.verb not in TO_LEADERS:
            return self.setting.home(self.cast.group_id(step))
        named = [*filter(is_partition, (*step.options, *step.words)), f"{next(iter(self.scenario.topics))}-0"]
        return self.setting.leader(named)

    def play_all(self) -> None:
        self.setting.prepare(self.scenario)
        for step in self.scenario.steps:
            self.step = step
            self._play(step)
        self._still_parked(self.scenario.steps[-1], PARKED_S)

    def _play(self, step: Step) -> None:
        limit_s = ANSWER_S
        own: list[_Answer] = []
        match step.verb:
            case "advance" if self.advance is not None:
                self.advance(int(step.words[0]) / 1000)
            case "advance":
                limit_s = (int(step.words[0]) + ADVANCE_SLACK_MS) / 1000
                if not step.expectation.released:
                    time.sleep(int(step.words[0]) / 1000)
            case "is":
                self.cast.alias(step.actor, step.words[0])
            case "close":
                self._close(step.actor)
            case "create-topic":
                self.setting.create_topics({step.words[0]: int(step.words[1]) if len(step.words) > 1 else 1})
            case "delete-topic":
                self.setting.delete_topics(step.words)
            case "join" if self._needs_no_id(step):
                pass
            case _:
                own = self._request(step)
        answers = own + self._released(step, limit_s)
        for answer in answers:  # ids are learned from every answer before any is judged
            answer.outcome(self.cast)
        for answer in answers:
            judge(step, answer.who, answer.expected, answer.outcome(self.cast))
        self._still_parked(step, 0)

    def _still_parked(self, step: Step, wait_s: float) -> None:
        """Check that no unexpected response has arrived; one that is in transit is found at a later step."""
        for name, parked in self.parked.items():
            response = parked.client.receive(wait_s)
            if response is not None:
                seen = observe(parked.step, response, parked.version, self.cast)
                raise Mismatch(step, f"{name} stays parked", f"{name}: {seen}")

    def _needs_no_id(self, step: Step) -> bool:
        """Whether a Join that expects MEMBER_ID_REQUIRED can be omitted: before v4 no member id is needed to join.

        Raises Unsupported when the actor does something else with that id than to join.
        """
        expected = step.expectation.own
        if expected is None or expected.error != "MEMBER_ID_REQUIRED" or "v" in step.options:
            return False
        assert self.cast.max_versions is not None
        if self.cast.max_versions.get(JOIN_GROUP, 0) >= FIRST_WITH_IDS:
            return False
        later = [other for other in self.scenario.steps if other.actor == step.actor and other.line > step.line]
        following = later[0].expectation.own if later and later[0].verb == "join" else None
        if following is None or following.error not in ("NONE", "parked"):
            raise Unsupported(f"needs JoinGroup v{FIRST_WITH_IDS}")
        return True

    def _request(self, step: Step) -> list[_Answer]:
        request, version = build_request(step, self.cast)
        client = self._client(step.actor, self._home(step))
        client.send(request, version)
        expected = step.expectation.own
        assert expected is not None
        asked = _Asked(step, version, client)
        if expected.is_parked:
            response = client.receive(PARKED_S)
            if response is not None:
                raise Mismatch(step, "parked", observe(step, response, version, self.cast))
            self.parked[step.actor] = asked
            return []
        return [_Answer("", asked, expected, self._receive(step, "", client, expected, ANSWER_S))]

    def _released(self, step: Step, limit_s: float) -> list[_Answer]:
        answers = []
        for name, expected in step.expectation.released.items():
            asked = self.parked.pop(name, None)
            if asked is None:
                raise Mismatch(step, f"{name}: {expected}", f"{name} has nothing parked")
            response = self._receive(step, name, asked.client, expected, limit_s)
            answers.append(_Answer(name, asked, expected, response))
        return answers

    def _receive(self, step: Step, who: str, client: Client, expected: Outcome, limit_s: float) -> Any:
        response = client.receive(limit_s)
        if response is None:
            judge(step, who, expected, None)
        return response
