"""Plays a recording to a running broker, over the wire and in real time."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kshim.coordinator.step import Now
from kshim.recording.format import Entry, Kind
from kshim.replay.compare import Ids
from kshim.replay.messages import parse_request
from kshim.replay.player import Listener, Turn
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

PRODUCE: Final = 0
JOIN_GROUP: Final = 11
INIT_PRODUCER_ID: Final = 22
TIMEOUT_MS: Final = 30_000
PATIENCE_S: Final = 2.0
"""How long a request is held back for answers that clients had before it in the recording."""
GRACE_S: Final = 2.0
"""How long the last answers are waited for."""
_TRIES: Final = 300
_PAUSE_S: Final = 0.1
_COORDINATOR_ERRORS: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Needs(NamedTuple):
    """What a recording asks a broker for that is not ready as soon as that has started."""

    groups: list[str]
    transactional_ids: list[str]
    producer_ids: bool


def needs_of(entries: Iterable[Entry]) -> Needs:
    """What is asked for in a recording."""
    groups: dict[str, None] = {}
    transactional_ids: dict[str, None] = {}
    producer_ids = False
    for entry in entries:
        if entry.kind != Kind.REQUEST:
            continue
        key = int.from_bytes(entry.payload[:2], "big")
        producer_ids = producer_ids or key == INIT_PRODUCER_ID
        with suppress(ProtocolError):
            if key == JOIN_GROUP:
                groups[parse_request(entry.payload).body.group_id] = None
            elif key == INIT_PRODUCER_ID and (transactional_id := parse_request(entry.payload).body.transactional_id):
                transactional_ids[transactional_id] = None
    return Needs(list(groups), list(transactional_ids), producer_ids)


def prepare(start: Entry, needs: Needs, address: tuple[str, int], ids: Ids, note: Callable[[str], None]) -> None:
    """Create the topics of the start where they are missing, and wait until what is needed is ready.

    Raises BrokerGone, TimeoutError, ProtocolError.
    """
    fields = start.fields
    client = Client(*address, client_id="kshim-replay")
    try:
        topics = {topic["name"]: topic for topic in fields["topics"] if not topic["name"].startswith("__")}
        create_topics(client, [(name, len(topic["partitions"]), topic["configs"]) for name, topic in topics.items()])
        if topics:
            wanted = tuple(MetadataRequestTopic(name=name) for name in topics)
            for found in client.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12).topics:
                if found.name in topics:
                    ids.are_same("topic", bytes.fromhex(topics[found.name]["id"]), found.topic_id)
        if fields["partitions"] or any(
            partition["end"] for topic in topics.values() for partition in topic["partitions"]
        ):
            note("the records, groups and offsets that there were when the recording began")
        for group_id in needs.groups:
            _await_coordinator(client, group_id)
        for transactional_id in needs.transactional_ids:
            _await_transactions(client, transactional_id)
        if needs.producer_ids:
            _await_producer_ids(client)
    finally:
        client.close()


def create_topics(client: Client, topics: Iterable[tuple[str, int, Mapping[str, str]]]) -> None:
    """Create topics by name, number of partitions and configuration; those there are remain as they are."""
    rows = tuple(
        CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=(), configs=())
        for name, count, _ in topics
    )
    if rows:
        client.ask(CreateTopicsRequest(topics=rows, timeout_ms=TIMEOUT_MS), 5)


def _await_coordinator(client: Client, group_id: str) -> None:
    """A Kafka makes `__consumer_offsets` when it is first asked, and loads it then. Raises TimeoutError."""
    for _ in range(_TRIES):
        found = client.ask(FindCoordinatorRequest(key=group_id, key_type=0), 2)
        if found.error_code == ErrorCode.NONE:
            home = Client(found.host, found.port, client_id="kshim-replay")
            try:
                (group,) = home.ask(DescribeGroupsRequest(groups=(group_id,)), 0).groups
            finally:
                home.close()
            if group.error_code not in _COORDINATOR_ERRORS:
                return
        time.sleep(_PAUSE_S)
    raise TimeoutError(f"the coordinator of group {group_id} does not answer")


def _await_transactions(client: Client, transactional_id: str) -> None:
    """As of groups: `__transaction_state` is made when it is first asked for. Raises TimeoutError."""
    for _ in range(_TRIES):
        found = client.ask(FindCoordinatorRequest(key=transactional_id, key_type=1), 2)
        if found.error_code == ErrorCode.NONE:
            home = Client(found.host, found.port, client_id="kshim-replay")
            try:
                (state,) = home.ask(
                    DescribeTransactionsRequest(transactional_ids=(transactional_id,)), 0
                ).transaction_states
            finally:
                home.close()
            if state.error_code not in _COORDINATOR_ERRORS:
                return
        time.sleep(_PAUSE_S)
    raise TimeoutError(f"the coordinator of the transactional id {transactional_id} does not answer")


def _await_producer_ids(client: Client) -> None:
    """The first producer ids of a Kafka come from its controller. Raises TimeoutError."""
    for _ in range(_TRIES):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS)
        if client.ask(request, 1).error_code == ErrorCode.NONE:
            return
        time.sleep(_PAUSE_S)
    raise TimeoutError("the broker gives no producer ids")


class _Peer:
    """One connection of the recording, to the broker. Requests wait until those before them are answered."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.waiting: deque[tuple[int, bytes]] = deque()
        self.current = 0
        self.received = bytearray()


class WirePlayer:
    """Gives each turn to a broker when it is its time, `speed` times faster than it was recorded. Give `end` at last."""

    def __init__(self, start: Entry, address: tuple[str, int], listener: Listener, *, speed: int = 1) -> None:
        self._address = address
        self._listener = listener
        self._speed = speed
        self._start = start.now
        self._began_s = time.monotonic()
        self._peers: dict[int, _Peer] = {}
        self._awaited: set[int] = set()
        """Requests that were answered in the recording by now, and not yet by this broker."""
        self._asked: set[int] = set()
        self._request_number = 0

    def play(self, turn: Turn) -> None:
        """Wait for its time, and for the answers that clients had by then, and have it happen.

        Raises OSError when the broker cannot be reached.
        """
        entry = turn.entry
        self._serve_until(self._began_s + (entry.now.mono_ms - self._start.mono_ms) / 1_000 / self._speed)
        self._catch_up()
        self._do(turn, entry)
        for effect in turn.effects:
            if effect.kind in (Kind.ANSWER, Kind.REFUSED) and effect.subject in self._asked:
                self._awaited.add(effect.subject)

    def _catch_up(self) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while self._awaited and time.monotonic() < deadline_s:
            self._serve_until(min(deadline_s, time.monotonic() + 0.001))
        self._asked -= self._awaited
        self._awaited.clear()

    def _answered(self, number: int, frame: bytes | None) -> None:
        self._asked.discard(number)
        self._awaited.discard(number)
        self._listener.answered(number, frame, self._now())

    def _do(self, turn: Turn, entry: Entry) -> None:
        match entry.kind:
            case Kind.REQUEST:
                self._request_number += 1
                if any(effect.kind == Kind.FAULT for effect in turn.effects):
                    return  # what it would have been answered without the fault is not known
                peer = self._peers.get(entry.subject)
                if peer is not None:
                    self._asked.add(self._request_number)
                    peer.waiting.append((self._request_number, entry.payload))
                    self._send(peer)
            case Kind.HIDDEN_REQUEST:
                self._request_number += 1
                self._listener.not_played(f"request {self._request_number} is not in the recording")
            case Kind.CONNECTED:
                sock = socket.create_connection(self._address, timeout=TIMEOUT_MS / 1_000)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._peers[entry.subject] = _Peer(sock)
            case Kind.DISCONNECTED:
                peer = self._peers.pop(entry.subject, None)
                if peer is not None:
                    peer.sock.close()
            case Kind.OPERATION:
                self._operation(entry.fields)
            case _:
                pass

    def end(self) -> None:
        """Wait a moment for answers that are still owed, and close all connections."""
        deadline_s = time.monotonic() + GRACE_S
        while time.monotonic() < deadline_s and any(peer.current for peer in self._peers.values()):
            self._serve_until(min(deadline_s, time.monotonic() + _PAUSE_S))
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for peer in self._peers.values():
            peer.sock.close()
        self._peers.clear()

    def _operation(self, fields: dict[str, Any]) -> None:
        if fields["what"] == "create-topics":
            client = Client(*self._address, client_id="kshim-replay")
            try:
                rows = [(topic["name"], topic["partitions"], topic["configs"]) for topic in fields["topics"]]
                create_topics(client, [row for row in rows if not row[0].startswith("__")])
            finally:
                client.close()
        else:
            self._listener.not_played(f"the operation {fields['what']}, which a broker cannot be asked for")

    def _now(self) -> Now:
        """The time of the recording that it is."""
        passed_ms = round((time.monotonic() - self._began_s) * 1_000 * self._speed)
        return Now(self._start.mono_ms + passed_ms, self._start.wall_ms + passed_ms)

    def _serve_until(self, deadline_s: float) -> None:
        """Take answers until then."""
        while True:
            left_s = deadline_s - time.monotonic()
            by_socket = {peer.sock: peer for peer in self._peers.values()}
            if not by_socket:
                if left_s > 0:
                    time.sleep(left_s)
                return
            ready, _, _ = select.select(list(by_socket), [], [], max(left_s, 0))
            for sock in ready:
                self._receive(by_socket[sock])
            if not ready and left_s <= 0:
                return

    def _receive(self, peer: _Peer) -> None:
        try:
            data = peer.sock.recv(1 << 16)
        except OSError as error:
            self._lost(peer, str(error))
            return
        if not data:
            self._lost(peer, "the broker closed the connection")
            return
        received = peer.received
        received += data
        while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4], "big")):
            frame = bytes(received[4 : 4 + size])
            del received[: 4 + size]
            number, peer.current = peer.current, 0
            self._answered(number, frame)
        self._send(peer)

    def _lost(self, peer: _Peer, why: str) -> None:
        for number in filter(None, [peer.current, *(number for number, _ in peer.waiting)]):
            self._asked.discard(number)
            self._awaited.discard(number)
            self._listener.refused(number, why, self._now())
        peer.sock.close()
        self._peers = {number: other for number, other in self._peers.items() if other is not peer}

    def _send(self, peer: _Peer) -> None:
        while peer.waiting and not peer.current:
            number, frame = peer.waiting.popleft()
            frame = self._listener.translated(number, frame)
            peer.current = number
            try:
                peer.sock.sendall(len(frame).to_bytes(4, "big") + frame)
            except OSError as error:
                self._lost(peer, str(error))
                return
            if _needs_no_answer(frame):
                peer.current = 0
                self._answered(number, None)


def _needs_no_answer(frame: bytes) -> bool:
    """Whether it is a Produce with acks=0."""
    if int.from_bytes(frame[:2], "big") != PRODUCE:
        return False
    try:
        return bool(parse_request(frame).body.acks == 0)
    except ProtocolError:
        return False
