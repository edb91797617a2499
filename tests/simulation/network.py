"""Clients and the way their requests take: delays, losses, repetitions and broken connections, in virtual time.

Everything that reaches the coordinator becomes an `Input` of the world and is recorded.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from itertools import count
from random import Random
from typing import Any, NamedTuple

from tests.simulation.client import Client, Wish
from tests.simulation.script import Input
from tests.simulation.world import Call, World


class Faults(NamedTuple):
    """How often things go wrong on the way, as probabilities a request, and how long the way is.

    `slow_leader`: how often a leader thinks about its assignment for longer than sessions last.
    """

    lose_request: float = 0.0
    lose_reply: float = 0.0
    repeat: float = 0.0
    late: float = 0.0
    delay_ms: int = 0
    slow_delay_ms: int = 0
    slow: float = 0.0
    slow_leader: float = 0.0


CALM = Faults()


class _Connection:
    """What a client waits for. Once cut, answers to it go nowhere."""

    __slots__ = ("client", "is_open")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.is_open = True


class Network:
    """Holds what is to happen at which time. `inputs` are all inputs given to the world, in order."""

    def __init__(self, world: World, rng: Random, faults: Faults, *, first_serial: int = 1) -> None:
        self.world = world
        self.rng = rng
        self.faults = faults
        self.inputs: list[Input] = []
        self.clients: dict[str, Client] = {}
        self._waiting: dict[str, _Connection] = {}  # clients with a request on its way
        self._senders: dict[int, _Connection] = {}  # by serial of what they sent
        self._heap: list[tuple[int, int, Any, tuple[Any, ...]]] = []
        self._order = count()
        self._serials = count(first_serial)

    # Time

    def at(self, at_ms: int, act: Any, *arguments: Any) -> None:
        """Have something happen then."""
        heapq.heappush(self._heap, (at_ms, next(self._order), act, arguments))

    def turn(self, until_ms: int) -> bool:
        """Let the next thing happen, unless it is after `until_ms`: a timer, or what is due here. False: nothing."""
        due_ms = self.world.coordinator.next_deadline()
        next_ms = self._heap[0][0] if self._heap else None
        if due_ms is not None and due_ms <= until_ms and (next_ms is None or due_ms <= next_ms):
            self._spread(self.world.fire_next())
            return True
        if next_ms is None or next_ms > until_ms:
            return False
        at_ms, _, act, arguments = heapq.heappop(self._heap)
        act(max(at_ms, self.world.now_ms), *arguments)
        return True

    def give(self, at_ms: int, verb: str, detail: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Give the world an input and pass on the answers."""
        what = Input(next(self._serials), max(at_ms, self.world.now_ms), verb, detail=detail, **more)
        self.inputs.append(what)
        self._spread(self.world.apply(what))

    # Clients

    def add(self, client: Client, at_ms: int) -> None:
        """A process starts."""
        self.clients[client.actor.name] = client
        self.at(at_ms, self._wake, client)

    def kick(self, client: Client, at_ms: int) -> None:
        """Have a client look what it wants: it was changed from outside."""
        self.at(at_ms, self._wake, client)

    def cut(self, client: Client, at_ms: int) -> None:
        """Its connection breaks. What it sent may still arrive; the answer goes nowhere."""
        connection = self._waiting.pop(client.actor.name, None)
        if connection is not None:
            connection.is_open = False
            client.cut(at_ms)
            self.kick(client, client.wake_ms())

    def _wake(self, at_ms: int, client: Client) -> None:
        name = client.actor.name
        if name in self._waiting or self.clients.get(name) is not client:
            return
        wake_ms = client.wake_ms()
        if wake_ms > at_ms:
            self.kick(client, wake_ms)
            return
        wish = client.wish(at_ms)
        if wish is None:
            if client.is_running:
                self.kick(client, max(client.wake_ms(), at_ms + 1))
            return
        self._send(at_ms, client, wish)

    def _send(self, at_ms: int, client: Client, wish: Wish) -> None:
        connection = self._waiting[client.actor.name] = _Connection(client)
        faults, draw = self.faults, self.rng.random()
        arrives_ms = at_ms + self._delay_ms()
        actor = client.actor
        patience_ms = 5_000 + (max(actor.rebalance_timeout_ms, actor.session_timeout_ms) if wish.verb == "join" else 0)
        if wish.verb in ("join", "sync"):
            patience_ms *= 2
        self.at(at_ms + patience_ms, self._give_up, connection)
        if draw < faults.lose_request:
            self.world.faults["request lost"] += 1
            if self.rng.random() < 0.5:
                self.at(arrives_ms, self._give_up, connection)  # it notices; otherwise only when it is out of patience
            return
        draw -= faults.lose_request
        self.at(arrives_ms, self._arrive, connection, wish)
        if draw < faults.repeat:
            self.at(arrives_ms + self.rng.randrange(1, 3_000), self._arrive_again, client, wish)
        elif draw < faults.repeat + faults.late:
            self.world.faults["connection closed"] += 1
            self.at(at_ms + self.rng.randrange(1, 1_000), self._give_up, connection)

    def _delay_ms(self) -> int:
        faults = self.faults
        if faults.slow and self.rng.random() < faults.slow:
            return self.rng.randrange(faults.slow_delay_ms)
        return self.rng.randrange(faults.delay_ms) if faults.delay_ms else 1

    def _give_up(self, at_ms: int, connection: _Connection) -> None:
        client = connection.client
        if self._waiting.get(client.actor.name) is connection:
            self.cut(client, at_ms)

    def _arrive(self, at_ms: int, connection: _Connection, wish: Wish) -> None:
        what = self._input(at_ms, connection.client, wish)
        self._senders[what.serial] = connection
        self._spread(self.world.apply(what))

    def _arrive_again(self, at_ms: int, client: Client, wish: Wish) -> None:
        self.world.faults["request repeated"] += 1
        self._spread(self.world.apply(self._input(at_ms, client, wish)))

    def _input(self, at_ms: int, client: Client, wish: Wish) -> Input:
        what = Input(
            next(self._serials),
            at_ms,
            wish.verb,
            actor=client.actor.name,
            version=wish.version,
            basis=wish.basis,
            detail=wish.detail,
        )
        self.inputs.append(what)
        return what

    def _spread(self, calls: list[Call]) -> None:
        """Answers go on their way to whoever still listens."""
        for call in calls:
            connection = self._senders.pop(call.asked.serial, None)
            if connection is None:
                continue
            now_ms = self.world.now_ms
            if call.is_lost:
                self.at(now_ms + 1, self._give_up, connection)
            elif self.rng.random() < self.faults.lose_reply:
                self.world.faults["reply lost"] += 1
                if self.rng.random() < 0.5:
                    self.at(now_ms + self._delay_ms(), self._give_up, connection)
            else:
                self.at(call.answered_ms + self._delay_ms(), self._hear, connection, call)

    def _shortest_session_ms(self, client: Client) -> int:
        """Of all who may wait for a leader's assignment: who waits does not heartbeat, and must not be taken for dead."""
        group_id = client.actor.group_id
        return min(
            other.actor.session_timeout_ms
            for other in self.clients.values()
            if other is client or (other.is_running and other.actor.group_id == group_id)
        )

    def _hear(self, at_ms: int, connection: _Connection, call: Call) -> None:
        client = connection.client
        if self._waiting.get(client.actor.name) is not connection:
            return
        del self._waiting[client.actor.name]
        call.asked.was_heard = True
        client.hear(call, at_ms)
        slow_leader = self.faults.slow_leader
        if slow_leader and call.asked.verb == "join" and client.memory.is_leader and self.rng.random() < slow_leader:
            self.world.faults["leader slow to assign"] += 1
            client.not_before_ms = at_ms + int(self._shortest_session_ms(client) * self.rng.uniform(0.5, 1.5))
        self.kick(client, max(client.wake_ms(), at_ms))
