"""Plays a recording to a fresh cluster in this process, in virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Final, NamedTuple, Protocol

from kshim.broker.cluster import Cluster, RandomIds
from kshim.broker.connection import ConnectionClosing
from kshim.broker.node import Node
from kshim.broker.router import Router
from kshim.config.broker_config import BrokerConfig
from kshim.coordinator.step import Event, Now
from kshim.faults.faults import Faults
from kshim.faults.injection import FaultInjector
from kshim.recording.format import Entry, Kind, RecordingError
from kshim.recording.operations import OPERATIONS
from kshim.recording.start import StartStorage
from kshim.replay.connection import ReplayedConnection
from kshim.scheduling.background_tasks import run_task
from kshim.storage.log import LogError
from kshim_protocol.errors import KafkaError

FOLLOWERS: Final = frozenset({Kind.DRAWN, Kind.ANSWER, Kind.NO_ANSWER, Kind.HIDDEN_ANSWER, Kind.REFUSED, Kind.FAULT})
"""Entries that follow from the one before them; every other one is an input."""


class Turn(NamedTuple):
    """An input of the broker, and what was recorded of its effects before the next one."""

    entry: Entry
    effects: tuple[Entry, ...]


def turns(entries: Iterable[Entry]) -> Iterator[Turn]:
    """The entries of a recording, input by input."""
    cause: Entry | None = None
    effects: list[Entry] = []
    for entry in entries:
        if entry.kind in FOLLOWERS:
            effects.append(entry)
            continue
        if cause is not None:
            yield Turn(cause, tuple(effects))
        cause, effects = entry, []
    if cause is not None:
        yield Turn(cause, tuple(effects))


class Listener(Protocol):
    """What a player tells. Request numbers are those of the recording."""

    def translated(self, number: int, frame: bytes) -> bytes:
        """The request as its client would send it to this broker: with the ids that this one gave it."""

    def answered(self, number: int, frame: bytes | None, now: Now) -> None:
        """A request was answered by this broker; `frame` without its size, None for no answer (acks=0)."""

    def refused(self, number: int, reason: str, now: Now) -> None:
        """This broker has closed the connection instead of an answer."""

    def not_played(self, what: str) -> None:
        """Something in the recording cannot be played."""


class Player:
    """A cluster as the recording began, and its clients. Give it each `Turn` in order, then `end`.

    `settings` are configuration keys that shall have other values. Without any, timers fire where the recording says
    they did, so that what happened in the same millisecond happens in the same order; with some, each at its own
    deadline. Raises ConfigError, LogError; RecordingError for a recording that does not begin with its START.
    """

    def __init__(
        self,
        start: Entry,
        stored: Iterable[Entry],
        listener: Listener,
        settings: Mapping[str, str] | None = None,
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> None:
        if start.kind != Kind.START:
            raise RecordingError("this recording does not say how it began")
        fields = start.fields
        self._listener = listener
        self.is_exact = not settings
        self.now, self.real_ms = start.now, start.real_ms
        self.defects: list[BaseException] = []
        self._draws: tuple[deque[bytes], deque[bytes]] = (deque(), deque())
        self._made_ids = count(1)
        self._connections: dict[int, ReplayedConnection] = {}
        self._ready: deque[ReplayedConnection] = deque()
        self._request_number = 0
        self._injector: FaultInjector | None = None
        storage = StartStorage(fields, settings or {})
        for entry in stored:
            storage.add(entry.subject, entry.payload)
        self.cluster = Cluster(
            BrokerConfig({**fields["config"], **(settings or {})}),
            storage,
            RandomIds(self._member_suffix, self._topic_id),
            cluster_id=fields["cluster_id"],
            on_event=on_event,
            on_defect=self._on_defect,
            on_corrupt=self.defects.append,
            node_count=fields["nodes"],
        )
        self._routers = {
            node_id: Router(Node(self.cluster, node_id, "", 0)) for node_id in self.cluster.leadership.node_ids
        }
        self._first = next(iter(self._routers.values()))
        self.cluster.start(lambda: self.now)
        self._run_background_tasks()

    def play(self, turn: Turn) -> None:
        """Let time pass up to an input, and then have it happen."""
        entry = turn.entry
        self._pass(entry)
        for effect in turn.effects:
            if effect.kind == Kind.DRAWN:
                self._draws[effect.subject].append(effect.payload)
        self._do(entry)
        self._settle()
        for draws in self._draws:
            draws.clear()

    @property
    def faults(self) -> Faults:
        """Rules that were in force when it was recorded; they fire again."""
        if self._injector is None:
            self._injector = FaultInjector(self.cluster, list(self._routers.values()), lambda: self.now)
        return self._injector.faults

    def end(self) -> None:
        """Close the cluster."""
        self.cluster.close()

    def _do(self, entry: Entry) -> None:
        match entry.kind:
            case Kind.REQUEST:
                self._request(entry)
            case Kind.HIDDEN_REQUEST:
                self._request_number += 1
                fields = entry.fields
                name = f"{fields['api']} v{fields['version']}" if "api" in fields else "a request of an unknown API"
                why = {"secret": "it may hold a secret", "long": "it is too long"}.get(
                    fields["reason"], "it is no request"
                )
                self._listener.not_played(f"request {self._request_number}, {name}, is not in the recording: {why}")
            case Kind.GROUP_TIMERS if self.is_exact:
                self._first.advance(entry.now)
            case Kind.FETCH_TIMERS if self.is_exact:
                self.cluster.fetch_purgatory.advance(entry.real_ms)
            case Kind.CONNECTED:
                self._connections[entry.subject] = ReplayedConnection(entry.fields, self._answered)
            case Kind.PRINCIPAL:
                self._connections[entry.subject].principal = entry.fields["principal"]
            case Kind.DISCONNECTED:
                connection = self._connections.pop(entry.subject)
                connection.is_closed = True
                connection.waiting.clear()
                self._routers[connection.node_id].closed(connection)
            case Kind.NODES:
                for node_id, addresses in entry.fields.items():
                    node = self._routers[int(node_id)].node
                    node.addresses = {name: (host, port) for name, (host, port) in addresses.items()}
                    node.host, node.port = next(iter(node.addresses.values()))
            case Kind.OPERATION:
                self._operation(entry)
            case _:  # of a later version, or nothing that a broker is told
                pass

    def _request(self, entry: Entry) -> None:
        self._request_number += 1
        connection = self._connections[entry.subject]
        connection.waiting.append((self._request_number, entry.payload))
        self._ready.append(connection)

    def _operation(self, entry: Entry) -> None:
        fields = entry.fields
        what = fields.pop("what")
        play = OPERATIONS.get(what)
        if play is None:
            self._listener.not_played(f"the operation {what} {fields or ''}".rstrip())
            return
        # What was refused when it was recorded is refused again; where it is not, the answers that follow differ.
        with suppress(KafkaError, LogError, LookupError, ValueError, OSError):
            play(self, fields)

    # Time

    def _pass(self, entry: Entry) -> None:
        """Fire what is due before an input, each at its own instant.

        Where the recording says when timers fired, these are only the broker's own, as of faults that delay an answer.
        """
        while (wait_ms := self._ms_to_next()) is not None and wait_ms <= self._left_ms(entry):
            self._move(wait_ms)
            if not self.is_exact:
                self._first.advance(self.now)
                self.cluster.fetch_purgatory.advance(self.real_ms)
            self._settle()
        self.now, self.real_ms = entry.now, entry.real_ms

    def _left_ms(self, entry: Entry) -> int:
        return entry.now.mono_ms - self.now.mono_ms

    def _ms_to_next(self) -> int | None:
        waits = []
        if self.cluster.timers.next_ms:
            waits.append(self.cluster.timers.next_ms - self.real_ms)
        if not self.is_exact:
            group, fetch = self.cluster.next_group_deadline(), self.cluster.fetch_purgatory.next_deadline()
            waits += [] if group is None else [group - self.now.mono_ms]
            waits += [] if fetch is None else [fetch - self.real_ms]
        return max(min(waits), 0) if waits else None

    def _move(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.real_ms += ms

    def _settle(self) -> None:
        """Do what follows at once: requests that waited behind others, background tasks, timers of the broker itself."""
        while True:
            self._run_background_tasks()
            timers = self.cluster.timers
            if timers.next_ms is not None and timers.next_ms <= self.real_ms:
                timers.advance(self.real_ms)
                continue
            if not self._ready:
                return
            connection = self._ready.popleft()
            if connection.waiting and not connection.current and not connection.is_closed:
                self._route(connection)

    def _route(self, connection: ReplayedConnection) -> None:
        number, frame = connection.waiting.popleft()
        connection.current = number
        frame = self._listener.translated(number, frame)
        try:
            self._routers[connection.node_id].handle(frame, connection, self.now, self.real_ms)
        except ConnectionClosing as closing:
            connection.current = 0
            self._listener.refused(number, str(closing), self.now)
            if connection.waiting:
                self._ready.append(connection)

    def _run_background_tasks(self) -> None:
        tasks = self.cluster.background_tasks
        while (task := tasks.next_urgent() or tasks.next()) is not None:
            run_task(task)

    # What the broker asks for and says

    def _answered(self, connection: ReplayedConnection, number: int, frame: bytes | None) -> None:
        self._listener.answered(number, frame, self.now)
        if connection.waiting:
            self._ready.append(connection)

    def _member_suffix(self) -> str:
        drawn = self._draws[0]
        return drawn.popleft().decode() if drawn else f"00000000-0000-4000-8000-{next(self._made_ids):012x}"

    def _topic_id(self) -> bytes:
        drawn = self._draws[1]
        return drawn.popleft() if drawn else next(self._made_ids).to_bytes(6, "big") + bytes(10)

    def _on_defect(self, error: BaseException, request: object) -> None:
        self.defects.append(error)
