"""Writes the groups of a recording as a scenario file (`docs/design/scenarios.md`): a test of what happened to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from string import ascii_lowercase
from typing import Any, Final, NamedTuple

from kshim.config.broker_config import BrokerConfig
from kshim.coordinator.groups.config import GroupConfig
from kshim.recording.format import Entry, Kind
from kshim.replay.messages import Asked, parse_answer, parse_request
from kshim.replay.player import Turn
from kshim.replay.scenario_steps import VERBS, Steps, Unsayable, group_of, text_of
from kshim.tools.scenario.model import Outcome, Step
from kshim.wording import counted
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError

MIN_ADVANCE_MS: Final = 10
"""Shorter times are added to the next."""
SLACK_MS: Final = 10_000
CREATE_TOPICS: Final = 19
MAX_NOTES: Final = 200


class WrittenScenario(NamedTuple):
    """`text` is the file; `notes` says what of the recording is not in it, a sentence each."""

    text: str
    notes: list[str]
    step_count: int


class _Line(NamedTuple):
    """A step as it will be written, at its time; `is_idle`: a heartbeat that only keeps its member's session."""

    at_ms: int
    words: str
    own: str
    released: list[str]
    actor: str
    session_ms: int
    is_idle: bool


class _Parked(NamedTuple):
    actor: str
    step: Step
    asked: Asked
    line: int


class ScenarioWriter:
    """Give `add` each turn of a recording, in order. `group_id`: only this group; None: all."""

    def __init__(self, start: Entry, group_id: str | None = None) -> None:
        self._fields = start.fields
        self._began_ms = start.now.mono_ms
        self._began_wall_ms = start.now.wall_ms
        self._group_id = group_id
        self._steps = Steps()
        self._lines: list[_Line] = []
        self._parked: dict[int, _Parked] = {}
        self._request_number = 0
        self._names = (f"{letter}{number or ''}" for number in count() for letter in ascii_lowercase)
        self._actor_of: dict[tuple[int, str], str] = {}
        self._is_used: Counter[str] = Counter()
        self._sessions: dict[str, int] = {}
        self._topics: dict[str, int] = {
            topic["name"]: len(topic["partitions"])
            for topic in self._fields["topics"]
            if not topic["name"].startswith("__")
        }
        self._mentioned: set[str] = set()
        self._left_out: Counter[str] = Counter()
        self._notes: list[str] = []
        self._last_ms = start.now.mono_ms
        for topic in self._fields["topics"]:
            self._steps.cast.topic_ids[topic["name"]] = bytes.fromhex(topic["id"])
        if self._fields["partitions"]:
            self._note("what groups and offsets there were when the recording began")

    def add(self, turn: Turn) -> None:
        """Take in the next turn."""
        entry = turn.entry
        self._last_ms = entry.now.mono_ms
        answers = {effect.subject: effect for effect in turn.effects if effect.kind == Kind.ANSWER}
        line: int | None = None
        match entry.kind:
            case Kind.HIDDEN_REQUEST:
                self._request_number += 1
                self._left_out[f"{entry.fields.get('api', 'unknown')} (not recorded)"] += 1
            case Kind.REQUEST:
                self._request_number += 1
                faults = [effect.fields["text"] for effect in turn.effects if effect.kind == Kind.FAULT]
                if faults:
                    self._note(f"request {self._request_number}, which met an injected fault: {faults[0]}")
                    return
                line = self._request(entry, answers)
            case Kind.DISCONNECTED:
                self._closed(entry)
            case Kind.OPERATION:
                fields = entry.fields
                if fields["what"] == "create-topics":
                    self._topics.update({topic["name"]: topic["partitions"] for topic in fields["topics"]})
                elif not fields["what"].endswith(("-fault", "-faults")):
                    self._note(f"the operation {fields['what']} at {self._at(entry)} ms")
            case _:
                pass
        self._release(entry, answers, line)

    def written(self, title: str, states: Mapping[str, str] | None = None) -> WrittenScenario:
        """The whole file. `states` are those of groups at the end, as Kafka prints them, which it then expects."""
        self._expect_states(states or {})
        notes = [counted(count, f"{name} request") for name, count in self._left_out.items()]
        lines, idle_count = _without_idle(self._lines)
        if idle_count:
            notes.append(f"{counted(idle_count, 'heartbeat')} that only kept sessions which others kept, too")
        notes += self._notes
        total_ms = self._last_ms - self._began_ms
        head = [f"# {title}", "# Left out:" if notes else "# Everything in the recording is in here."]
        head += [f"# - {note}" for note in notes]
        head += ["suite: recorded", "rules: recorded", f"config: {self._config()}"]
        topics = sorted(name for name in self._mentioned if name in self._topics)
        if topics:
            head.append(f"topics: {' '.join(f'{name}:{self._topics[name]}' for name in topics)}")
        head += [f"run: wire {(total_ms + SLACK_MS) // 1_000}s", ""]
        text = "\n".join([*head, *self._timed(lines), ""])
        return WrittenScenario(text, notes, len(lines))

    def _expect_states(self, states: Mapping[str, str]) -> None:
        """Let time pass up to the end of the recording, and look at the groups."""
        for group_id in self._steps.cast.groups:
            state = states.get(group_id)
            if state not in (None, "Dead"):
                words = " ".join(filter(None, ("describe", self._steps.cast.group_option(group_id))))
                self._lines.append(_Line(self._last_ms, words, f"NONE state={state}", [], "", 0, False))

    # Requests

    def _request(self, entry: Entry, answers: dict[int, Entry]) -> int | None:
        """The number of the line that says it; None where none does."""
        number = self._request_number
        try:
            asked = parse_request(entry.payload)
        except ProtocolError:
            self._left_out["unknown"] += 1
            return None
        group_id = group_of(asked)
        if asked.api.key not in VERBS or (group_id != self._group_id if self._group_id is not None else False):
            if asked.api.key == CREATE_TOPICS:
                self._create_topics(asked)
            self._left_out[asked.api.name] += 1
            return None
        verb = VERBS[asked.api.key]
        actor = self._actor(entry.subject, group_id or "", asked) if verb not in ("describe", "list", "delete") else ""
        try:
            step, unsaid = self._steps.request(asked, actor)
        except Unsayable as reason:
            self._note(f"request {number}, {asked.name}: {reason}")
            return None
        for field in unsaid:
            self._note(f"of request {number}, {asked.name}: {field}")
        if verb == "join":
            self._sessions[actor] = asked.body.session_timeout_ms
        self._mention(asked)
        parked = _Parked(actor, step, asked, len(self._lines))
        own = "parked"
        is_idle = False
        if number in answers:
            own, error = self._outcome(parked, answers[number])
            is_idle = verb == "heartbeat" and error == ErrorCode.NONE.name
        elif not actor:
            self._note(f"request {number}, {asked.name}: it was not answered at once")
            return None
        else:
            self._parked[number] = parked
        words = step.text.removesuffix("-> *").rstrip()
        self._lines.append(_Line(entry.now.mono_ms, words, own, [], actor, self._sessions.get(actor, 0), is_idle))
        return len(self._lines) - 1

    def _outcome(self, parked: _Parked, answer: Entry) -> tuple[str, str]:
        """What is expected of an answer, and the name of its error."""
        try:
            response: Any = parse_answer(parked.asked, answer.payload)
            outcome = self._steps.outcome(parked.step, response, parked.asked.version)
        except (ProtocolError, ValueError) as error:
            self._note(f"an answer to {parked.asked.name} cannot be read: {error}")
            outcome = Outcome("*", {})
        return text_of(outcome), outcome.error

    def _create_topics(self, asked: Asked) -> None:
        default = BrokerConfig(self._fields["config"]).num_partitions
        for topic in asked.body.topics:
            partitions = len(topic.assignments) or (default if topic.num_partitions < 0 else topic.num_partitions)
            self._topics.setdefault(topic.name, partitions)

    def _mention(self, asked: Asked) -> None:
        """Remember the topics of a request, and that they have the partitions that it names."""
        body = asked.body
        groups = getattr(body, "groups", ()) if asked.version >= 8 else ()
        topics: Iterable[Any] = getattr(body, "topics", None) or [
            topic for group in groups if not isinstance(group, str) for topic in group.topics or ()
        ]
        for topic in topics:
            name = self._steps.cast.topic_of(topic.name, getattr(topic, "topic_id", b""))
            self._mentioned.add(name)
            if name not in self._topics and not name.startswith("__"):
                indexes = [each.partition_index for each in getattr(topic, "partitions", ())]
                if indexes:
                    self._topics[name] = max(indexes) + 1

    # Actors

    def _actor(self, connection: int, group_id: str, asked: Asked) -> str:
        """The name under which a member acts on a connection; a line says when it is on another one than before."""
        body, cast = asked.body, self._steps.cast
        member_id = getattr(body, "member_id", "")
        if asked.api.key == 13 and asked.version >= 3 and body.members:
            member_id = body.members[0].member_id
        known = self._actor_of.get((connection, group_id))
        owner = next((name for name, actor in cast.actors.items() if member_id and actor.member_id == member_id), None)
        if owner is None or (known is not None and cast.actors[known] is cast.actors[owner]):
            name = known or owner or next(self._names)
            self._actor_of.setdefault((connection, group_id), name)
            return name
        if asked.api.key == 13 and known is not None:  # an administrator, who removes members of others
            return known
        if not any(name == owner for name in self._actor_of.values()):  # its first connection is gone
            self._actor_of[connection, group_id] = owner
            return owner
        self._is_used[owner] += 1
        alias = f"{owner}x{self._is_used[owner] + 1}"
        self._lines.append(_Line(self._last_ms, f"{alias} is {owner}", "", [], alias, 0, False))
        cast.alias(alias, owner)
        self._sessions[alias] = self._sessions.get(owner, 0)
        self._actor_of[connection, group_id] = alias
        return alias

    def _closed(self, entry: Entry) -> None:
        for (connection, group_id), name in list(self._actor_of.items()):
            if connection != entry.subject:
                continue
            del self._actor_of[connection, group_id]
            for number, parked in list(self._parked.items()):
                if parked.actor == name:
                    del self._parked[number]
                    self._lines.append(_Line(entry.now.mono_ms, f"close {name}", "", [], name, 0, False))

    # Answers that came later

    def _release(self, entry: Entry, answers: dict[int, Entry], line: int | None) -> None:
        freed = [(number, self._parked.pop(number)) for number in sorted(answers) if number in self._parked]
        if not freed:
            return
        for number, parked in freed:  # ids are learned from every answer before any is written
            self._outcome(parked, answers[number])
        texts = [f"{parked.actor}: {self._outcome(parked, answers[number])[0]}" for number, parked in freed]
        if line is not None:
            own = self._lines[line]
            self._lines[line] = own._replace(released=[*own.released, *texts], is_idle=False)
            return
        if entry.kind not in (Kind.GROUP_TIMERS,):
            name = Kind(entry.kind).name.lower().replace("_", "-")
            self._note(f"at {self._at(entry)} ms, {name} released answers that a step of time releases here")
        self._lines.append(_Line(entry.now.mono_ms, "", "", texts, "", 0, False))

    # The file

    def _timed(self, lines: list[_Line]) -> Iterator[str]:
        now_ms = self._began_ms if not lines else lines[0].at_ms
        for line in lines:
            passed_ms = line.at_ms - now_ms
            if not line.words:
                yield f"advance {max(passed_ms, 1)} -> {' | '.join(line.released)}"
                now_ms = line.at_ms
                continue
            if passed_ms >= MIN_ADVANCE_MS:
                yield f"advance {passed_ms}"
                now_ms = line.at_ms
            expected = " | ".join(filter(None, [line.own, *line.released]))
            yield f"{line.words} -> {expected}" if expected else line.words

    def _config(self) -> str:
        """Keys of the coordinator that a broker must have for this."""
        config = BrokerConfig(self._fields["config"])
        standard = GroupConfig()
        pairs = {"group.initial.rebalance.delay.ms": config.group_initial_rebalance_delay_ms}
        for name in GroupConfig.__annotations__:
            value = getattr(config, name)
            if value != getattr(standard, name):
                pairs[name.replace("_", ".")] = value
        return " ".join(f"{key}={value}" for key, value in pairs.items())

    def _at(self, entry: Entry) -> int:
        return entry.now.mono_ms - self._began_ms

    def _note(self, text: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.append(text)
        elif len(self._notes) == MAX_NOTES:
            self._notes.append("... and more of the same")


def _without_idle(lines: list[_Line]) -> tuple[list[_Line], int]:
    """Leave out heartbeats whose member is heard of soon enough without them; returns how many."""
    next_ms: dict[int, int] = {}
    later: dict[str, int] = {}
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        next_ms[index] = later.get(line.actor, 1 << 62)
        if not line.words.startswith("fetch"):
            later[line.actor] = line.at_ms
    kept: list[_Line] = []
    heard_ms: dict[str, int] = {}
    for index, line in enumerate(lines):
        if line.is_idle and next_ms[index] - heard_ms.get(line.actor, -(1 << 62)) < line.session_ms // 2:
            continue
        if not line.words.startswith("fetch"):  # which keeps no session
            heard_ms[line.actor] = line.at_ms
        kept.append(line)
    return kept, len(lines) - len(kept)
