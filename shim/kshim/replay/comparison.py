"""Puts the answers of a replay beside those of the recording."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, NamedTuple

from kshim.coordinator.step import Now
from kshim.recording.format import Entry, Kind
from kshim.replay.compare import FieldDifference, Ids, differences, fetch_errors
from kshim.replay.messages import Asked, build_request, parse_answer, parse_request
from kshim.replay.player import Turn
from kshim.replay.translate import translated
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import BuildError, ProtocolError

MAX_NOTES: Final = 1_000
JOIN_GROUP: Final = 11
_OF_EACH_BROKER: Final = frozenset({"ApiVersions", "DescribeConfigs", "DescribeLogDirs", "DescribeCluster"})
"""APIs whose answers say what a broker is."""


class AnswerDifference(NamedTuple):
    """One request whose answer is another one. `fields` says where; a whole answer is the field `answer`.

    `client_id` and `group_id` are None where the request has none. `wall_ms` is when it was recorded.
    """

    request: int
    wall_ms: int
    connection: int
    api: str
    version: int
    client_id: str | None
    group_id: str | None
    fields: tuple[FieldDifference, ...]


class _Open:
    """A request whose two answers are not both there yet."""

    __slots__ = (
        "asked_mono_ms",
        "connection",
        "frame",
        "is_recorded",
        "is_replayed",
        "recorded",
        "replayed",
        "wall_ms",
    )

    def __init__(self, entry: Entry) -> None:
        self.frame = entry.payload
        self.connection = entry.subject
        self.wall_ms = entry.now.wall_ms
        self.asked_mono_ms = entry.now.mono_ms
        self.is_recorded = self.is_replayed = False
        self.recorded: tuple[bytes | str | None, int] = (None, 0)
        self.replayed: tuple[bytes | str | None, int] = (None, 0)
        """A frame, a sentence why it was refused, or None for no answer (acks=0); and when, on the group clock."""


class Comparison:
    """The `Listener` of a player. `expect` each turn before it is played, and `finish` at the end.

    `timing_ms`: an answer that came so much earlier or later than in the recording is a difference, too; None: time does
    not matter. `other_broker`: what says which broker answers is not compared.
    """

    def __init__(self, *, timing_ms: int | None = None, other_broker: bool = False) -> None:
        self.ids = Ids(places=other_broker)
        self.found: list[AnswerDifference] = []
        self.notes: list[str] = []
        """What was not played or not compared, a sentence each."""
        self.left_out_notes = 0
        self.request_count = 0
        self.compared_count = 0
        self.connection_count = 0
        self.fault_count = 0
        self._timing_ms = timing_ms
        self._is_other = other_broker
        self._open: dict[int, _Open] = {}

    def expect(self, turn: Turn) -> None:
        """Learn of a request, and of the recorded answers."""
        kind = turn.entry.kind
        if kind == Kind.REQUEST:
            self.request_count += 1
            self._open[self.request_count] = _Open(turn.entry)
        elif kind == Kind.HIDDEN_REQUEST:
            self.request_count += 1
        elif kind == Kind.CONNECTED:
            self.connection_count += 1
        for effect in turn.effects:
            if effect.kind == Kind.FAULT:
                self.fault_count += 1
                if self._is_other and self._open.pop(self.request_count, None) is not None:
                    self.not_played(f"request {self.request_count} met an injected fault: {effect.fields['text']}")
            if effect.kind in (Kind.DRAWN, Kind.FAULT) or effect.subject not in self._open:
                continue
            request = self._open[effect.subject]
            if effect.kind == Kind.HIDDEN_ANSWER:
                self.not_played(f"the answer to request {effect.subject} was not recorded: it was too long")
                del self._open[effect.subject]
                continue
            outcome: bytes | str | None = effect.payload
            if effect.kind == Kind.REFUSED:
                outcome = effect.payload.decode(errors="replace")
            elif effect.kind == Kind.NO_ANSWER:
                outcome = None
            request.recorded, request.is_recorded = (outcome, effect.now.mono_ms), True
            self._compare(effect.subject, request)

    # What a player tells

    def translated(self, number: int, frame: bytes) -> bytes:
        """See `Listener`."""
        if not self.ids.has_changed:
            return frame
        try:
            return build_request(translated(parse_request(frame), self.ids))
        except (ProtocolError, BuildError):
            return frame

    def answered(self, number: int, frame: bytes | None, now: Now) -> None:
        """See `Listener`."""
        self._replayed(number, frame, now)

    def refused(self, number: int, reason: str, now: Now) -> None:
        """See `Listener`."""
        self._replayed(number, reason, now)

    def not_played(self, what: str) -> None:
        """See `Listener`."""
        if len(self.notes) < MAX_NOTES:
            self.notes.append(what)
        else:
            self.left_out_notes += 1

    def finish(self) -> None:
        """Nothing follows: what has one answer only is a difference."""
        for number, request in list(self._open.items()):
            if request.is_recorded:
                self._differs(number, request, [_whole(request.recorded[0], "(no answer yet)")])
            elif request.is_replayed:
                self._differs(number, request, [_whole("(no answer yet)", request.replayed[0])])
        self._open.clear()

    # Comparing

    def _replayed(self, number: int, outcome: bytes | str | None, now: Now) -> None:
        request = self._open.get(number)
        if request is None:
            return
        request.replayed, request.is_replayed = (outcome, now.mono_ms), True
        self._compare(number, request)

    def _compare(self, number: int, request: _Open) -> None:
        if not (request.is_recorded and request.is_replayed):
            return
        del self._open[number]
        self.compared_count += 1
        recorded, recorded_ms = request.recorded
        replayed, replayed_ms = request.replayed
        fields: list[FieldDifference] = []
        if recorded != replayed:
            if isinstance(recorded, bytes) and isinstance(replayed, bytes):
                fields = self._fields(request, recorded, replayed)
            else:
                fields = [_whole(recorded, replayed)]
        if self._timing_ms is not None and abs(recorded_ms - replayed_ms) > self._timing_ms:
            asked_ms = request.asked_mono_ms
            fields.append(FieldDifference("(ms)", str(recorded_ms - asked_ms), str(replayed_ms - asked_ms)))
        if fields:
            self._differs(number, request, fields)

    def _fields(self, request: _Open, recorded: bytes, replayed: bytes) -> list[FieldDifference]:
        try:
            asked = parse_request(request.frame)
            ours, theirs = parse_answer(asked, recorded), parse_answer(asked, replayed)
        except ProtocolError:
            return [] if recorded[4:] == replayed[4:] else [FieldDifference("answer", recorded.hex(), replayed.hex())]
        if self._is_other and asked.api.name in _OF_EACH_BROKER:
            return []
        if self._is_other and asked.api.name == "Fetch":
            return fetch_errors(ours, theirs, self.ids)
        if asked.api.key == JOIN_GROUP and ours.error_code == theirs.error_code == ErrorCode.NONE:
            self.ids.joined(asked.body.group_id, ours.member_id, ours.generation_id, theirs.generation_id)
        return differences(ours, theirs, self.ids)

    def _differs(self, number: int, request: _Open, fields: list[FieldDifference]) -> None:
        asked: Asked | None = None
        with suppress(ProtocolError):
            asked = parse_request(request.frame)
        body: Any = None if asked is None else asked.body
        group_id = getattr(body, "group_id", None) or (getattr(body, "groups", None) or [None])[0]
        self.found.append(
            AnswerDifference(
                number,
                request.wall_ms,
                request.connection,
                "an unknown API" if asked is None else asked.api.name,
                -1 if asked is None else asked.version,
                None if asked is None else asked.client_id,
                group_id if isinstance(group_id, str) else getattr(group_id, "group_id", None),
                tuple(fields),
            )
        )


def _whole(recorded: bytes | str | None, replayed: bytes | str | None) -> FieldDifference:
    return FieldDifference("answer", _outcome(recorded), _outcome(replayed))


def _outcome(outcome: bytes | str | None) -> str:
    if outcome is None:
        return "(none was asked for)"
    if isinstance(outcome, bytes):
        return f"{len(outcome)} bytes"
    return outcome if outcome.startswith("(") else f"(closed the connection: {outcome})"
