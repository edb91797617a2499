"""From the text of a scenario file to a `Scenario`."""

from __future__ import annotations

import re
import shlex

from kshim.tools.scenario.model import Expectation, Outcome, Scenario, ScenarioError, Step, Transition, Writes

HEADER_KEYS = ("suite", "rules", "config", "topics", "topology", "run", "differs")
VIRTUAL_ONLY = frozenset({"fail-next-append", "restart", "reload", "reloaded", "unload"})
ACTORLESS = VIRTUAL_ONLY | {
    "advance", "describe", "list", "delete", "delete-topic", "create-topic", "consumer-describe", "configure",
    "produce", "share-describe", "share-offsets", "share-alter-offsets", "share-delete-offsets", "streams-describe",
}  # fmt: skip
VERBS = ACTORLESS | {
    "join", "sync", "heartbeat", "leave", "commit", "fetch", "offset-delete", "find-coordinator", "close",
    "consumer-heartbeat", "share-heartbeat", "share-fetch", "share-acknowledge", "streams-heartbeat",
}  # fmt: skip
RECORD_KINDS = ("nothing", "group-metadata", "group-tombstone", "offset", "offset-tombstone")
ASKS_NOTHING = VIRTUAL_ONLY | {"advance", "delete-topic", "create-topic", "close"}
_HEADER = re.compile(r"^([a-z]+):(?: (.*))?$")
_DURATION = re.compile(r"^wire (\d+(?:\.\d+)?)s$")
_RELEASE = re.compile(r"^([a-z][a-z0-9]*): (.*)$")


def parse_scenario(name: str, text: str) -> Scenario:
    """Read one file. Raises ScenarioError with `name` and the line."""
    return _Parser(name).parse(text)


def parse_step(line: str) -> Step:
    """Read one step. Raises ScenarioError."""
    return _Parser("step").step(line)


class _Parser:
    def __init__(self, name: str) -> None:
        self.name = name
        self.line = 0
        self.title: list[str] = []
        self.header: dict[str, str] = {}
        self.steps: list[Step] = []

    def fail(self, reason: str) -> ScenarioError:
        return ScenarioError(f"{self.name}:{self.line}: {reason}")

    def parse(self, text: str) -> Scenario:
        for self.line, raw in enumerate(text.splitlines(), start=1):
            line = raw.rstrip()
            if not line.strip():
                continue
            if line.startswith("#"):
                if not self.steps:
                    self.title.append(line.lstrip("# "))
            elif line[0] in " \t":
                self.detail(line.strip())
            elif not self.steps and (match := _HEADER.match(line)) and match[1] in HEADER_KEYS:
                self.header[match[1]] = match[2] or ""
            else:
                self.steps.append(self.step(line))
        return self.scenario()

    def scenario(self) -> Scenario:
        for key in ("suite", "rules", "run"):
            if not self.header.get(key):
                raise self.fail(f"the header lacks `{key}:`")
        if not self.title or not self.steps:
            raise self.fail("a scenario has a title (# ...) and steps")
        run = self.header["run"]
        match = _DURATION.match(run)
        if run != "virtual" and match is None:
            raise self.fail(f"run: `virtual` or `wire 2s`, not {run!r}")
        if match is not None:
            for step in self.steps:
                if step.verb in VIRTUAL_ONLY:
                    self.line = step.line
                    raise self.fail(f"{step.verb} cannot be asked of a broker; say `run: virtual`")
        return Scenario(
            name=self.name,
            title=self.title[0],
            suite=self.header["suite"],
            rules=tuple(self.header["rules"].split()),
            config=self.pairs(self.header.get("config", ""), "="),
            topics={topic: int(count) for topic, count in self.pairs(self.header.get("topics", ""), ":").items()},
            topology=self.header.get("topology", ""),
            limit_ms=None if match is None else round(float(match[1]) * 1000),
            differs=self.header.get("differs", ""),
            steps=self.steps,
        )

    def pairs(self, text: str, separator: str) -> dict[str, str]:
        found = {}
        for word in text.split():
            key, mark, value = word.partition(separator)
            if not mark:
                raise self.fail(f"{word!r} is no KEY{separator}VALUE")
            found[key] = value
        return found

    def step(self, line: str) -> Step:
        request, arrow, expected = line.partition("->")
        words, options = self.options(request)
        if len(words) == 3 and words[1] == "is" and not arrow:
            return Step(self.line, line.strip(), "is", words[0], (words[2],), {}, Expectation(None, {}), [], [])
        if not words or words[0] not in VERBS:
            raise self.fail(f"unknown verb in {line!r}")
        verb, *rest = words
        actor = ""
        if verb not in ACTORLESS:
            if not rest:
                raise self.fail(f"{verb} needs an actor")
            actor, *rest = rest
        expectation = self.expectation(expected.strip() if arrow else "")
        if (expectation.own is None) != (verb in ASKS_NOTHING):
            raise self.fail(f"{verb} {'is not answered' if expectation.own else 'needs an answer: -> ...'}")
        return Step(self.line, line.strip(), verb, actor, tuple(rest), options, expectation, [], [])

    def options(self, text: str) -> tuple[list[str], dict[str, str]]:
        try:
            parts = shlex.split(text)
        except ValueError as error:
            raise self.fail(str(error)) from None
        words: list[str] = []
        options: dict[str, str] = {}
        for part in parts:
            key, mark, value = part.partition("=")
            if mark:
                options[key] = value
            else:
                words.append(part)
        return words, options

    def expectation(self, text: str) -> Expectation:
        own: Outcome | None = None
        released: dict[str, Outcome] = {}
        for i, part in enumerate(filter(None, (part.strip() for part in text.split("|")))):
            match = _RELEASE.match(part)
            if match is not None:
                released[match[1]] = self.outcome(match[2])
            elif i == 0:
                own = self.outcome(part)
            else:
                raise self.fail(f"{part!r} names no actor")
        return Expectation(own, released)

    def outcome(self, text: str) -> Outcome:
        words, fields = self.options(text)
        if len(words) != 1:
            raise self.fail(f"an outcome is `parked` or ERROR field=value..., not {text!r}")
        return Outcome(words[0], fields)

    def detail(self, text: str) -> None:
        if not self.steps:
            raise self.fail("an indented line belongs below a step")
        if text.startswith("writes "):
            words, fields = self.options(text)
            if len(words) == 3 and words[1] == "offset-tombstone":
                fields["at"] = words.pop()
            if len(words) != 2 or words[1] not in RECORD_KINDS:
                raise self.fail(f"writes KIND field=value..., not {text!r}")
            self.steps[-1].writes.append(Writes(words[1], fields))
            return
        states = [state.strip() for state in text.split("->")]
        last, *why = states[-1].split()
        if len(states) < 2 or len(why) > 2:
            raise self.fail(f"neither `A -> B  cause actor` nor `writes ...`: {text!r}")
        cause, actor = (*why, "", "")[:2]
        self.steps[-1].transitions.append(Transition((*states[:-1], last), cause, actor))
